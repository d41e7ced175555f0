"""Every peer of the benchmarks that can run here does what its sessions say they can; the others say why not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

import pyarrow as pa
import pytest
from bench.agreement import agree, fingerprint, totals_fingerprint
from bench.contest import running
from bench.loading import load
from bench.peers.peer import (
    Bootstraps,
    Changes,
    Drained,
    Folds,
    Looks,
    Parts,
    Peer,
    PeerError,
    Processes,
    Scans,
    Session,
)
from bench.peers.roster import find, modules
from bench.workload import SCHEMA, Workload

# What the clients of other systems warn of is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")

ROWS = 300
# Not pytest's: a server that runs as a user of its own must reach its directory, which is gone afterwards.
ROOT = Path(gettempdir())


@pytest.mark.parametrize("name", modules())
def test_peer_does_what_its_sessions_say(name: str) -> None:
    work = Workload(ROWS, 100, seed=1, root=ROOT)
    peer, why = _found(name)
    if peer is None:
        assert why
        return

    with work.directory() as directory, running(peer, directory):
        session = peer.session()
        _keeps_rows(session, work)
        _tells_changes(session, work)
        _reads_by_key(session)
        _sets_one_column(session, work)
        _folds(session)
        assert peer.settings()
        session.close()
        _comes_back_when_killed(peer, directory)


def _found(name: str) -> tuple[Peer | None, str]:
    try:
        return find(name), ""
    except PeerError as error:
        return None, str(error)


def _keeps_rows(session: Session, work: Workload) -> None:
    load(session, work, changelog=True)
    if isinstance(session, Scans):
        rows = pa.Table.from_batches(work.batches())
        agree("all rows", fingerprint(session.scan(SCHEMA.names)), fingerprint(rows))
        agree("two columns", fingerprint(session.scan(["id", "amount"])), fingerprint(rows.select(["id", "amount"])))
        chosen = rows.filter(pa.compute.field("items") == 3)
        agree("a filter", fingerprint(session.scan(SCHEMA.names, 3)), fingerprint(chosen))


def _tells_changes(session: Session, work: Workload) -> None:
    everything = Drained(ROWS, ROWS * (ROWS - 1) // 2)
    if isinstance(session, Changes):
        assert session.drain() == everything
        assert session.drain() == Drained(0, 0)
    if isinstance(session, Bootstraps):
        with session.bootstrap() as bootstrap:
            assert bootstrap.snapshot().num_rows == ROWS
            for batch in work.batches(salt=1):
                session.upsert(batch)
            assert bootstrap.tail(ROWS) == everything


def _reads_by_key(session: Session) -> None:
    if isinstance(session, Looks):
        assert session.lookup([1]) == 1
        assert session.lookup([1, 2, ROWS]) == 2


def _sets_one_column(session: Session, work: Workload) -> None:
    if isinstance(session, Parts) and isinstance(session, Scans):
        cities = pa.compute.sum(session.scan(["items"]).column("items"))
        for batch in work.batches(salt=5):
            session.set_amounts(batch.select(["id", "amount"]))
        expected = pa.Table.from_batches(work.batches(salt=5)).select(["id", "amount"])
        agree("amounts", fingerprint(session.scan(["id", "amount"])), fingerprint(expected))
        assert pa.compute.sum(session.scan(["items"]).column("items")) == cities


def _folds(session: Session) -> None:
    if isinstance(session, Folds):
        session.create_totals()
        batch = pa.RecordBatch.from_pydict({"key": [1, 2, 1], "value": [10, 5, 20]})
        session.fold(batch)
        session.fold(batch)
        expected = pa.table({"key": [1, 2], "total": [60, 10], "top": [20, 5], "times": [4, 2]})
        agree("totals", totals_fingerprint(session.totals()), totals_fingerprint(expected))


def _comes_back_when_killed(peer: Peer, directory: Path) -> None:
    if isinstance(peer, Processes):
        assert peer.pids()
        peer.kill()
        peer.start(directory)
        with closing(peer.session()) as session:
            assert isinstance(session, Scans)
            assert session.scan(["id"]).num_rows == ROWS
