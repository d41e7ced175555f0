"""Call the roll: which peers can run here, with which settings, and why the others cannot."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from bench.contest import running
from bench.peers.peer import Peer, PeerError
from bench.workload import Workload

# What is not a peer by itself, but part of one.
PARTS = frozenset(("__init__", "library", "peer", "roster", "penstock_tables", "postgres_server", "paimon_child"))
FIRST = ("penstock_embedded", "penstock_served")


@dataclass(slots=True)
class Roster:
    """Who is here, in the order of the tables; what each says of itself; why the others are not."""

    present: list[Peer] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def modules() -> list[str]:
    """Return the names of the peers' modules, Penstock's first."""
    found = {path.stem for path in Path(__file__).parent.glob("*.py")} - PARTS
    return sorted(found, key=lambda name: (name not in FIRST, name))


def find(name: str) -> Peer:
    """Return the peer of this module.

    Raises:
        PeerError: it cannot run here; says why.
    """
    try:
        peer: Peer = importlib.import_module(f"bench.peers.{name}").PEER
    except ModuleNotFoundError as error:
        raise PeerError(f"{error}; pip install --editable '.[bench]'") from error
    why = peer.missing()
    if why is not None:
        raise PeerError(why)
    return peer


def call_roll(work: Workload, names: Collection[str] | None = None) -> Roster:
    """Start and stop each peer once."""
    roster = Roster()
    for name in (name for name in modules() if names is None or name in names):
        try:
            peer = find(name)
            with work.directory() as directory, running(peer, directory):
                roster.settings[peer.name] = peer.settings()
            roster.present.append(peer)
        except PeerError as error:
            roster.absent[name] = str(error)
    return roster
