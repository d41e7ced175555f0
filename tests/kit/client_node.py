"""The node behind the client's unit tests: an engine on memory parts that gives few rows at a time, and can fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.kit.memory_engine import MemoryEngine
from tests.kit.watched_node import WatchedNode

from penstock.model.node.calls import OpenScan, PullChanges, ScannerInfo, WriteCall

PAGE_BYTES: Final = 64
"""Room for a few of the small rows that these tests write."""


class ClientNode(WatchedNode):
    """Implements `penstock.model.node.node.Node`; `rules` says how its calls fail."""

    def __init__(self, page_bytes: int | None = PAGE_BYTES) -> None:
        self.engine = MemoryEngine()
        self.engine.catalog.create_database("shop")
        super().__init__(self.engine)
        if page_bytes is not None:
            self.give_little(page_bytes)

    def give_little(self, page_bytes: int) -> None:
        """Have every page of a scan and of changes hold that many bytes at most, but at least a row."""

        def small(call: OpenScan) -> OpenScan:
            return replace(call, page_bytes=page_bytes)

        def some(calls: Sequence[OpenScan]) -> list[OpenScan]:
            return [small(call) for call in calls]

        def few(call: PullChanges) -> PullChanges:
            return replace(call, max_bytes=page_bytes)

        self.rules.shape("scan.open", small)
        self.rules.shape("scan.open_some", some)
        self.rules.shape("changes.pull", few)

    @property
    def calls(self) -> list[str]:
        """Return the targets of all calls so far but those of the catalog."""
        return [target for target in self.rules.names() if not target.startswith("catalog.")]

    @property
    def writes(self) -> list[WriteCall]:
        """Return the writes so far, each as often as it was sent."""
        return self.rules.arguments("tables.write")

    @property
    def sessions(self) -> list[ScannerInfo]:
        """Return the scan sessions that are open."""
        return self.engine.scan.list()

    def lose_sessions(self) -> None:
        """End all scan sessions, as a server does that is started anew."""
        for session in self.sessions:
            self.engine.scan.kill(session.scanner_id)

    def lose_cuts(self) -> None:
        """Release all cuts, as a server does that is started anew."""
        for cut_id in list(self.cuts):
            self.engine.scan.release_cut(cut_id)

    @property
    def cuts(self) -> Any:
        """Return the cuts that are open."""
        return self.engine._cuts._cuts
