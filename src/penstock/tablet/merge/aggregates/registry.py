"""The table of aggregate functions: what each does with nulls, retractions and large values.

The guide and the tests are made from this table. Which types a function takes stands in
`penstock.model.schema.aggregate`, since it is checked where tables are created.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

from penstock.model.schema.agg_mode import AggMode
from penstock.model.schema.aggregate import AggFunction, types_taken
from penstock.tablet.merge.aggregates.arrays import fold_array_agg
from penstock.tablet.merge.aggregates.bitmaps import fold_rbm32, fold_rbm64, replace_rbm32, replace_rbm64
from penstock.tablet.merge.aggregates.extremes import fold_max, fold_min
from penstock.tablet.merge.aggregates.growth import replace_within_size
from penstock.tablet.merge.aggregates.inputs import Inputs
from penstock.tablet.merge.aggregates.logic import fold_and, fold_or
from penstock.tablet.merge.aggregates.picks import fold_first, fold_first_not_null, fold_last, replace_with_last
from penstock.tablet.merge.aggregates.products import fold_product
from penstock.tablet.merge.aggregates.sums import fold_count, fold_sum, merge_count
from penstock.tablet.merge.aggregates.texts import fold_listagg

Fold = Callable[[Inputs], pa.Array]


class Nulls(StrEnum):
    """The effect of a null input."""

    SKIPPED = "skipped; all null is null"
    NOT_COUNTED = "skipped; all null is 0"
    TAKEN = "taken as a value"


class Excess(StrEnum):
    """The treatment of a result that is too large."""

    CHECKED = "error, for the final value; floats are IEEE"
    CAPPED = "error beyond `aggregate.max-value-bytes`"
    NEVER = "cannot happen"


class Order(StrEnum):
    """The part that the order of inputs plays."""

    FREE = "no"
    ROUNDING = "only to rounding"
    KEPT = "yes"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A row of the table, and how the function is run in each mode."""

    function: AggFunction
    fold: Fold
    nulls: Nulls
    excess: Excess
    order: Order
    retracts: bool = False
    merge_state: Fold | None = None
    replace: Fold = replace_with_last

    @property
    def types(self) -> str:
        """Return, in words, the types that the function takes."""
        return types_taken(self.function)

    def run(self, mode: AggMode) -> Fold:
        """Return what folds inputs in that mode."""
        if mode is AggMode.REPLACE:
            return self.replace
        return self.merge_state if mode is AggMode.MERGE_STATE and self.merge_state is not None else self.fold


_SKIPPED, _TAKEN = Nulls.SKIPPED, Nulls.TAKEN
_CHECKED, _CAPPED, _NEVER = Excess.CHECKED, Excess.CAPPED, Excess.NEVER
_FREE, _ROUNDING, _KEPT = Order.FREE, Order.ROUNDING, Order.KEPT

AGGREGATES: Final = {
    aggregate.function: aggregate
    for aggregate in (
        Aggregate(AggFunction.SUM, fold_sum, _SKIPPED, _CHECKED, _ROUNDING, retracts=True),
        Aggregate(AggFunction.PRODUCT, fold_product, _SKIPPED, _CHECKED, _ROUNDING),
        Aggregate(
            AggFunction.COUNT, fold_count, Nulls.NOT_COUNTED, _CHECKED, _FREE, retracts=True, merge_state=merge_count
        ),
        Aggregate(AggFunction.MIN, fold_min, _SKIPPED, _NEVER, _FREE),
        Aggregate(AggFunction.MAX, fold_max, _SKIPPED, _NEVER, _FREE),
        Aggregate(AggFunction.LAST_VALUE, fold_last, _TAKEN, _NEVER, _KEPT),
        Aggregate(AggFunction.LAST_VALUE_IGNORE_NULLS, fold_last, _SKIPPED, _NEVER, _KEPT),
        Aggregate(AggFunction.FIRST_VALUE, fold_first, _TAKEN, _NEVER, _KEPT),
        Aggregate(AggFunction.FIRST_VALUE_IGNORE_NULLS, fold_first_not_null, _SKIPPED, _NEVER, _KEPT),
        Aggregate(AggFunction.LISTAGG, fold_listagg, _SKIPPED, _CAPPED, _KEPT, replace=replace_within_size),
        Aggregate(AggFunction.ARRAY_AGG, fold_array_agg, _SKIPPED, _CAPPED, _KEPT, replace=replace_within_size),
        Aggregate(AggFunction.BOOL_AND, fold_and, _SKIPPED, _NEVER, _FREE),
        Aggregate(AggFunction.BOOL_OR, fold_or, _SKIPPED, _NEVER, _FREE),
        Aggregate(AggFunction.RBM32, fold_rbm32, _SKIPPED, _CAPPED, _FREE, replace=replace_rbm32),
        Aggregate(AggFunction.RBM64, fold_rbm64, _SKIPPED, _CAPPED, _FREE, replace=replace_rbm64),
    )
}
"""Every function, in the order of the guide."""
