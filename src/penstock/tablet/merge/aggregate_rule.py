"""The rule `aggregate`: each column folds what is written into what is there, by its own function.

A batch is folded by key first, so a key is one change however often it occurs. A column that the
writer did not name keeps its value. A row that comes out as it was is no change, unless an undo may take
away what the write would have made.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.keys.equality import rows_equal
from penstock.codec.keys.fixed_width import taken
from penstock.errors import InvalidError, UnsupportedError
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Column, Schema
from penstock.model.table.properties import Retract, TableProperties
from penstock.model.table.table import TableSpec
from penstock.tablet.merge.aggregates.inputs import Inputs, SlotRefusedError, refuse_first, validity
from penstock.tablet.merge.aggregates.registry import AGGREGATES, Nulls
from penstock.tablet.merge.aggregates.rounds import arrange, rounds_of
from penstock.tablet.merge.aggregates.segments import Mask, Segments
from penstock.tablet.merge.key_groups import KeyGroups
from penstock.tablet.merge.last_row import LastRow
from penstock.tablet.merge.rule import Fetch, Merged, Request

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A request and the rows that it meets: `groups` has one row for each slot, `old` its stored values.

    `insisted` tells of which of these a write is a change though it leaves them as they are; None: of none.
    """

    request: Request
    segments: Segments
    groups: KeyGroups
    there: Mask
    old: pa.RecordBatch
    insisted: Mask | None = None

    @property
    def first_rows(self) -> Offsets:
        """Return the first row of each slot, as the rows came."""
        order, starts = self.segments.order, self.segments.starts
        return np.arange(self.segments.rows) if order is None or starts is None else order[starts]


@dataclass(frozen=True, slots=True)
class _Folded:
    """The outcome of a meeting for its slots: their rows, which of them go, which are changes (None: all)."""

    images: pa.RecordBatch
    deletes: Mask | None
    accept: Mask | None


