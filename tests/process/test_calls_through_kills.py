"""Every public call waits for a server that is killed under it, or stopped, and is back within seconds."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pytest

import penstock
from penstock.client.connection import Connection
from penstock.client.table import Table
from penstock.errors import AlreadyExistsError, NotFoundError, UnknownOrExpiredScannerError
from penstock.testing.server import ServerProcess

ENDS: Final = 4
"""How often the server goes, in turn by a kill and by a stop, for each group of calls."""
ROWS: Final = 2_000
_numbers = itertools.count()


def fresh(word: str) -> str:
    return f"{word}_{next(_numbers)}"


class Callers:
    """Calls of every kind, each with what it needs of its own."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.table = self._keyed()
        self.small = self._keyed()
        self.log = connection.create_table(fresh("log"), "id BIGINT, v BIGINT")
        self.days = connection.create_table(
            fresh("days"), "id BIGINT, day STRING, v BIGINT, PRIMARY KEY (id, day)", partitioned_by=["day"]
        )
        self.wide = connection.create_table(fresh("wide"), "a BIGINT, b BIGINT, v BIGINT, PRIMARY KEY (a, b)")
        self.wide.upsert([{"a": 1, "b": number, "v": 0} for number in range(5)])
        self.table.upsert(pa.table({"id": range(ROWS), "v": range(ROWS)}))
        self.small.upsert([{"id": 1, "v": 1}])

    def _keyed(self) -> Table:
        ddl = "id BIGINT, v BIGINT, PRIMARY KEY (id)"
        return self.connection.create_table(fresh("t"), ddl, buckets=2, if_not_exists=True)

    def databases(self) -> None:
        name = fresh("d")
        self._once(lambda: self.connection.create_database(name))
        assert name in self.connection.list_databases()
        self._once(lambda: self.connection.drop_database(name))

    def tables(self) -> None:
        name = fresh("x")
        self._once(lambda: self.connection.create_table(name, "id BIGINT PRIMARY KEY"))
        table = self.connection.table(name)
        self._once(lambda: table.add_column("more", "BIGINT"))
        assert name in self.connection.list_tables("default")
        self._once(lambda: self.connection.drop_table(name))

    def partitions(self) -> None:
        day = {"day": fresh("day")}
        self._once(lambda: self.days.create_partition(day))
        self.days.upsert([{"id": 1, **day, "v": 1}])
        assert f"day={day['day']}" in self.days.list_partitions() or day["day"] in str(self.days.list_partitions())
        self._once(lambda: self.days.drop_partition(day))

    def writes(self) -> None:
        self.small.upsert([{"id": 2, "v": 2}])
        self.small.apply_changes(pa.table({"id": [3], "v": [3], "_change_type": ["+I"]}))
        self.small.delete([{"id": 2}])
        assert self.small.get(id=3) == {"id": 3, "v": 3}
        self.small.delete_where("id = 3")
        self.log.append([{"id": 1, "v": 1}])
        self.small.truncate()
        self.small.upsert([{"id": 1, "v": 1}])

    def writer(self) -> None:
        table = self._keyed()
        with table.writer(batch_rows=50) as writer:
            for number in range(1_000):
                writer.upsert({"id": number, "v": number})
        assert table.scan().to_arrow().num_rows == 1_000

    def lookups(self) -> None:
        assert self.table.get(id=7) == {"id": 7, "v": 7}
        assert self.table.lookup([1, 2, ROWS]).num_rows == 3
        assert self.wide.prefix_lookup(a=1).num_rows == 5

    def scans(self) -> None:
        assert self.table.scan().to_arrow().num_rows == ROWS
        scan = self.table.scan()
        found = next(scan).num_rows
        token = scan.resume_token
        scan.close()
        found += sum(batch.num_rows for batch in self.connection.resume_scan(token))
        assert found == ROWS
        assert self.table.scan(as_of=self.table.cut()).to_arrow().num_rows == ROWS
        assert self.table.scan(source="log").to_arrow().num_rows == ROWS
        assert self.table.scan(limit=3).to_arrow().num_rows == 3

    def changes(self) -> None:
        assert sum(batch.num_rows for batch in self.table.changes(start="earliest")) == ROWS
        with self.table.snapshot_and_follow() as stream:
            rows = 0
            while rows < ROWS:
                rows += next(stream).num_rows
        assert rows == ROWS

    def facts(self) -> None:
        assert self.table.stats().live_rows == ROWS
        assert sum(at.end for at in self.table.offsets().values()) == ROWS
        self.connection.list_scanners()
        self.connection.list_owners()
        self.connection.list_leases()
        with pytest.raises(UnknownOrExpiredScannerError):
            self.connection.kill_scanner("nobody")

    def leases(self) -> None:
        assert len(self.table.create_snapshot()) == 2
        assert self.table.list_snapshots()
        name = fresh("lease")
        lease = self.connection.acquire_lease(name, self.table.latest_snapshots)
        lease.renew("2h")
        assert lease.bytes >= 0
        assert self.connection.lease(name).id == name
        assert lease.table(self.table.path).scan().to_arrow().num_rows == ROWS
        assert self.table.scan(lease=lease).to_arrow().num_rows == ROWS
        lease.release([next(iter(lease.snapshots))])
        self._once(lease.drop)

    def owners(self) -> None:
        table = self._keyed()
        name = fresh("owner")
        owner = table.acquire_owner(name)
        assert owner.begin(0) == "new"
        table.upsert([{"id": 1, "v": 1}], owner=owner)
        owner.commit(0)
        owner.begin(1)
        table.upsert([{"id": 1, "v": 2}], owner=owner)
        owner.undo()
        owner.renew()
        owner.leave()
        table.upsert([{"id": 2, "v": 2}], owner=owner)
        owner.release()
        assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]
        self._once(lambda: self.connection.drop_owner(name, table.path))

    def attempts(self) -> None:
        table = self._keyed()
        owner = table.acquire_owner(fresh("owner"))
        owner.begin(0)
        staged, written = uuid.uuid4(), uuid.uuid4()
        table.stage([{"id": 1, "v": 1}], owner=owner.token(), attempt=staged)
        owner.commit(0, {staged: 1})
        owner.begin(1)
        table.upsert([{"id": 2, "v": 2}], owner=owner.token(), attempt=written)
        table.end_attempt(owner=owner.token(), attempt=written, rows=1)
        owner.commit(1, {written: 1})
        owner.release()
        assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]

    @staticmethod
    def _once(call: Callable[[], object]) -> None:
        """Make a call that a server which was started anew cannot know to have been done."""
        try:
            call()
        except (AlreadyExistsError, NotFoundError) as error:
            if "may have been done" not in error.message:
                raise


