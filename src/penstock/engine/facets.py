"""The facets of a node as one principal sees them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.backup.service import BackupService
from penstock.engine.changes.service import ChangesService
from penstock.engine.leases.service import LeaseService
from penstock.engine.lookup.service import LookupService
from penstock.engine.owners.service import OwnerService
from penstock.engine.scan.service import ScanService
from penstock.engine.table.catalog_service import CatalogService
from penstock.engine.table.service import TableService


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacets:
    """A node without its life: implements `penstock.model.node.node.Node`, and `close` closes nothing."""

    catalog: CatalogService
    tables: TableService
    scan: ScanService
    changes: ChangesService
    lookup: LookupService
    leases: LeaseService
    owners: OwnerService
    backup: BackupService

    def close(self) -> None:
        """Let go of nothing: the node goes on for other principals."""
