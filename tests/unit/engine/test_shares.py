"""Shares: of each thing that is limited a caller with a name has at most three quarters; another goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.kit.open_table import open_tables, pins

from penstock.engine.changes.reader_pins import ReaderPins
from penstock.engine.engine import Engine
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.settings import Settings
from penstock.errors import LimitError, OverloadedError, PenstockError, TooManyScannersError
from penstock.model.node.calls import OpenScan, Operation, WriteCall
from penstock.model.node.lease import AcquireLease
from penstock.model.node.node import Node
from penstock.model.node.owner import AcquireOwner
from penstock.model.node.principal import ANONYMOUS, LOCAL
from penstock.model.node.share import Share
from penstock.model.place.bucket import TableBucket
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.tablet.settings import FsyncMode

SETTINGS = Settings(
    tables_max=8, leases_max=8, owners_per_table_max=8, scanners_per_bucket_max=8, fsync=FsyncMode.NEVER
)
SPEC = make_spec("id BIGINT, note STRING, PRIMARY KEY (id)")
HOUR_MS = 3_600_000


class Desk:
    """A node with one table of rows, made by nobody in particular."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.info: TableInfo = engine.catalog.create_table("t", SPEC)
        self.bucket: TableBucket = engine.catalog.buckets(self.info.table_id)[0]
        rows = pa.record_batch({"id": list(range(100)), "note": ["x" * 100] * 100})
        engine.tables.write(WriteCall(self.info.table_id, self.info.schema_id, Operation.UPSERT, rows))

    def node(self, name: str) -> Node:
        """Return the node as the principal before the `_` of a name sees it."""
        return self.engine.acting_as(name.partition("_")[0])

    def create_table(self, name: str) -> None:
        self.node(name).catalog.create_table(name, SPEC)

    def acquire_lease(self, name: str) -> None:
        self.node(name).leases.acquire(AcquireLease(name, HOUR_MS, (self.info.table_id,)))

    def acquire_owner(self, name: str) -> None:
        grant = self.node(name).owners.acquire(AcquireOwner(self.info.table_id, name))
        # Remembered all the same: what it committed must be known when it comes back.
        self.node(name).owners.release(grant.token)

    def open_scanner(self, name: str) -> None:
        self.node(name).scan.open(OpenScan(self.info.table_id, self.info.schema_id, self.bucket, page_bytes=1024))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    engine = Engine.open(tmp_path / "data", SETTINGS)
    yield Desk(engine)
    engine.close()


def take_all(take: Callable[[str], object], who: str) -> tuple[int, PenstockError]:
    """Take until it is refused; return how many were had, and the refusal."""
    for number in range(20_000):
        try:
            take(f"{who}_{number}")
        except PenstockError as error:
            return number, error
    raise AssertionError("there is no limit")


def test_share_of_a_named_caller_leaves_a_quarter_to_others() -> None:
    assert [Share(who, 100).size for who in ("ann", LOCAL, ANONYMOUS)] == [75, 100, 100]
    assert [Share("ann", 100).fits(held) for held in (74, 75)] == [True, False]
    assert Share(ANONYMOUS, 100).fits(10_000)
    # Whatever is asked for at first is had, also where a limit, or one thing, leaves no room for a quarter.
    assert Share("ann", 1).fits(0)
    assert Share("ann", 100).fits(0, 100)


@pytest.mark.parametrize(
    ("what", "kind", "others"),
    [
        ("create_table", LimitError, 1),
        ("acquire_lease", LimitError, 2),
        ("acquire_owner", LimitError, 2),
        ("open_scanner", TooManyScannersError, 2),
    ],
)
def test_greedy_caller_is_refused_and_another_goes_on(
    desk: Desk, what: str, kind: type[PenstockError], others: int
) -> None:
    take = getattr(desk, what)

    greedy, refused = take_all(take, "ann")
    other, full = take_all(take, "bob")

    assert (greedy, type(refused)) == (6, kind)
    assert refused.facts == {"principal": "ann", "share": 6, "most": 8}
    assert "ann has its share" in refused.message
    # The table of the desk is the eighth.
    assert (other, type(full)) == (others, kind)
    assert "share" not in full.message


