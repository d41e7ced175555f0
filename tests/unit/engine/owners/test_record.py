"""The stored record of an owner: it comes back as it was, and damage is found out."""

from __future__ import annotations

import pytest

from penstock.codec.stored.framed import frame
from penstock.engine.owners.record import MAGIC, VERSION, OwnerRecord, record_key
from penstock.errors import CorruptionError, UnsupportedError
from penstock.model.place.bucket import BucketId

RECORD = OwnerRecord(
    owner="job/7 ü",
    number=3,
    columns=(1, 4),
    fence=9,
    session=8,
    incarnation="query",
    ttl_ms=60_000,
    holder="host:1",
    used_ms=5,
    committed=6,
    opened=7,
    accepted=(b"a" * 16, b"b" * 16),
    lost=False,
    released=True,
    resting=True,
    principal="ann",
    offsets={BucketId(2, 0, 1): 99, BucketId(2, 70_000, 65_535): 1 << 60},
)


def test_record_comes_back_as_it_was() -> None:
    assert OwnerRecord.from_bytes(RECORD.to_bytes(), table_id=2, name="key") == RECORD
    assert RECORD.start(BucketId(2, 0, 1)) == 99
    assert RECORD.start(BucketId(2, 5, 0)) == 0


def test_key_is_plain_text_whatever_the_id() -> None:
    assert record_key(2, RECORD.owner) == "owner/2/job%2F7%20%C3%BC"


def test_hundred_thousand_buckets_stay_below_the_limit_of_a_value() -> None:
    offsets = {BucketId(1, partition, bucket): partition for partition in range(1_000) for bucket in range(100)}

    assert len(OwnerRecord("job", 0, None, 1, 1, None, 1, "", 0, offsets=offsets).to_bytes()) < 1_500_000


def test_damage_is_found_out() -> None:
    data = bytearray(RECORD.to_bytes())
    data[-1] ^= 1

    with pytest.raises(CorruptionError, match="checksum"):
        OwnerRecord.from_bytes(bytes(data), table_id=2, name="key")
    with pytest.raises(CorruptionError, match="does not say"):
        OwnerRecord.from_bytes(frame(MAGIC, VERSION, b"\x02\0\0\0{}"), table_id=2, name="key")
    with pytest.raises(UnsupportedError, match="upgrade"):
        OwnerRecord.from_bytes(frame(MAGIC, VERSION + 1, b""), table_id=2, name="key")


def test_record_of_version_1_without_a_principal_is_anybodys() -> None:
    facts = b'{"owner":"job","number":0,"columns":null,"fence":1,"session":1,"incarnation":null,"ttl_ms":1,"holder":"",'
    facts += b'"used_ms":0,"committed":-1,"opened":null,"accepted":[],"lost":false,"released":false}'
    stored = frame(MAGIC, 1, len(facts).to_bytes(4, "little") + facts)

    record = OwnerRecord.from_bytes(stored, table_id=2, name="key")

    assert record.principal is None
    record.check_principal("bob")
    record.check_outside()
