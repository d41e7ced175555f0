"""A node at the other end of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from penstock.client.remote.calls import RemoteCalls
from penstock.client.remote.facets.backup import RemoteBackup
from penstock.client.remote.facets.catalog import RemoteCatalog
from penstock.client.remote.facets.changes import RemoteChanges
from penstock.client.remote.facets.leases import RemoteLeases
from penstock.client.remote.facets.lookup import RemoteLookup
from penstock.client.remote.facets.owners import RemoteOwners
from penstock.client.remote.facets.scan import RemoteScan
from penstock.client.remote.facets.tables import RemoteTables


class RemoteNode:
    """A server's node; implements `penstock.model.node.node.Node`. Thread-safe, as `RemoteCalls` is.

    The server tells the principal by the token or the certificate of the connection.
    """

    calls_kind: ClassVar[type[RemoteCalls]] = RemoteCalls

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: Mapping[str, str | Path] | None = None,
        timeout_ms: int = 60_000,
        database: str | None = None,
        any_database: bool = False,
    ) -> None:
        """Reach a server by its url, as `RemoteCalls` has it."""
        self.url = url
        self.calls = self.calls_kind(
            url, token=token, tls=tls, timeout_ms=timeout_ms, database=database, any_database=any_database
        )
        self.catalog = RemoteCatalog(self.calls)
        self.tables = RemoteTables(self.calls)
        self.scan = RemoteScan(self.calls)
        self.changes = RemoteChanges(self.calls)
        self.lookup = RemoteLookup(self.calls)
        self.leases = RemoteLeases(self.calls)
        self.owners = RemoteOwners(self.calls)
        self.backup = RemoteBackup(self.calls)

    def __repr__(self) -> str:
        return f"RemoteNode({self.url})"

    def close(self) -> None:
        """End the connection; idempotent, and nothing in a forked child."""
        self.calls.close()
