import pytest

from penstock.codec.stored.framed import FRAME_BYTES, frame, framed_length, unframe
from penstock.errors import CorruptionError, UnsupportedError

MAGIC = b"TEST"


@pytest.mark.parametrize("payload", [b"", b"x", bytes(1000)])
def test_payload_comes_back_with_its_version(payload: bytes) -> None:
    data = frame(MAGIC, 2, payload)

    assert unframe(MAGIC, 3, data, name="file") == (2, payload)
    assert framed_length(data + b"more") == len(data) == FRAME_BYTES + len(payload)


def test_every_flipped_bit_is_found() -> None:
    data = frame(MAGIC, 1, b"the payload")

    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptionError, match="file=some/file"):
                unframe(MAGIC, 1, bytes(damaged), name="some/file")


def test_every_truncation_is_found() -> None:
    data = frame(MAGIC, 1, b"the payload")

    for length in range(len(data)):
        with pytest.raises(CorruptionError):
            unframe(MAGIC, 1, data[:length], name="file")


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(CorruptionError, match="wrong length"):
        unframe(MAGIC, 1, frame(MAGIC, 1, b"payload") + b"\0", name="file")


def test_another_kind_of_file_is_refused() -> None:
    with pytest.raises(CorruptionError, match="magic"):
        unframe(b"ELSE", 1, frame(MAGIC, 1, b"payload"), name="file")


def test_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="upgrade") as caught:
        unframe(MAGIC, 1, frame(MAGIC, 2, b"payload"), name="manifest")

    assert caught.value.facts == {"file": "manifest", "version": 2, "supported": 1}
