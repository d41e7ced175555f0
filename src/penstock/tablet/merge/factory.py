"""The factory of merge rules, by which a table's rows merge: every merge engine's rule is registered here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.model.table.merge_engine import MergeEngine
from penstock.model.table.table import TableSpec
from penstock.tablet.merge.aggregate_rule import AggregateRule
from penstock.tablet.merge.first_row import FirstRow
from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.merge.required_columns import RequiredColumns, required_columns
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.merge.versioned import Versioned

RULES: Final[Mapping[MergeEngine, Callable[[TableSpec], MergeRule]]] = {
    MergeEngine.LAST_ROW: LastRow.of,
    MergeEngine.FIRST_ROW: FirstRow.of,
    MergeEngine.VERSIONED: Versioned.of,
    MergeEngine.AGGREGATE: AggregateRule.of,
}


def merge_rule(table: TableSpec) -> MergeRule:
    """Return the rule by which a table merges rows; that of a log table is never asked."""
    rule = RULES[table.merge_engine or MergeEngine.LAST_ROW](table)
    return RequiredColumns(rule, table.schema) if required_columns(table.schema) else rule
