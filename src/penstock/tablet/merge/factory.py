"""From a table to the rule by which its rows merge: the one place that knows which engine has which rule."""

from __future__ import annotations

from penstock.model.table.merge_engine import MergeEngine
from penstock.model.table.table import TableSpec
from penstock.tablet.merge.aggregate_rule import AggregateRule
from penstock.tablet.merge.first_row import FirstRow
from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.merge.required_columns import RequiredColumns, required_columns
from penstock.tablet.merge.rule import MergeRule
from penstock.tablet.merge.versioned import Versioned


def merge_rule(table: TableSpec) -> MergeRule:
    """Return the rule by which a table merges rows."""
    rule = _engine_rule(table)
    return RequiredColumns(rule, table.schema) if required_columns(table.schema) else rule


def _engine_rule(table: TableSpec) -> MergeRule:
    if table.merge_engine is MergeEngine.FIRST_ROW:
        return FirstRow()
    if table.merge_engine is MergeEngine.VERSIONED:
        assert table.version_column is not None
        return Versioned(table.schema.column(table.version_column).id)
    if table.merge_engine is MergeEngine.AGGREGATE:
        return AggregateRule(table.schema, table.options, table.added_columns)
    return LastRow(tuple(column.id for column in table.schema.key_columns))
