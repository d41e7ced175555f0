"""Writes sent ahead: what comes of those behind one that failed or was lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from tests.kit.client_node import ClientNode
from tests.unit.client.conftest import ManualTime

from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import PenstockError, SchemaMismatchError, UnavailableError
from penstock.model.node.calls import WriteCall, WriteResult

MakeTable = Callable[..., Table]


class WritesAhead:
    """Does writes at the node when their answers are asked for; behind a failure none. Loses the answers of some."""

    def __init__(self, node: ClientNode, lost: list[int]) -> None:
        self._node = node
        self._lost = lost
        self._sent: deque[WriteCall] = deque()
        self._broken = False
        self.most_sent = 0

    def send(self, call: WriteCall) -> None:
        self._sent.append(call)
        self.most_sent = max(self.most_sent, len(self._sent))

    def result(self) -> WriteResult:
        call = self._sent.popleft()
        if self._broken:
            raise UnavailableError("the call before it failed, so this one was not done")
        try:
            result: WriteResult = self._node.tables.write(call)
        except PenstockError:
            self._broken = True
            raise
        if call.sequence in self._lost:
            self._lost.remove(call.sequence)
            self._broken = True
            raise UnavailableError("the connection broke")
        return result

    def close(self) -> None:
        """Wait for nothing."""


@pytest.fixture
def lost() -> list[int]:
    """Return the sequences of the writes whose answers are lost, each once."""
    return []


@pytest.fixture
def streams(node: ClientNode, lost: list[int]) -> list[WritesAhead]:
    """Have the node take writes ahead; return the ways that it gave out."""
    given: list[WritesAhead] = []

    def give(_: None) -> WritesAhead:
        given.append(WritesAhead(node, lost))
        return given[-1]

    node.rules.answer("tables.write_stream", give)
    return given


@pytest.fixture
def link(node: ClientNode, streams: list[WritesAhead], manual_time: ManualTime) -> Link:
    return Link(node, "memory", manual_time.retry(), distant=True)


def fill(table: Table, batches: int) -> None:
    with table.writer(batch_rows=10) as writer:
        for start in range(0, 10 * batches, 10):
            writer.upsert({"id": list(range(start, start + 10)), "v": [str(start)] * 10})
    assert writer.acknowledged_rows == 10 * batches


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_all_batches_are_written_once_and_in_order(make_table: MakeTable, streams: list[WritesAhead]) -> None:
    table = make_table()

    fill(table, 30)

    assert ids(table) == list(range(300))
    assert 1 <= max(stream.most_sent for stream in streams) <= 2


@pytest.mark.parametrize("sequence", [0, 1, 7])
def test_batch_whose_answer_was_lost_is_sent_again_and_applied_once(
    make_table: MakeTable, lost: list[int], sequence: int
) -> None:
    table = make_table()
    lost.append(sequence)

    fill(table, 12)

    assert ids(table) == list(range(120))
    assert sum(offsets.end for offsets in table.offsets().values()) == 120


def test_nothing_is_applied_behind_a_batch_that_fails(make_table: MakeTable, node: ClientNode) -> None:
    table = make_table()
    node.rules.refuse("tables.write", SchemaMismatchError("no"), SchemaMismatchError("no"))

    with pytest.raises(SchemaMismatchError):
        fill(table, 5)

    assert ids(table) == []
