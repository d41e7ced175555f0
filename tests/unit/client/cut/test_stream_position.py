from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.cut.stream_position import SnapshotPosition, StreamPosition
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket

BUCKETS = {TableBucket("shop.t", None, 0): 5, TableBucket("shop.t", None, 1): 0}


def test_a_position_comes_back_as_it_was() -> None:
    position = StreamPosition.of("0f" * 16, 3, BUCKETS, SnapshotPosition(b"\x00token", 17))

    back = StreamPosition.decode(position.encode())

    assert back == position
    assert back.bucket_offsets("shop.t") == BUCKETS


def test_a_position_is_json_that_people_can_read() -> None:
    facts = json.loads(StreamPosition.of("0f" * 16, 3, BUCKETS, None).encode())

    assert facts == {
        "version": 3,
        "database": "0f" * 16,
        "table_id": 3,
        "births": None,
        "offsets": [[None, 0, 5], [None, 1, 0]],
        "snapshot": None,
    }


def test_a_position_of_before_databases_had_ids_is_taken() -> None:
    stored = StreamPosition.decode('{"version":1,"table_id":1,"offsets":[[null,0,400]],"snapshot":null}')

    assert stored == StreamPosition(1, {(None, 0): 400})
    assert stored.database is None


def test_the_text_of_a_cut_is_a_position_too() -> None:
    stored = StreamPosition.decode('{"database":"0f","table":3,"offsets":{"0":"5","day=mon/1":"0"}}')

    assert stored == StreamPosition(3, {(None, 0): 5, ("day=mon", 1): 0}, None, None, "0f")


@pytest.mark.parametrize("text", ["", "x", "[]", "5", "null", "{}", "[" * 100_000])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="not a position of a change stream"):
        StreamPosition.decode(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 1},
        {"version": 2},
        {"version": 4},
        {"database": None},
        {"table_id": -1},
        {"table_id": None},
        {"offsets": {}},
        {"offsets": [5]},
        {"offsets": [[None, 0]]},
        {"offsets": [[1, 0, 5]]},
        {"offsets": [[None, 0, -5]]},
        {"offsets": [[None, 0, 5], [None, 0, 5]]},
        {"snapshot": 5},
        {"snapshot": {"token": "!", "cut_us": 1}},
        {"snapshot": {"token": "", "cut_us": "x"}},
        {"snapshot": {"token": ""}},
        {"more": 1},
    ],
)
def test_a_wrong_field_is_refused(changes: dict[str, Any]) -> None:
    facts = {**json.loads(StreamPosition.of("0f" * 16, 3, BUCKETS, None).encode()), **changes}

    with pytest.raises(InvalidError, match="not a position of a change stream"):
        StreamPosition.decode(json.dumps(facts))
