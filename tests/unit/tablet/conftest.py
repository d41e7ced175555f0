"""Rows and plans in a line: how the tests of merge rules say what meets what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.model.place.change import OP, PREV, SYSTEM_FIELDS, Op
from penstock.tablet.merge.key_groups import group_keys
from penstock.tablet.merge.rule import MergeRule, Offsets, Request
from penstock.tablet.plan.plan import Plan, plan_request
from penstock.tablet.schema import TabletSchema

SCHEMA = TabletSchema.of(
    1,
    pa.schema([pa.field("0", pa.int64()), pa.field("1", pa.string()), pa.field("2", pa.int64()), *SYSTEM_FIELDS]),
    (0,),
)

Planning = Callable[..., Plan]
Told = list[tuple[str, int, tuple[Any, ...]]]


@pytest.fixture
def plan() -> Planning:
    """Return a planner of one request: key, "1", "2" of each row, against stored rows by offset."""

    def make(
        rule: MergeRule,
        rows: Sequence[tuple[Any, ...]],
        *,
        stored: dict[int, tuple[Any, ...]] | None = None,
        names: Sequence[str] = ("0", "1", "2"),
        base_offset: int = 100,
        **request: Any,
    ) -> Plan:
        stored = stored or {}
        fields = [SCHEMA.storage.field(name) for name in names]
        arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        deletes = request.pop("deletes", None)
        asked = Request(
            batch,
            SCHEMA.encode_keys(batch),
            None if deletes is None else np.array(deletes, np.bool_),
            **request,
        )
        groups, distinct = group_keys(asked.keys)
        assert SCHEMA.codec is not None
        (keys,) = SCHEMA.codec.decode(distinct)
        live = {row[0]: offset for offset, row in stored.items()}
        groups = groups.with_live(np.array([live.get(key, -1) for key in keys.to_pylist()], np.int64))

        def fetch(offsets: Offsets, columns: pa.Schema) -> pa.RecordBatch:
            found = [stored[offset] for offset in offsets.tolist()]
            arrays = [pa.array([row[int(field.name)] for row in found], field.type) for field in columns]
            return pa.RecordBatch.from_arrays(arrays, schema=columns)

        return plan_request(asked, groups, distinct, rule=rule, fetch=fetch, schema=SCHEMA, base_offset=base_offset)

    return make


@pytest.fixture
def told() -> Callable[[Plan], Told]:
    """Return a reader of plans: operation, replaced offset and image of each change."""

    def read(plan: Plan) -> Told:
        rows = plan.batch.to_pylist()
        return [(Op(row[OP]).name.lower(), row[PREV], (row["0"], row["1"], row["2"])) for row in rows]

    return read
