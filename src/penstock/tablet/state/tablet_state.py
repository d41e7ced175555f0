"""The parts of a bucket, besides the segment that takes its writes."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codec.stored.manifest import FileEntry, Manifest, SpanEntry
from penstock.model.place.bucket import BucketId
from penstock.tablet.state.closed_tail import ClosedTail
from penstock.tablet.state.owner_state import OwnerState
from penstock.tablet.state.writer_state import WriterState
from penstock.tablet.view.span import Span


@dataclass(slots=True)
class TabletState:
    """The parts of a bucket; made by recovery, kept by the tablet.

    `base` is the durable one: `Pins` may already refuse offsets that it still allows. `sealed` is in
    data files, whose `entries` go by name; `closed` comes after it. The other names mean what they
    mean in a `Manifest`.
    """

    base: int
    complete_from: int
    checkpoint: int
    timestamp_ms: int
    writers: WriterState
    owners: OwnerState
    sealed: tuple[Span, ...]
    closed: tuple[ClosedTail, ...]
    entries: dict[str, FileEntry]
    visible: int
    group: int = -1
    before_base_ms: int | None = None

    def manifest(self, bucket: BucketId, number: int, *, log_start: int, spans: tuple[SpanEntry, ...]) -> Manifest:
        """Return the state as a manifest; all that is visible must be durable."""
        return Manifest(
            bucket=bucket,
            number=number,
            base=self.base,
            complete_from=self.complete_from,
            checkpoint=self.checkpoint,
            log_start=log_start,
            durable_end=self.visible,
            timestamp_ms=self.timestamp_ms,
            writer_state=self.writers.to_bytes(),
            owner_state=self.owners.to_bytes(),
            group=self.group,
            before_base_ms=self.before_base_ms,
            spans=spans,
        )
