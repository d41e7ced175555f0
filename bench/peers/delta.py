"""Delta Lake in local files, by deltalake: a merge a batch, with the change data feed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.library import Library
from bench.peers.peer import Bootstrap, Drained, Transport
from bench.workload import SCHEMA


class Delta(Library):
    """The table format."""

    name = "Delta Lake"
    transport = Transport.FILES

    def settings(self) -> str:
        """Return version and settings."""
        return (
            f"deltalake {deltalake.__version__}; local files, one merge a commit, delta.enableChangeDataFeed=true; "
            "its files are not synced, so a commit may be lost with the machine"
        )

    def session(self) -> DeltaSession:
        """Name the table."""
        return DeltaSession(self.directory)


class DeltaSession:
    """One writer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tables = 0
        self._drained = 0

    def create(self, *, changelog: bool = False) -> None:
        """Make the table in a directory of its own."""
        self._tables += 1
        feed = {"delta.enableChangeDataFeed": "true"} if changelog else {}
        deltalake.write_deltalake(self._path, SCHEMA.empty_table(), configuration=feed)
        self._drained = 0

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Merge, or append to a table that is empty, as its guide advises for a first load."""
        rows = pa.Table.from_batches([batch])
        table = self._table
        if table.version() == 0:
            deltalake.write_deltalake(table, rows, mode="append")
            return
        merge = table.merge(rows, predicate="t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def scan(self, columns: Sequence[str], items: int | None = None) -> pa.Table:
        """Read into Arrow."""
        chosen = None if items is None else pc.field("items") == items
        return self._table.to_pyarrow_dataset().to_table(columns=list(columns), filter=chosen)

    def drain(self) -> Drained:
        """Read the change data feed from where the last drain ended."""
        return self.drain_from(self._drained + 1)

    def drain_from(self, version: int) -> Drained:
        """Read the change data feed from this version on."""
        table = self._table
        self._drained = table.version()
        if version > self._drained:
            return Drained(0, 0)
        rows = pa.table(table.load_cdf(starting_version=version).read_all())
        kind = rows.column("_change_type").cast(pa.string())
        new = rows.column("id").filter(pc.is_in(kind, pa.array(["insert", "update_postimage"])))
        return Drained(len(new), pc.sum(new).as_py() or 0)

    @contextmanager
    def bootstrap(self) -> Iterator[Bootstrap]:
        """Read a version, then the feed after it."""
        yield DeltaBootstrap(self, self._table.version())

    def close(self) -> None:
        """Do nothing: there are only files."""

    @property
    def _path(self) -> str:
        return str(self._directory / f"delta{self._tables}")

    @property
    def _table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self._path)


class DeltaBootstrap:
    """A version, and the feed after it."""

    def __init__(self, session: DeltaSession, version: int) -> None:
        self._session = session
        self._version = version

    def snapshot(self) -> pa.Table:
        """Read the version."""
        return self._session.scan(SCHEMA.names)

    def tail(self, rows: int) -> Drained:
        """Read the feed."""
        return self._session.drain_from(self._version + 1)


PEER = Delta()
