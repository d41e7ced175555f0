"""What a caller wants leased, turned into the request that a node takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from penstock.client.cut.cut import Cut, is_cut_json
from penstock.client.hold.latest_snapshots import LatestSnapshots
from penstock.client.link.link import Link
from penstock.client.link.origin_check import check_database
from penstock.errors import InvalidError
from penstock.model.node.lease import AcquireLease, CutOffsets, Snapshot, check_lease_id
from penstock.model.place.bucket import TableBucket
from penstock.model.words.quantity import parse_duration_ms

Numbered = Mapping[TableBucket, int] | Mapping[TableBucket, Snapshot]
Leasable = LatestSnapshots | Cut | str | Mapping[str, Any] | Numbered
"""What a lease can pin."""


def lease_request(
    link: Link, lease_id: str, what: Leasable | Sequence[Leasable], duration: str | timedelta
) -> AcquireLease:
    """Return the request for a lease on what is named.

    Raises:
        InvalidError: what is asked for is not understood, or is of another database.
        TableNotFoundError: a table was dropped.
    """
    latest: dict[int, None] = {}
    snapshots: dict[TableBucket, int] = {}
    cuts: list[CutOffsets] = []
    for wanted in _flat(what):
        if isinstance(wanted, LatestSnapshots):
            check_database(link, "table", database=wanted.database, table_id=wanted.table_id, offsets={})
            latest[wanted.table_id] = None
        elif isinstance(wanted, Cut):
            cuts.append(_offsets(link, wanted))
        else:
            _check_same(link, wanted)
            snapshots |= _numbered(wanted)
    return AcquireLease(check_lease_id(lease_id), parse_duration_ms(duration), tuple(latest), snapshots, tuple(cuts))


def _flat(what: Leasable | Sequence[Leasable]) -> Iterator[LatestSnapshots | Cut | Numbered]:
    for wanted in what if isinstance(what, list | tuple) else [what]:
        if isinstance(wanted, str) or is_cut_json(wanted):
            yield Cut.from_json(wanted)  # type: ignore[arg-type]
            continue
        if not isinstance(wanted, LatestSnapshots | Mapping):
            raise InvalidError(
                "a lease takes t.latest_snapshots, t.cut(), {TableBucket: snapshot id}, or a list of these",
                found=type(wanted).__name__,
            )
        yield wanted  # type: ignore[misc]


def _offsets(link: Link, cut: Cut) -> CutOffsets:
    check_database(link, "cut", database=cut.database, table_id=cut.table_id, offsets=cut)
    named = dict(cut)
    if any(not bucket.table for bucket in named):
        named = cut.of(link.retry.run(lambda: link.node.catalog.table_by_id(cut.table_id)).path)
    return CutOffsets(cut.table_id, named)


def _snapshots_of(link: Link, path: str) -> list[Snapshot]:
    table_id = link.retry.run(lambda: link.node.catalog.table(path)).table_id
    return link.retry.run(lambda: link.node.leases.list_snapshots(table_id))


def _check_same(link: Link, wanted: Numbered) -> None:
    """Refuse snapshots, given whole, whose numbers now stand for others: of a namesake, or in another database.

    One that is not there at all is told by the lease.
    """
    given = [chosen for chosen in wanted.values() if isinstance(chosen, Snapshot)]
    for path in {chosen.bucket.table for chosen in given}:
        known = {(found.bucket, found.id): found for found in _snapshots_of(link, path)}
        for chosen in given:
            found = known.get((chosen.bucket, chosen.id), chosen)
            if (found.offset, found.created_ms) != (chosen.offset, chosen.created_ms):
                raise InvalidError(
                    "the snapshot is of another database, or of a table of this name that was dropped; take a new one",
                    bucket=chosen.bucket,
                    snapshot=chosen.id,
                )


def _numbered(wanted: Numbered) -> dict[TableBucket, int]:
    found = {}
    for bucket, chosen in wanted.items():
        snapshot_id = chosen.id if isinstance(chosen, Snapshot) else chosen
        if not isinstance(bucket, TableBucket) or type(snapshot_id) is not int:
            raise InvalidError("a snapshot is named by its TableBucket and number", bucket=bucket, snapshot=chosen)
        found[bucket] = snapshot_id
    return found
