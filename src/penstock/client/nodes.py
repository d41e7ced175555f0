"""The node that a connection asks: a server's, a directory's, or one that only reads a directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.model.node.node import Node
from penstock.runtime.packages import needs_engine


def remote_node(url: str, token: str | None, tls: Mapping[str, str | Path] | None) -> Node:
    """Return the node of a server."""
    # Here, not above: who opens a directory needs no Flight.
    from penstock.client.remote.node import RemoteNode  # noqa: PLC0415

    return RemoteNode(url, token=token, tls=tls)


def embedded_node(directory: str, settings: Mapping[str, Any] | None) -> Node:
    """Return the node that a directory becomes in this process."""
    # Here, not above: who talks to a server needs neither engine nor RocksDB.
    with needs_engine("a data directory"):
        from penstock.engine.engine import Engine  # noqa: PLC0415
        from penstock.engine.settings import Settings  # noqa: PLC0415

    return Engine.open(directory, Settings.load(Path(directory) / "penstock.toml", overrides=settings))


def reading_node(directory: str, settings: Mapping[str, Any] | None) -> Node:
    """Return a node that only reads a directory."""
    # Here, not above: as for a directory that is written.
    with needs_engine("a data directory"):
        from penstock.engine.read_only.node import ReadOnlyNode  # noqa: PLC0415
        from penstock.engine.settings import Settings  # noqa: PLC0415

    return ReadOnlyNode.open(directory, Settings.load(Path(directory) / "penstock.toml", overrides=settings))
