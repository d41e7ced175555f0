"""Owner tokens come back from outside: what is no token is told as such."""

from __future__ import annotations

import struct

import google_crc32c
import pytest

from penstock.errors import InvalidError
from penstock.model.node.owner_token import OwnerToken


def test_token_that_names_its_owner_in_no_utf8_is_invalid() -> None:
    good = OwnerToken(1, 2, "job", 3, 4, 5).to_bytes()
    bad = good[:-4].replace(b"job", b"\xff\xfe\xfd")
    crc = good[-4:]
    order = "<I" if struct.unpack("<I", crc)[0] == google_crc32c.value(good[:-4]) else ">I"

    with pytest.raises(InvalidError, match="names no owner"):
        OwnerToken.from_bytes(bad + struct.pack(order, google_crc32c.value(bad)))
    assert OwnerToken.from_bytes(good).owner == "job"
