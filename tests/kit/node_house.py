"""A node that tests open, work on and open again: in this process, alone or behind a server."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.client.connection import Connection, connect
from penstock.client.link.retry import Retry
from penstock.engine.engine import Engine
from penstock.engine.table.open_table import OpenTable
from penstock.errors import DirectoryInUseError
from penstock.server.serve import serve
from penstock.server.server import Server


class NodeHouse:
    """A data directory, the node that has it open, and a connection to that node. A context manager."""

    def __init__(self, directory: Path, *, served: bool = False, settings: Mapping[str, Any] | None = None) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self._served = served
        self._server: Server | None = None
        self._connection: Connection | None = None
        self.open()

    def __enter__(self) -> NodeHouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> Connection:
        """Return the connection."""
        assert self._connection is not None, "the house is closed"
        return self._connection

    @property
    def engine(self) -> Engine:
        """Return the node's engine, for work that nobody can ask for through a connection."""
        node = self.connection._link.node if self._server is None else self._server.node
        assert isinstance(node, Engine)
        return node

    def open_table(self, table_id: int) -> OpenTable:
        """Return a table as the engine has it."""
        return self.engine._tables.get(table_id)

    def open(self) -> None:
        """Open the directory and connect."""
        if self._served:
            self._server = serve(self.directory, settings=self.settings)
            self._connection = connect(self._server.url)
        else:
            self._connection = connect(self.directory, settings=self.settings)

    def close(self) -> None:
        """Close connection and node; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._server is not None:
            self._server.close()
            self._server = None

    def restart(self) -> None:
        """Close, and open again."""
        self.close()
        self.open()

    def forget(self) -> None:
        """Drop the connection without closing it, as careless programs do, and open again."""
        if self._server is not None:
            self.restart()
            return
        self._connection = None
        gc.collect()
        # A thread of a writer that just ended may be the last to know the node; then it closes it, in its time.
        Retry().run(self.open, when=lambda error: isinstance(error, DirectoryInUseError))