class AggregateRule:
    """The fold of all that was written for a key is its row."""

    def __init__(self, schema: Schema, options: TableProperties, added: Container[str] = ()) -> None:
        """Fold by the functions of a schema; `added` names the columns that every writer may leave out."""
        self._added = added
        # A count grows with every input: where it comes first, no other column need be compared.
        columns = sorted(schema.value_columns, key=lambda column: column.agg is not AggFunction.COUNT)
        self._columns = {str(column.id): column for column in columns}
        self._keys = {str(column.id): column.name for column in schema.key_columns}
        self._retract = options.aggregate_retract
        self._value_bytes_max = options.aggregate_max_value_bytes
        counter = options.aggregate_delete_at_zero
        self._counter = None if counter is None else str(schema.column(counter).id)
        self._clears = LastRow(tuple(column.id for column in schema.key_columns))

    @classmethod
    def of(cls, table: TableSpec) -> AggregateRule:
        """Return the rule of a table."""
        return cls(table.schema, table.options, table.added_columns)

    def merge(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Return the rows to store, one for each key.

        Raises:
            ArithmeticOverflowError: a value does not fit its column.
            LimitError: a value grows too large.
            UnsupportedError: a function cannot take a value back.
            InvalidError: a value is malformed, or a row would begin without its first_value.
        """
        if request.clears:
            return self._clears.merge(request, groups, fetch, schema)
        assert request.deletes is None
        if request.calls is not None and not groups.distinct:
            return self._merge_calls(request, groups, fetch, schema)
        met = self._meet(request, groups, fetch, schema)
        folded = self._fold(met, schema)
        return Merged(folded.images, met.groups, folded.deletes, folded.accept, met.segments.lengths, request.calls)

    def _merge_calls(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> Merged:
        """Fold the rows of several calls, each call's by itself and on top of the one before."""
        assert request.calls is not None
        assert request.retracts is None
        assert self._counter is None, "rows that go would have to come back in a later round"
        rounds = rounds_of(groups, request.calls)
        values = self._values(schema)
        done: list[_Folded] = []
        for number, one in enumerate(rounds):
            insisted = None
            if number == 0:
                there, insisted = groups.live >= 0, request.insists(groups.live)
                old = _stored(groups.live, there, fetch, values)
            else:
                # Keys of a round ascend, and every key of this round was in the one before, so the search finds its
                # slot exactly.
                before = np.searchsorted(rounds[number - 1].keys, one.keys)
                there = np.ones(len(one.keys), np.bool_)
                old = done[-1].images.select(values.names).take(pa.array(before))
            done.append(self._fold(_Meeting(request, one.segments, groups, there, old, insisted), schema))
        arranged = arrange(rounds, groups)
        accept = np.concatenate([_accepted(folded) for folded in done])[arranged.places]
        return Merged(
            pa.concat_batches([folded.images for folded in done]).take(pa.array(arranged.places)),
            arranged.groups,
            accept=None if accept.all() else accept,
            folded=np.concatenate([one.segments.lengths for one in rounds])[arranged.places],
            calls=np.concatenate([one.calls for one in rounds])[arranged.places],
        )

    def _fold(self, met: _Meeting, schema: pa.Schema) -> _Folded:
        inputs, folded, written = {}, {}, met.request.rows.schema.names
        for name, column in self._columns.items():
            try:
                if name in written:
                    inputs[name] = self._inputs(column, met)
                    folded[name] = AGGREGATES[_function(column)].run(met.request.mode)(inputs[name])
                elif column.agg is AggFunction.FIRST_VALUE and column.name not in self._added:
                    refuse_first(~met.there, InvalidError, "a new row needs its first_value; name the column")
            except SlotRefusedError as refused:
                raise self._refusal(refused, column, met) from refused
        deletes, accept = self._gone(inputs, folded), _changed(met, folded)
        if deletes is not None:
            accept |= deletes
        if met.insisted is not None:
            accept |= met.insisted & _made_alone(met, inputs)
        return _Folded(self._images(met, folded, schema), deletes, None if accept.all() else accept)

    def _meet(self, request: Request, groups: KeyGroups, fetch: Fetch, schema: pa.Schema) -> _Meeting:
        segments = Segments.of(groups)
        if segments.starts is None:
            # No key repeats, so the slots are the rows as they came, while `groups.live` is by sorted key: bring it
            # into row order. Where keys repeat, slots are by sorted key already.
            live = np.empty(segments.count, np.int64)
            live[groups.order] = groups.live
        else:
            live = groups.live
            groups = KeyGroups.of_distinct(live)
        there = live >= 0
        old = _stored(live, there, fetch, self._values(schema))
        return _Meeting(request, segments, groups, there, old, request.insists(live))

    def _values(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name in self._columns])

    def _inputs(self, column: Column, met: _Meeting) -> Inputs:
        """Return the inputs of a column, without what its function skips."""
        segments, name = met.segments, str(column.id)
        aggregate = AGGREGATES[_function(column)]
        given = met.request.rows.column(name)
        counted = None if aggregate.nulls is Nulls.TAKEN else segments.arrange_mask(validity(given))
        retracts = segments.arrange_mask(met.request.retracts)
        if retracts is not None and not aggregate.retracts:
            if self._retract is Retract.ERROR:
                refuse_first(
                    segments.any(retracts if counted is None else retracts & counted),
                    UnsupportedError,
                    f"{aggregate.function} cannot take a value back; set aggregate.retract=ignore to let it stand",
                )
            counted = ~retracts if counted is None else counted & ~retracts
            retracts = None
        old = met.old.column(name)
        return Inputs(column, segments, given, old, met.there, self._value_bytes_max, counted, retracts)

    def _gone(self, inputs: dict[str, Inputs], folded: dict[str, pa.Array]) -> Mask | None:
        """Tell which rows go because this write leaves their count at zero; None: none does."""
        if self._counter is None or self._counter not in folded:
            return None
        zero = pc.equal(folded[self._counter], 0).fill_null(False).to_numpy(zero_copy_only=False)
        gone: Mask = zero & inputs[self._counter].touched
        return gone if gone.any() else None

    def _images(self, met: _Meeting, folded: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
        rows = None if met.segments.starts is None else met.first_rows
        arrays = []
        for field in schema:
            if field.name in self._keys:
                keys = met.request.rows.column(field.name)
                arrays.append(keys if rows is None else taken(keys, rows))
            else:
                arrays.append(folded[field.name] if field.name in folded else met.old.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _refusal(self, refused: SlotRefusedError, column: Column, met: _Meeting) -> InvalidError:
        row = int(met.first_rows[refused.slot])
        key = {name: met.request.rows.column(place)[row].as_py() for place, name in self._keys.items()}
        return refused.kind(refused.message, column=column.name, key=key, **refused.facts)


def _accepted(folded: _Folded) -> Mask:
    return np.ones(folded.images.num_rows, np.bool_) if folded.accept is None else folded.accept


def _function(column: Column) -> AggFunction:
    assert column.agg is not None, "every column outside the key of an aggregating table has a function"
    return column.agg


def _stored(live: Offsets, there: Mask, fetch: Fetch, columns: pa.Schema) -> pa.RecordBatch:
    """Return the live row of each slot, nulls where it has none."""
    if there.all():
        return fetch(live, columns)
    if not there.any():
        return pa.RecordBatch.from_arrays([pa.nulls(len(live), field.type) for field in columns], schema=columns)
    return fetch(live[there], columns).take(pa.array(np.cumsum(there) - 1, mask=~there))


def _made_alone(met: _Meeting, inputs: dict[str, Inputs]) -> Mask:
    """Tell which slots would have a row if only this write had been made: not those that take back nothing."""
    retracts = met.segments.arrange_mask(met.request.retracts)
    if retracts is None:
        return np.ones(len(met.there), np.bool_)
    made = met.segments.any(~retracts)
    for given in inputs.values():
        made = made | given.touched
    return made


def _changed(met: _Meeting, folded: dict[str, pa.Array]) -> Mask:
    """Tell which slots come out other than they were."""
    changed = ~met.there
    for name, values in folded.items():
        if changed.all():
            break
        changed |= ~rows_equal(values, met.old.column(name))
    retracts = met.segments.arrange_mask(met.request.retracts)
    if retracts is None:
        return changed
    # Taking back nothing from nothing makes no row.
    made = met.there | met.segments.any(~retracts)
    for values in folded.values():
        made |= values.is_valid().to_numpy(zero_copy_only=False)
    return changed & made
