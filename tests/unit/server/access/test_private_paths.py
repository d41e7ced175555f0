"""Errors that leave a server name no directory of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.errors import CorruptionError, PenstockError
from penstock.server.access.private_paths import PrivatePaths
from penstock.testing.server import ServerProcess


def test_way_to_the_directory_is_left_out_and_the_rest_stays(tmp_path: Path) -> None:
    error = CorruptionError(
        f"bytes of {tmp_path}/tables/1 are wrong", file=f"{tmp_path}/tables/1/2.log", root=str(tmp_path), offset=7
    )

    hidden = PrivatePaths(tmp_path).hide(error)

    assert type(hidden) is CorruptionError
    assert hidden.message == "bytes of tables/1 are wrong"
    assert hidden.facts == {"file": "tables/1/2.log", "root": "the data directory", "offset": 7}


def test_error_that_names_no_file_is_handed_on_as_it_is(tmp_path: Path) -> None:
    error = CorruptionError("a page is wrong", key="/not/ours", page=1)

    assert PrivatePaths(tmp_path).hide(error) is error
    assert PrivatePaths(None).hide(error) is error


def test_client_of_a_server_with_a_damaged_file_sees_no_path_of_its_machine(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        with penstock.connect(server.url) as conn:
            table = conn.create_table("t", "id BIGINT, v STRING, PRIMARY KEY (id)")
            table.upsert({"id": list(range(1_000)), "v": ["x" * 50] * 1_000})
            table.create_snapshot()
        server.kill()
        for file in (tmp_path / "data" / "tables").rglob("*"):
            if file.is_file():
                raw = bytearray(file.read_bytes())
                raw[len(raw) // 3] ^= 0xFF
                file.write_bytes(raw)
        server.start()
        with penstock.connect(server.url) as conn, pytest.raises(PenstockError) as caught:
            conn.table("t").scan().to_arrow()

    assert str(tmp_path) not in str(caught.value)
