"""Plan several requests of one bucket against the present view and against each other.

The requests of a group of commits are planned before any is written, so a later one must see the
changes of the earlier ones: their index writes lie over the index, their rows over the view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import LimitError
from penstock.log.batch_directory import BatchDirectory
from penstock.log.tail import Chunk, TailView
from penstock.model.place.bucket import LIFE_OFFSETS
from penstock.tablet.merge.key_groups import KeyGroups, group_keys
from penstock.tablet.merge.rule import MergeRule, Request, complete
from penstock.tablet.plan.plan import Plan, plan_request
from penstock.tablet.schema import TabletSchema
from penstock.tablet.view.ends import Ends
from penstock.tablet.view.span import Run, Span
from penstock.tablet.view.view import TabletView

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NO_KEYS = pa.array([], pa.binary())
_NO_OFFSETS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans made so far on top of a view: plans in order, and their index writes, newest first."""

    view: TabletView
    index_keys: pa.BinaryArray
    index_offsets: Offsets
    plans: tuple[Plan, ...] = ()

    @property
    def end(self) -> int:
        """Return the offset of the next change."""
        return self.plans[-1].end_offset if self.plans else self.view.visible

    def gather(self, offsets: Offsets, columns: pa.Schema) -> pa.RecordBatch:
        """Return rows of the view and of the plans, in the order asked."""
        view, spans = self.view, self.view.spans
        for plan in self.plans:
            if plan.batch.num_rows:
                start, end = plan.base_offset, plan.end_offset
                rows = TailView(plan.batch.schema, start, end, (Chunk(plan.batch),), BatchDirectory.empty())
                spans = (*spans, Span(start, end, (Run(rows, Ends()),)))
        if spans is not view.spans:
            view = TabletView.of(view.bucket, view.base, self.end, spans)
        return view.gather(offsets, columns)


@dataclass(frozen=True, slots=True)
class Met:
    """A request and the live rows that its keys meet, with all that is planned before it."""

    request: Request
    groups: KeyGroups
    distinct: pa.BinaryArray

    @property
    def unmet(self) -> Mask:
        """Tell for which rows of a request that expects some the live row is another one."""
        expected = self.request.expected
        assert expected is not None
        assert self.groups.distinct, "the router refuses a key that comes twice"
        unmet = np.empty(len(expected.offsets), np.bool_)
        # `live` is by sorted key and `expected` by row. Keys are distinct, so `order` maps one to the other.
        unmet[self.groups.order] = self.groups.live != expected.offsets[self.groups.order]
        return unmet


class Planner:
    """Plans the requests of one group for one bucket. Committer only."""

    def __init__(
        self,
        view: TabletView,
        schema: TabletSchema,
        rule: MergeRule,
        live_offsets: Callable[[pa.BinaryArray], Offsets],
        aged: int | None = None,
    ) -> None:
        """Plan on top of a view; writes of rows below `aged` are changes whatever they do."""
        self._schema = schema
        self._rule = rule
        self._live_offsets = live_offsets
        self._aged = aged
        self._offset_max = view.bucket.offset_max(view.base)
        self.planned = Planned(view, _NO_KEYS, _NO_OFFSETS)

    def meet(self, request: Request) -> Met:
        """Return a request for a table with a key beside the rows that it meets."""
        assert request.keys is not None
        groups, distinct = group_keys(request.keys)
        return Met(request, groups.with_live(self._live(distinct)), distinct)

    def plan(self, request: Request, met: Met | None = None) -> Plan:
        """Plan a request after everything planned before; it counts from now on.

        To take it back, restore `planned` as it was. `met` is what the request meets, if that is known.

        Raises:
            LimitError: the bucket's offsets are used up.
        """
        schema = self._schema
        base_offset = self.planned.end
        if not schema.keyed:
            kept = np.ones(request.rows.num_rows, np.bool_)
            # A handle that is older than a column sends rows without it.
            rows = complete(request.rows, schema.user_columns)
            plan = Plan(base_offset, rows, _NO_OFFSETS, _NO_OFFSETS, _NO_KEYS, _NO_OFFSETS, kept)
        else:
            met = self.meet(request) if met is None else met
            if self._aged:
                request = replace(request, aged=self._aged)
            plan = plan_request(
                request,
                met.groups,
                met.distinct,
                rule=self._rule,
                fetch=self._fetch,
                schema=schema,
                base_offset=base_offset,
            )
        if plan.end_offset > self._offset_max:
            raise LimitError(
                "the bucket has taken as many changes as one of a partition can; write to another partition",
                bucket=self.planned.view.bucket,
                changes=LIFE_OFFSETS,
            )
        self.planned = self._after(plan)
        return plan

    def _live(self, keys: pa.BinaryArray) -> Offsets:
        """Return the live offset of each distinct key, with all that is planned."""
        live = self._live_offsets(keys)
        planned = self.planned
        if len(planned.index_keys) == 0:
            return live
        # Null where nothing planned touches the key; for the rest the planned offset, -1 for a planned delete, hides
        # the index's.
        place = pc.index_in(keys, value_set=planned.index_keys)
        hit = place.is_valid().to_numpy(zero_copy_only=False)
        live[hit] = planned.index_offsets[place.drop_null().to_numpy()]
        return live

    def _fetch(self, offsets: Offsets, columns: pa.Schema) -> pa.RecordBatch:
        return self.planned.gather(offsets, columns)

    def _after(self, plan: Plan) -> Planned:
        before = self.planned
        keys, offsets = plan.index_keys, plan.index_offsets
        if len(before.index_keys):
            # Each key stays once, with its newest offset: `index_in` in `_live` finds one place of a key only.
            older = ~pc.is_in(before.index_keys, value_set=keys).to_numpy(zero_copy_only=False)
            keys = pa.concat_arrays([keys, before.index_keys.filter(pa.array(older))])
            offsets = np.concatenate([offsets, before.index_offsets[older]])
        return Planned(before.view, keys, offsets, (*before.plans, plan))
