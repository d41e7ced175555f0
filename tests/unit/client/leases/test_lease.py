"""The lease that users hold: what it sends, and how it is renewed behind their backs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
from tests.unit.client.fake_node import FakeNode

from penstock.client.cut.cut import Cut
from penstock.client.leases.lease import Lease, acquire
from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import InvalidError, LeaseNotFoundError
from penstock.model.node.lease import Snapshot
from penstock.model.place.bucket import TableBucket

BUCKET = TableBucket("shop.orders", None, 0)


def test_what_is_leased_may_be_numbers_snapshots_cuts_and_lists(link: Link, make_table: Callable[..., Table]) -> None:
    make_table()
    taken = {BUCKET._replace(bucket=1): Snapshot(4, BUCKET._replace(bucket=1), 9, 0, 0)}

    cut = Cut({BUCKET._replace(bucket=2): 8}, database=link.database, table_id=5)
    lease = acquire(link, "job", [{BUCKET: 3}, taken, cut], duration="1min")

    assert {b.bucket: (s.id, s.offset) for b, s in lease.snapshots.items()} == {0: (3, 7), 1: (4, 7), 2: (None, 8)}
    assert lease.id == "job"
    assert "3 buckets" in repr(lease)


@pytest.mark.parametrize("what", [7, [7], {BUCKET: "x"}, {"t": 1}, [[{BUCKET: 1}]]])
def test_what_is_not_understood_is_refused(link: Link, what: object) -> None:
    with pytest.raises((InvalidError, TypeError)):
        acquire(link, "job", what, duration="1min")  # type: ignore[arg-type]


def test_cut_of_a_table_knows_its_table(make_table: Callable[..., Table]) -> None:
    table = make_table()

    cut = table.cut()

    assert (cut.table_id, cut) == (table.info.table_id, {BUCKET: 0})


def test_context_gives_the_lease_back_and_forgives_one_that_is_gone(link: Link, node: FakeNode) -> None:
    with acquire(link, "job", {BUCKET: 1}, duration="1min"):
        assert [info.lease_id for info in node.list_leases()] == ["job"]
    assert node.list_leases() == []

    with acquire(link, "job", {BUCKET: 1}, duration="1min"):
        node.drop_lease("job")


def test_lease_is_renewed_in_the_background_until_it_is_given_back(link: Link, node: FakeNode) -> None:
    with acquire(link, "job", {BUCKET: 1}, duration="30ms", auto_renew=True) as lease:
        wait_until(lambda: len(node.__dict__.get("renewals", [])) >= 3)
    assert lease.failure is None

    wait_until(lambda: not renewing())


def test_forgotten_lease_is_renewed_no_more(link: Link, node: FakeNode) -> None:
    lease: Lease | None = acquire(link, "job", {BUCKET: 1}, duration="30ms", auto_renew=True)
    wait_until(lambda: bool(node.__dict__.get("renewals")))

    assert lease is not None
    lease = None

    wait_until(lambda: not renewing())


def test_failed_renewal_shouts_and_leaving_the_context_raises(
    link: Link, node: FakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="penstock")
    node.refusal = LeaseNotFoundError("the lease is unknown or has expired", lease_id="job")

    with (
        pytest.raises(LeaseNotFoundError),
        acquire(link, "job", {BUCKET: 1}, duration="30ms", auto_renew=True) as lease,
    ):
        wait_until(lambda: lease.failure is not None)

    assert "lease is lost: what it held may go id=job" in caplog.text


def test_error_inside_the_context_is_not_hidden_by_a_failed_renewal(link: Link, node: FakeNode) -> None:
    node.refusal = LeaseNotFoundError("the lease is unknown or has expired", lease_id="job")

    def read() -> None:
        with acquire(link, "job", {BUCKET: 1}, duration="30ms", auto_renew=True) as lease:
            wait_until(lambda: lease.failure is not None)
            raise KeyError("the reader's own")

    with pytest.raises(KeyError):
        read()


def renewing() -> bool:
    return any(thread.name == "penstock-lease-job" for thread in threading.enumerate())


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        threading.Event().wait(0.002)
