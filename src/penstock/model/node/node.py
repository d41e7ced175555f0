"""What a node offers. The embedded engine is one; a connection to a server is another.

Everything that a user sees is built on these calls, so that both behave the same.
"""

from __future__ import annotations

from typing import Protocol

from penstock.model.node.facets.backup import BackupFacet
from penstock.model.node.facets.catalog import CatalogFacet
from penstock.model.node.facets.changes import ChangesFacet
from penstock.model.node.facets.leases import LeasesFacet
from penstock.model.node.facets.lookup import LookupFacet
from penstock.model.node.facets.owners import OwnersFacet
from penstock.model.node.facets.scan import ScanFacet
from penstock.model.node.facets.tables import TablesFacet


class Node(Protocol):
    """A whole node, as one principal sees it. Thread-safe."""

    @property
    def catalog(self) -> CatalogFacet:
        """Return the databases, tables and partitions."""

    @property
    def tables(self) -> TablesFacet:
        """Return the writes, and the figures of tables."""

    @property
    def scan(self) -> ScanFacet:
        """Return the cuts and scan sessions."""

    @property
    def changes(self) -> ChangesFacet:
        """Return the change logs."""

    @property
    def lookup(self) -> LookupFacet:
        """Return the rows by key."""

    @property
    def leases(self) -> LeasesFacet:
        """Return the snapshots and leases."""

    @property
    def owners(self) -> OwnersFacet:
        """Return the owners of columns."""

    @property
    def backup(self) -> BackupFacet:
        """Return the backups."""

    def close(self) -> None:
        """Let go of everything; idempotent."""


class SharedNode(Node, Protocol):
    """A node that serves several principals: each sees it through facets of its own."""

    def acting_as(self, principal: str) -> Node:
        """Return the node as a principal sees it; what the principal acquires there is its own."""