CALLS: Final = [name for name, found in vars(Callers).items() if callable(found) and not name.startswith("_")]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"log.fsync": "never", "kv.scanner.page-bytes": 4096}
    with ServerProcess(tmp_path_factory.mktemp("killed") / "data", settings=settings) as process:
        yield process


def test_no_call_fails_while_its_server_goes_and_comes_back(process: ServerProcess) -> None:
    with penstock.connect(process.url) as connection:
        callers = Callers(connection)
        done = threading.Event()
        failures: list[str] = []
        rounds: dict[str, int] = dict.fromkeys(CALLS, 0)

        def run(name: str) -> None:
            while not done.is_set() or not rounds[name]:
                try:
                    getattr(callers, name)()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure of the call
                    failures.append(f"{name}: {error!r}")
                    return
                rounds[name] += 1

        threads = [threading.Thread(target=run, args=(name,)) for name in CALLS]
        for thread in threads:
            thread.start()
        for number in range(ENDS):
            # Long enough for all to be back at work, and soon enough to be in the middle of it.
            started = sum(rounds.values())
            end = time.monotonic() + 2.0
            while sum(rounds.values()) < started + len(CALLS) and time.monotonic() < end:
                done.wait(0.05)
            if number % 2:
                process.stop()
            else:
                process.kill()
            process.start()
        done.set()
        for thread in threads:
            thread.join()

    print(rounds)
    assert not failures, "\n".join(failures)