def test_callers_without_a_name_take_it_all(desk: Desk) -> None:
    assert [take_all(take, ANONYMOUS)[0] for take in (desk.acquire_lease, desk.open_scanner)] == [8, 8]


def test_share_is_free_again_when_it_is_given_back(desk: Desk) -> None:
    ann = desk.node("ann")
    for _ in range(3):
        for number in range(6):
            desk.create_table(f"ann_{number}")
            desk.acquire_lease(f"ann_{number}")
            desk.acquire_owner(f"ann_{number}")
        for number in range(6):
            ann.catalog.drop_table(f"ann_{number}")
            ann.leases.drop(f"ann_{number}")
            ann.owners.drop(desk.info.table_id, f"ann_{number}", undo=True)


def test_what_a_caller_holds_already_is_had_again_at_the_limit(desk: Desk) -> None:
    take_all(desk.acquire_lease, "ann")
    take_all(desk.acquire_owner, "ann")
    desk.acquire_lease("ann_3")
    desk.acquire_owner("ann_3")


def test_share_of_the_tables_holds_after_a_restart(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "data", SETTINGS)
    take_all(lambda name: engine.acting_as("ann").catalog.create_table(name, SPEC), "ann")
    engine.close()

    engine = Engine.open(tmp_path / "data", SETTINGS)
    try:
        greedy, refused = take_all(
            lambda name: engine.acting_as("ann").catalog.create_table(f"more_{name}", SPEC), "ann"
        )
        other, _ = take_all(lambda name: engine.acting_as("bob").catalog.create_table(name, SPEC), "bob")
    finally:
        engine.close()

    assert (greedy, refused.facts["principal"], other) == (0, "ann", 2)


def test_cuts_and_readers_are_shared() -> None:
    with open_tables() as rig:
        table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")
        start = {table.bucket_id(table.buckets()[0]): 0}
        cuts = Cuts(rig.settings, rig.clock, most=8)
        readers = ReaderPins(rig.settings, rig.clock, most=8)

        greedy_cuts, no_cut = take_all(lambda name: cuts.open(table, principal="ann"), "ann")
        greedy_readers, no_reader = take_all(lambda name: readers.stand(table, name, start, principal="ann"), "ann")
        others = [take_all(lambda name: cuts.open(table, principal="bob"), "bob")[0]]
        others.append(take_all(lambda name: readers.stand(table, name, start, principal="bob"), "bob")[0])
        readers.stand(table, "ann_3", start, principal="ann")
        rig.clock.advance(rig.settings.scanner_ttl_ms + 1)
        reaped = [cuts.reap(), readers.reap()]
        again = [take_all(lambda name: cuts.open(table, principal="ann"), "ann")[0]]
        again.append(take_all(lambda name: readers.stand(table, name, start, principal="ann"), "ann")[0])

    assert (greedy_cuts, type(no_cut), no_cut.facts["principal"]) == (6, TooManyScannersError, "ann")
    assert (greedy_readers, type(no_reader), no_reader.facts["principal"]) == (6, OverloadedError, "ann")
    assert (others, reaped, again) == ([2, 2], [8, 8], [6, 6])


def test_named_cuts_are_shared_and_end() -> None:
    with open_tables() as rig:
        table = rig.create("default.t", "id BIGINT, PRIMARY KEY (id)")
        named = NamedCuts(MemoryMetadataStore(), rig.clock, most=8)

        greedy, refused = take_all(lambda name: named.take(table, name, HOUR_MS, principal="ann"), "ann")
        other, full = take_all(lambda name: named.take(table, name, HOUR_MS, principal="bob"), "bob")
        named.take(table, "ann_3", HOUR_MS, principal="ann")
        rig.clock.advance(HOUR_MS + 1)
        again, _ = take_all(lambda name: named.take(table, f"later_{name}", HOUR_MS, principal="ann"), "ann")

        assert (greedy, refused.facts["principal"], other, again) == (6, "ann", 2, 6)
        assert (type(refused), type(full)) == (TooManyScannersError, TooManyScannersError)
        assert len(pins(table)) == 6
