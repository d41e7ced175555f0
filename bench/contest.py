"""Run one job with every peer that can do it, one after the other, each alone on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.measurement import Figure, Score
from bench.peers.peer import Peer, Session, Transport
from bench.workload import Workload

Entry = Callable[[Session], Iterable[Score]]


def contest(work: Workload, entry: Entry, kind: str = "") -> list[Figure]:
    """Enter every peer but table formats, and the bounds of this kind; who cannot do the job yields nothing."""
    figures = []
    for peer in work.peers:
        if peer.transport is not Transport.FILES and (not peer.bounds or kind in peer.bounds):
            with work.directory() as directory, running(peer, directory), closing(peer.session()) as session:
                figures += [figure(peer, score) for score in entry(session)]
    return figures


def each_peer(work: Workload, enter: Callable[[Peer, Workload], Iterable[Figure]]) -> list[Figure]:
    """Enter every real peer but table formats in a job that starts and stops it as it needs."""
    real = [peer for peer in work.peers if not peer.bounds and peer.transport is not Transport.FILES]
    return [found for peer in real for found in enter(peer, work)]


def figure(peer: Peer, score: Score, section: str | None = None) -> Figure:
    """Return a peer's score as a figure, and tell it to who waits."""
    print(f"  {peer.name}: {score.job}: {score.value:,.4g} {score.unit}", file=sys.stderr, flush=True)
    return Figure(section or peer.transport, peer.name, bool(peer.bounds), score)


@contextmanager
def running(peer: Peer, directory: Path) -> Iterator[None]:
    """Start a peer, and stop it whatever happens."""
    peer.start(directory)
    try:
        yield
    finally:
        peer.stop()
