"""The scan service of a node, over tables that a test opens by hand."""

from __future__ import annotations

from tests.kit.open_table import OpenTableRig

from penstock.engine.catalog.identity import Identity
from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.store import MetadataStore
from penstock.engine.scan.cuts import Cuts
from penstock.engine.scan.named_cuts import NamedCuts
from penstock.engine.scan.page_reader import APART_BYTES_MIN
from penstock.engine.scan.service import ScanService
from penstock.engine.settings import Settings
from penstock.engine.table.open_table import OpenTable
from penstock.errors import LeaseNotFoundError
from penstock.model.node.principal import LOCAL
from penstock.model.place.bucket import BucketId
from penstock.runtime.metrics import Metrics


def scan_service(
    rig: OpenTableRig,
    settings: Settings,
    metrics: Metrics,
    cuts: Cuts,
    metadata: MetadataStore | None = None,
    *,
    apart_bytes_min: int = APART_BYTES_MIN,
) -> ScanService:
    """Return the service of a node that has no leases and is never closed; `metadata` says which database it is."""
    metadata = MemoryMetadataStore() if metadata is None else metadata

    def no_lease(lease_id: str, *_: object, **__: object) -> tuple[OpenTable, BucketId]:
        raise LeaseNotFoundError("there are no leases here", lease_id=lease_id)

    return ScanService(
        rig.table,
        settings,
        rig.clock,
        metrics,
        cuts=cuts,
        named_cuts=NamedCuts(metadata, rig.clock),
        identity=Identity(metadata),
        principal=LOCAL,
        holding=lambda bucket: rig.table(bucket.table_id),
        find_leased=no_lease,
        check_open=lambda: None,
        apart_bytes_min=apart_bytes_min,
    )
