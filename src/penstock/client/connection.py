"""A connection: to a directory that this process opens itself, or to a server."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.backup.copy import back_up
from penstock.client.cut.cut import Cut
from penstock.client.cut.tables_cut import cut_together
from penstock.client.leases.lease import Lease, acquire
from penstock.client.leases.lease_request import Leasable
from penstock.client.link.buckets import BucketName, resolve_bucket
from penstock.client.link.link import Link
from penstock.client.link.progress import ProgressLike, read_progress
from penstock.client.nodes import embedded_node, reading_node, remote_node
from penstock.client.pages.page_scanner import PageScanner
from penstock.client.scan.request import check_limit, compile_filter, project
from penstock.client.scan.scan import Scan
from penstock.client.table import Table
from penstock.errors import DatabaseNotFoundError, DirectoryInUseError, InvalidError, PenstockError
from penstock.model.node.backup import BackupResult
from penstock.model.node.calls import OpenScan, ScannerInfo
from penstock.model.node.node import Node
from penstock.model.node.owner import OwnerInfo, UndoResult
from penstock.model.schema.aggregate import AggFunction
from penstock.model.schema.schema import Schema
from penstock.model.table.merge_engine import MergeEngineLike
from penstock.model.table.spec import make_spec
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table
from penstock.model.words.names import check_text
from penstock.model.words.quantity import parse_bytes

SCHEMES: Final = ("penstock://", "penstock+tls://")
TABLES_SHOWN_MAX: Final = 100
_HOST_AND_PORT: Final = re.compile(r"[A-Za-z0-9.-]{2,}:[0-9]+")


def connect(
    target: str | os.PathLike[str],
    *,
    token: str | None = None,
    tls: Mapping[str, str | Path] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: ProgressLike = False,
    read_only: bool = False,
) -> Connection:
    """Open a directory (created if absent, locked while open), or connect to a server by its URL.

    `settings` are those of the node that a directory becomes, by their dotted names. With `progress=True` scans and
    writers that last longer than a second show on stderr how far they are; a function is called with a `Progress`.

    With `read_only`, a directory that another process may have open is read as it is at this moment: no lock is
    taken, nothing is written, and what is written later is not seen; open it again for that. Nothing keeps its files:
    once the writer has replaced them, reading on is an UnavailableError.

    Raises:
        DirectoryInUseError: another process, or this one, has the directory open; names the holder.
        NotFoundError: there is no directory to read.
        InvalidError: the target, a setting or an argument is not understood.
        UnavailableError: no server answers there.
        PermissionDeniedError: the server does not know the token.
        UnsupportedError: a directory, where only the client is installed.
    """
    read_progress(progress)
    name = os.fspath(target) if isinstance(target, str | os.PathLike) else ""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidError("connect to a directory or a penstock:// url", target=repr(target))
    if (
        not isinstance(token, str | None)
        or not isinstance(tls, Mapping | None)
        or not isinstance(settings, Mapping | None)
    ):
        raise InvalidError("token is a text; tls and settings are dicts", target=name)
    if name.startswith(SCHEMES):
        if settings is not None:
            raise InvalidError("a server has its own settings; set them there", url=name)
        if read_only:
            raise InvalidError("read_only goes with a directory; what you may do at a server is its to say", url=name)
        return Connection(remote_node(name, token, tls), name, distant=True, progress=progress)
    if "://" in name:
        raise InvalidError(f"a server's url begins with {' or '.join(SCHEMES)}", url=name)
    if _HOST_AND_PORT.fullmatch(name) and not Path(name).exists():
        raise InvalidError(f"that looks like a server; its url is {SCHEMES[0]}{name}", target=name)
    if token is not None or tls is not None:
        raise InvalidError("token and tls go with a server's url", directory=name)
    if read_only:
        return Connection(reading_node(name, settings), name, progress=progress)
    try:
        return Connection(embedded_node(name, settings), name, progress=progress)
    except DirectoryInUseError as error:
        raise DirectoryInUseError(
            f"{error.message}; read_only=True reads what is durable beside it", **error.facts
        ) from error


class Connection:
    """The way to databases and tables. Thread-safe, cheap to share; a context manager that closes.

    It belongs to the process that made it: after a fork, connect again.
    """

    def __init__(self, node: Node, name: str, *, distant: bool = False, progress: ProgressLike = False) -> None:
        self._link = Link(node, name, distant=distant, on_progress=read_progress(progress))

    def create_database(self, name: str, if_not_exists: bool = False) -> None:
        """Create a database.

        Raises:
            AlreadyExistsError: it is there.
            InvalidError: the name is not allowed.
        """
        check_text(name, "a database")
        self._link.once(lambda node: node.catalog.create_database(name, if_not_exists=if_not_exists))

    def list_databases(self) -> list[str]:
        """Return the names of all databases, sorted."""
        return self._link.retry.run(self._link.node.catalog.list_databases)

    def drop_database(self, name: str, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a database; with tables in it only if `cascade`.

        Raises:
            DatabaseNotFoundError: it is not there.
            InvalidError: it has tables, and `cascade` does not drop them.
        """
        check_text(name, "a database")
        self._link.once(lambda node: node.catalog.drop_database(name, cascade=cascade, if_exists=if_exists))

    def create_table(
        self,
        path: str,
        schema: Schema | str | pa.Schema,
        *,
        primary_key: Sequence[str] | str | None = None,
        aggregates: Mapping[str, AggFunction | str] | None = None,
        merge_engine: MergeEngineLike | None = None,
        version_column: str | None = None,
        buckets: int = 1,
        bucket_key: Sequence[str] | str | None = None,
        partitioned_by: Sequence[str] | str | None = None,
        properties: Mapping[str, Any] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table from a `penstock.Schema`, DDL or an Arrow schema; return its handle.

        Raises:
            AlreadyExistsError: there is a table of that name.
            DatabaseNotFoundError: there is no such database.
            InvalidError: something is not allowed; the message says what is.
        """
        spec = make_spec(
            schema,
            primary_key=primary_key,
            aggregates=aggregates,
            merge_engine=merge_engine,
            version_column=version_column,
            buckets=buckets,
            bucket_key=bucket_key,
            partitioned_by=partitioned_by,
            properties=properties,
        )
        info = self._link.once(lambda node: node.catalog.create_table(path, spec, if_not_exists=if_not_exists))
        return Table(self._link, info)

    def table(self, path: str) -> Table:
        """Return a handle to the table of that path, as it is now.

        Raises:
            DatabaseNotFoundError: there is no such database.
            TableNotFoundError: there is no such table.
        """
        return Table(self._link, self._link.retry.run(lambda: self._link.node.catalog.table(path)))

    def list_tables(self, database: str | None = None) -> list[str]:
        """Return the names of a database's tables, sorted; without a database the paths of all tables.

        Raises:
            DatabaseNotFoundError: there is no such database.
        """
        if database is None:
            return list(self._table_paths())
        check_text(database, "a database")
        return self._link.retry.run(lambda: self._link.node.catalog.list_tables(database))

    def drop_table(self, path: str, if_exists: bool = False) -> None:
        """Drop a table with all its rows.

        Raises:
            DatabaseNotFoundError: there is no such database.
            TableNotFoundError: there is no such table.
        """
        self._link.once(lambda node: node.catalog.drop_table(path, if_exists=if_exists))

    def resume_scan(self, token: bytes) -> Scan:
        """Go on with the scan, or the page of a scanner, whose `resume_token` this is, at the same cut.

        Raises:
            InvalidError: the bytes are no resume token of a scan of this database.
            OffsetOutOfRangeError: the cut can no longer be read.
            TableNotFoundError: the table was dropped.
        """
        return Scan.resume(self._link, token)

    def cut(self, tables: Iterable[Table | str]) -> dict[str, Cut]:
        """Return the present cuts of several tables by path, all of one moment. A lease can pin them.

        If a write to one table is acknowledged before a write to another begins, the cuts never have the second alone.

        Raises:
            InvalidError: no tables are named, or one of another database.
            TableNotFoundError: one does not exist, or was dropped.
        """
        return cut_together(
            self._link, [self._info(table) for table in ([tables] if isinstance(tables, Table | str) else tables)]
        )

    def _info(self, table: Table | str) -> TableInfo:
        if isinstance(table, Table) and table._link.database != self._link.database:
            raise InvalidError("the table is of another database; open it in this one", table=table.path)
        return table._known.refresh() if isinstance(table, Table) else self.table(table).info

    def scanner(
        self,
        table: Table | str,
        bucket: BucketName,
        *,
        page_bytes: int | str | None = None,
        columns: Iterable[str] | None = None,
        filter: str | pc.Expression | None = None,
        limit: int | None = None,
        offsets: bool = False,
    ) -> PageScanner:
        """Return a scanner of one bucket that is called page by page, and retries nothing.

        With `offsets` each row has the column `_offset`: the offset at which it began.

        Raises:
            InvalidError: the request is wrong, or the table is of another database.
            TableNotFoundError: there is no such table.
        """
        info = self._info(table)
        call = OpenScan(
            table_id=info.table_id,
            schema_id=info.schema_id,
            bucket=resolve_bucket(info, bucket),
            columns=project(columns, info.schema),
            filter=compile_filter(filter, info.schema),
            limit=check_limit(limit),
            page_bytes=None if page_bytes is None else parse_bytes(page_bytes),
            offsets=offsets,
        )
        return PageScanner(self._link, call)

    def list_scanners(self) -> list[ScannerInfo]:
        """Return the open scan sessions."""
        return self._link.retry.run(self._link.node.scan.list)

    def kill_scanner(self, scanner_id: str) -> None:
        """End a scan session; a reader through a `Scan` goes on in another.

        Raises:
            UnknownOrExpiredScannerError: there is no such session.
        """
        check_text(scanner_id, "a scanner id")
        self._link.once(lambda node: node.scan.kill(scanner_id))

    def acquire_lease(
        self,
        lease_id: str,
        what: Leasable | Sequence[Leasable],
        duration: str | timedelta = "1h",
        *,
        auto_renew: bool = False,
    ) -> Lease:
        """Keep snapshots or a cut readable: `t.latest_snapshots`, `t.cut()`, {bucket: snapshot id}, or a list of these.

        What cannot be had is in `lease.unavailable`, with the reason. Under an id that is held already, more is
        acquired, a bucket that it has moves, and its time counts anew.

        Raises:
            InvalidError: what is asked for is not understood.
            LimitError: the duration is above `kv.lease.max-duration`.
            PermissionDeniedError: another principal has a lease of that id.
            TableNotFoundError: a table was dropped.
            UnsupportedError: a log table has no snapshots.
        """
        return acquire(self._link, lease_id, what, duration=duration, auto_renew=auto_renew)

    def list_leases(self) -> list[Lease]:
        """Return the leases of all principals."""
        return [Lease(self._link, info) for info in self._link.retry.run(self._link.node.leases.list)]

    def lease(self, lease_id: str) -> Lease:
        """Return a lease by its id.

        Raises:
            LeaseNotFoundError: it is unknown or has expired.
        """
        check_text(lease_id, "a lease id")
        return Lease(self._link, self._link.retry.run(lambda: self._link.node.leases.get(lease_id)))

    def list_owners(self) -> list[OwnerInfo]:
        """Return all owners of all tables: columns, fence, epochs, rows pending, holder, expiry."""
        return self._link.retry.run(self._link.node.owners.list)

    def drop_owner(self, owner: str, table: str, undo: bool = True) -> UndoResult:
        """Forget an owner of a table; what it has not committed is undone, or with `undo=False` stays.

        Raises:
            OwnerNotFoundError: the table has no such owner.
            TableNotFoundError: there is no such table.
        """
        table_id = self._link.retry.run(lambda: self._link.node.catalog.table(table)).table_id
        check_text(owner, "an owner")
        return self._link.once(lambda node: node.owners.drop(table_id, owner, undo=undo))

    def backup(
        self,
        target: str | os.PathLike[str],
        incremental: bool = True,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> BackupResult:
        """Back up all tables, as they are at one moment, into a directory of this machine; writers go on meanwhile.

        With `incremental` only what the directory has not is copied: what is there is read and compared. The backup
        before stays whole until the new one is. One that was interrupted goes on where it was. `progress` is called
        with the bytes in place, and those of the whole.

        Raises:
            InvalidError: the directory holds something else, or backups of another database, or is in a data directory.
            DirectoryInUseError: another backup into it is under way.
            DiskFullError: there is no room; free some and call again.
            PermissionDeniedError: the directory may not be written, or the server does not allow it.
            UnavailableError: the node does not answer, or a disk refused; call again.
        """
        if not isinstance(target, str | os.PathLike) or not os.fspath(target):
            raise InvalidError("back up to a directory", target=repr(target))
        if "://" in (name := os.fspath(target)):
            raise InvalidError("back up to a directory of this machine; a url is not supported", target=name)
        return back_up(self._link, Path(name), incremental=incremental, progress=progress or (lambda *_: None))

    def close(self) -> None:
        """Close the connection; a directory is free again after that. Idempotent."""
        self._link.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection to {self._link.name}{', closed' if self._link.closed else ''}>"

    def _repr_html_(self) -> str:
        try:
            paths = [] if self._link.closed else list(islice(self._table_paths(), TABLES_SHOWN_MAX))
        except PenstockError as error:
            return html_table(f"{self!r}: {error}", (), ())
        return html_table(repr(self), ("tables",), [(path,) for path in paths])

    def _table_paths(self) -> Iterator[str]:
        for database in self.list_databases():
            # One that is dropped meanwhile has no tables.
            with suppress(DatabaseNotFoundError):
                yield from (f"{database}.{name}" for name in self.list_tables(database))
