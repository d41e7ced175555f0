"""Resume tokens: all of a scan's state, and nothing that is not one is taken for one."""

from __future__ import annotations

import random
from dataclasses import replace

import google_crc32c
import pytest

from penstock.engine.scan.resume_token import MAGIC, VERSION, ResumeToken
from penstock.errors import InvalidError
from penstock.model.place.bucket import BucketId

TOKEN = ResumeToken(
    schema_id=2,
    bucket=BucketId(7, 3, 11),
    log_offset=1 << 40,
    next_offset=12345,
    limit=99,
    page_bytes=4 << 20,
    columns=(0, 4, 2),
    filter=b"\x01id > 3",
)


@pytest.mark.parametrize(
    "token",
    [
        TOKEN,
        replace(TOKEN, limit=None, columns=(), filter=b"", next_offset=0),
        replace(TOKEN, database="0f" * 16),
        replace(TOKEN, database="0f" * 16, end=40),
    ],
)
def test_token_reads_back_as_it_was(token: ResumeToken) -> None:
    assert ResumeToken.decode(token.encode()) == token


def test_bytes_of_version_1_are_read_for_ever() -> None:
    written = bytes.fromhex(
        "50535254" "0100" "c6d6b8f0" "07000000" "03000000" "0b00" "02000000" "0000000000010000"
        "3930000000000000" "6300000000000000" "00004000" "0300" "07000000" "00000000" "04000000" "02000000"
        "016964203e2033"
    )  # fmt: skip

    assert ResumeToken.decode(written) == TOKEN
    assert TOKEN.encode() == written


def test_bytes_of_version_3_name_the_database() -> None:
    token = replace(TOKEN, database="0f" * 16)

    assert token.encode()[4:6] == b"\x03\x00"
    assert token.encode()[10:] == TOKEN.encode()[10:] + b"\xff" * 8 + b"\x0f" * 16


def test_every_flipped_bit_is_found() -> None:
    token = TOKEN.encode()
    for position in range(len(token) * 8):
        damaged = bytearray(token)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(InvalidError):
            ResumeToken.decode(bytes(damaged))


def test_every_cut_and_every_addition_is_found() -> None:
    token = TOKEN.encode()
    for length in range(len(token)):
        with pytest.raises(InvalidError):
            ResumeToken.decode(token[:length])
    with pytest.raises(InvalidError):
        ResumeToken.decode(token + b"\0")


def test_random_bytes_are_refused_even_with_a_right_checksum() -> None:
    seed = 11
    print(f"seed={seed}")
    source = random.Random(seed)
    for _ in range(2_000):
        body = source.randbytes(source.randrange(120))
        junk = MAGIC + VERSION.to_bytes(2, "little") + google_crc32c.value(body).to_bytes(4, "little") + body
        with pytest.raises(InvalidError):
            ResumeToken.decode(source.randbytes(60))
        try:
            token = ResumeToken.decode(junk)
        except InvalidError:
            continue
        assert token.encode() == junk


@pytest.mark.parametrize(
    "wrong",
    [replace(TOKEN, next_offset=(1 << 40) + 1), replace(TOKEN, next_offset=-1), replace(TOKEN, limit=-2)],
)
def test_numbers_out_of_range_are_refused(wrong: ResumeToken) -> None:
    with pytest.raises(InvalidError, match="out of range"):
        ResumeToken.decode(wrong.encode())


def test_token_of_a_later_version_says_so() -> None:
    token = bytearray(TOKEN.encode())
    token[4] = 5

    with pytest.raises(InvalidError, match="version 5"):
        ResumeToken.decode(bytes(token))


def test_token_of_a_range_keeps_its_end_and_one_without_keeps_its_bytes() -> None:
    ranged = replace(TOKEN, end=40)

    assert ResumeToken.decode(ranged.encode()) == ranged
    assert TOKEN.encode()[4] == 1
