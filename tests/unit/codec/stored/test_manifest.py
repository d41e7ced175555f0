"""Manifests come back as they were written, or not at all."""

from __future__ import annotations

from random import Random

import pytest

from penstock.codec.stored.framed import frame
from penstock.codec.stored.manifest import (
    MAGIC,
    VERSION,
    FileEntry,
    Manifest,
    SpanEntry,
    decode_manifest,
    encode_manifest,
)
from penstock.errors import CorruptionError, UnsupportedError
from penstock.model.place.bucket import BucketId

MANIFEST = Manifest(
    bucket=BucketId(7, 2, 5),
    number=12,
    base=40,
    complete_from=38,
    checkpoint=55,
    log_start=60,
    durable_end=77,
    timestamp_ms=1_700_000_000_000,
    writer_state=bytes(range(40)),
    spans=(
        SpanEntry(0, 50, (FileEntry("data-1", "ends-3", 55), FileEntry("data-2", None, 55))),
        SpanEntry(50, 60, (FileEntry("data-4", None, 50),)),
    ),
    owner_state=b"owners",
)


def test_manifest_survives_as_bytes() -> None:
    assert decode_manifest(encode_manifest(MANIFEST), name="m") == MANIFEST


def test_every_file_is_named() -> None:
    assert MANIFEST.file_names() == {"data-1", "data-2", "data-4", "ends-3"}


def test_any_flipped_bit_is_found() -> None:
    data = encode_manifest(MANIFEST)
    random = Random(1)
    for _ in range(200):
        damaged = bytearray(data)
        damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
        with pytest.raises(CorruptionError, match="file=m"):
            decode_manifest(bytes(damaged), name="m")


def test_any_cut_is_found() -> None:
    data = encode_manifest(MANIFEST)
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptionError):
            decode_manifest(data[:size], name="m")


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"bucket": 3}', b"\xff"])
def test_frame_around_something_else_is_damage(payload: bytes) -> None:
    with pytest.raises(CorruptionError, match="does not say"):
        decode_manifest(frame(MAGIC, VERSION, payload), name="m")


def test_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="newer version"):
        decode_manifest(frame(MAGIC, VERSION + 1, b"{}"), name="m")
