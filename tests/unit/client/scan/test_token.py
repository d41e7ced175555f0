from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.scan.token import BucketPosition, ScanToken
from penstock.errors import InvalidError

TOKEN = ScanToken(
    table_id=7,
    schema_id=2,
    source="live",
    columns=("id", "naïve"),
    filter=b"\x01id > 5",
    limit=12,
    buckets=(BucketPosition(None, 0, 100, 40), BucketPosition("day=2024-01-01", 1, 9, None)),
)

positions = st.builds(
    lambda partition, bucket, bounds, done: BucketPosition(partition, bucket, bounds[1], None if done else bounds[0]),
    st.none() | st.text(max_size=10),
    st.integers(0, 1000),
    st.tuples(st.integers(0, 1 << 60), st.integers(0, 1 << 60)).map(lambda pair: tuple(sorted(pair))),
    st.booleans(),
)
tokens = st.builds(
    ScanToken,
    table_id=st.integers(0, 1 << 32),
    schema_id=st.integers(0, 1 << 31),
    source=st.sampled_from(["live", "log"]),
    columns=st.lists(st.text(max_size=8)).map(tuple),
    filter=st.none() | st.binary(max_size=20),
    limit=st.none() | st.integers(0, 1 << 60),
    buckets=st.lists(positions, unique_by=lambda p: (p.partition, p.bucket), max_size=5).map(tuple),
)


def forged(**changes: Any) -> bytes:
    body = json.dumps({**json.loads(TOKEN.encode()[9:]), **changes}).encode()
    return struct.pack(">4sBI", b"PSCT", 1, google_crc32c.value(body)) + body


@given(tokens)
def test_a_token_comes_back_as_it_was(token: ScanToken) -> None:
    assert ScanToken.decode(token.encode()) == token


def test_every_single_flipped_bit_is_noticed() -> None:
    good = TOKEN.encode()
    for position in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            with pytest.raises(InvalidError, match="not a resume token"):
                ScanToken.decode(bytes(bad))


def test_every_truncation_is_noticed() -> None:
    good = TOKEN.encode()
    for length in range(len(good)):
        with pytest.raises(InvalidError, match="not a resume token"):
            ScanToken.decode(good[:length])


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(foreign: bytes) -> None:
    with pytest.raises(InvalidError, match=r"pass the bytes of scan.resume_token unchanged"):
        ScanToken.decode(foreign)


def test_a_pickle_is_refused_without_being_loaded() -> None:
    with pytest.raises(InvalidError, match="it begins with other bytes"):
        ScanToken.decode(pickle.dumps({"table_id": 1}))


def test_another_version_is_named() -> None:
    bad = bytearray(TOKEN.encode())
    bad[4] = 9
    with pytest.raises(InvalidError, match="of version 9, this is version 3"):
        ScanToken.decode(bytes(bad))


def test_text_is_refused() -> None:
    with pytest.raises(InvalidError, match="it is a str, not bytes"):
        ScanToken.decode("PSCT")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"table_id": -1},
        {"table_id": True},
        {"table_id": 1 << 63},
        {"schema_id": "2"},
        {"source": 5},
        {"columns": None},
        {"columns": [1]},
        {"filter": "not base64!"},
        {"filter": 5},
        {"limit": -1},
        {"limit": 1.5},
        {"buckets": None},
        {"buckets": [[None, 0, 5]]},
        {"buckets": ["nope"]},
        {"buckets": [[5, 0, 5, 5]]},
        {"buckets": [[None, 0, 5, 6]]},
        {"buckets": [[None, 0, 5, 5], [None, 0, 5, 5]]},
        {"more": 1},
    ],
)
def test_a_wrong_field_with_a_right_checksum_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidError, match="not a resume token"):
        ScanToken.decode(forged(**changes))
