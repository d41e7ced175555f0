"""Scan sessions under a name that the caller chose: a reply that is lost leaves no session behind."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from penstock.client.connection import Connection
from penstock.engine.engine import Engine
from penstock.engine.settings import Settings
from penstock.errors import InvalidScanRequestError, PermissionDeniedError, TooManyScannersError, UnavailableError
from penstock.model.node.calls import OpenScan, Page
from penstock.model.node.node import Node
from penstock.model.place.bucket import TableBucket

ROWS = 8_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings(scanners_per_bucket_max=2, scanners_per_server_max=8, page_bytes=4_096)
    engine = Engine.open(str(tmp_path / "data"), settings)
    with Connection(engine, "data") as connection:
        table = connection.create_table("t", "id BIGINT, PRIMARY KEY (id)", buckets=2)
        table.upsert({"id": list(range(ROWS))})
        yield engine


def call(engine: Engine, name: str | None = None, **changes: Any) -> OpenScan:
    info = engine.catalog.table("default.t")
    bucket = TableBucket("default.t", None, 0)
    return OpenScan(info.table_id, info.schema_id, bucket, scanner_id=name or uuid.uuid4().hex, **changes)


def test_session_that_is_opened_again_under_its_name_gives_its_first_page_again(engine: Engine) -> None:
    asked = call(engine)

    pages = [engine.scan.open(asked) for _ in range(10)]

    assert len({(page.scanner_id, page.log_offset, page.next_offset) for page in pages}) == 1
    assert all(page.batch == pages[0].batch for page in pages)
    assert len(engine.scan.list()) == 1
    assert engine.scan.next_page(str(asked.scanner_id), 1).rows


def test_session_that_pins_its_snapshot_has_one_cut_however_often_it_is_opened(engine: Engine) -> None:
    asked = call(engine, pin=True)

    assert len({engine.scan.open(asked).cut_id for _ in range(5)}) == 1


def test_session_that_went_on_is_not_opened_again(engine: Engine) -> None:
    asked = call(engine)
    engine.scan.open(asked)
    engine.scan.next_page(str(asked.scanner_id), 1)

    with pytest.raises(InvalidScanRequestError):
        engine.scan.open(asked)
    assert engine.scan.next_page(str(asked.scanner_id), 2).rows


def test_name_of_anothers_session_gives_nothing_away(engine: Engine) -> None:
    asked = call(engine)
    engine.acting_as("ann").scan.open(asked)

    with pytest.raises(PermissionDeniedError):
        engine.acting_as("bob").scan.open(asked)


@pytest.mark.parametrize("name", ["", "x", "A" * 32, "../" + "0" * 29, "0" * 33])
def test_name_of_another_form_is_refused(engine: Engine, name: str) -> None:
    asked = OpenScan(1, 0, TableBucket("default.t", None, 0), scanner_id=name)

    with pytest.raises(InvalidScanRequestError, match="32 hex digits"):
        engine.scan.open(asked)


def test_callers_who_open_one_session_at_the_same_time_share_it(engine: Engine) -> None:
    asked = call(engine)
    pages: list[Page] = []

    def open_it() -> None:
        for _ in range(50):
            with suppress(UnavailableError):
                pages.append(engine.scan.open(asked))

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({(page.scanner_id, page.next_offset) for page in pages}) == 1
    assert len(engine.scan.list()) == 1
    engine.scan.close(str(asked.scanner_id))
    assert engine.scan.list() == []
    for _ in range(2):
        engine.scan.open(call(engine))
    with pytest.raises(TooManyScannersError):
        engine.scan.open(call(engine))


def test_session_that_nobody_called_again_is_forsaken_and_one_in_use_is_not(engine: Engine) -> None:
    unused, used = call(engine), call(engine)
    engine.scan.open(unused)
    engine.scan.open(used)
    engine.scan.next_page(str(used.scanner_id), 1)

    for asked in (unused, used, call(engine)):
        engine.scan.forsake(str(asked.scanner_id))

    assert [info.scanner_id for info in engine.scan.list()] == [used.scanner_id]


class Lossy:
    """A node of which replies to openings get lost, seldom or often, after the work was done."""

    def __init__(self, node: Node, dice: Random) -> None:
        self._node = node
        self._dice = dice

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._node, name)
        if not name.startswith("open_scanner"):
            return method

        def lose(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            if self._dice.random() < 0.5:
                raise UnavailableError("the reply was lost")
            return answer

        return lose


@pytest.mark.parametrize("distant", [False, True])
def test_scans_end_and_leave_no_session_although_half_of_the_openings_are_not_heard_of(
    engine: Engine, distant: bool
) -> None:
    seed = 20
    print(f"seed={seed}")
    connection = Connection(cast(Node, Lossy(engine, Random(seed))), "lossy", distant=distant)
    table = connection.table("t")

    for buckets in [None, [0], [1]] * 3:
        assert table.scan(buckets=buckets).to_arrow().num_rows >= (ROWS if buckets is None else 1)

    assert engine.scan.list() == []
