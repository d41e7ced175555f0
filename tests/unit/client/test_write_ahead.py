"""Writes sent ahead: what comes of those behind one that failed or was lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from tests.unit.client.conftest import ManualTime
from tests.unit.client.fake_node import FakeNode

from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import PenstockError, SchemaMismatchError, UnavailableError
from penstock.model.node.calls import WriteCall, WriteResult

MakeTable = Callable[..., Table]


class FakeWrites:
    """Does writes when their answers are asked for; behind a failure none."""

    def __init__(self, node: AheadNode) -> None:
        self.node = node
        self.sent: deque[WriteCall] = deque()
        self.broken = False

    def send(self, call: WriteCall) -> None:
        self.sent.append(call)
        self.node.most_sent = max(self.node.most_sent, len(self.sent))

    def result(self) -> WriteResult:
        call = self.sent.popleft()
        if self.broken:
            raise UnavailableError("the call before it failed, so this one was not done")
        try:
            if self.node.lose_reply and call.sequence == self.node.lose_reply.pop():
                self.node.write(call)
                raise UnavailableError("the connection broke")
            return self.node.write(call)
        except PenstockError:
            self.broken = True
            raise

    def close(self) -> None:
        self.node.closed_streams += 1


class AheadNode(FakeNode):
    """A fake node that takes writes ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.most_sent = 0
        self.closed_streams = 0
        self.lose_reply: list[int] = []

    def write_stream(self) -> FakeWrites:  # type: ignore[override]
        return FakeWrites(self)


@pytest.fixture
def node() -> AheadNode:
    return AheadNode()


@pytest.fixture
def link(node: AheadNode, manual_time: ManualTime) -> Link:
    return Link(node, "fake", manual_time.retry(), distant=True)


def fill(table: Table, batches: int) -> None:
    with table.writer(batch_rows=10) as writer:
        for start in range(0, 10 * batches, 10):
            writer.upsert({"id": list(range(start, start + 10)), "v": [str(start)] * 10})
    assert writer.acknowledged_rows == 10 * batches


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_all_batches_are_written_once_and_in_order(make_table: MakeTable, node: AheadNode) -> None:
    table = make_table()

    fill(table, 30)

    assert ids(table) == list(range(300))
    assert node.most_sent <= 2


@pytest.mark.parametrize("lost", [0, 1, 7])
def test_batch_whose_answer_was_lost_is_sent_again_and_applied_once(
    make_table: MakeTable, node: AheadNode, lost: int
) -> None:
    table = make_table()
    node.lose_reply.append(lost)

    fill(table, 12)

    assert ids(table) == list(range(120))
    assert sum(offsets.end for offsets in table.offsets().values()) == 120


def test_nothing_is_applied_behind_a_batch_that_fails(make_table: MakeTable, node: AheadNode) -> None:
    table = make_table()
    node.fail("write", "before", SchemaMismatchError("no"), SchemaMismatchError("no"))

    with pytest.raises(SchemaMismatchError):
        fill(table, 5)

    assert ids(table) == []
