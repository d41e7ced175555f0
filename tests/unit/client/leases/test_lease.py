"""The lease that users hold: what it asks for, and its renewal in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from tests.kit.client_node import ClientNode
from tests.kit.waiting import wait_until

from penstock.client.cut.cut import Cut
from penstock.client.hold.latest_snapshots import LatestSnapshots
from penstock.client.leases.lease import Lease, acquire
from penstock.client.link.link import Link
from penstock.client.table import Table
from penstock.errors import InvalidError, LeaseNotFoundError
from penstock.model.place.bucket import TableBucket

BUCKET = TableBucket("shop.orders", None, 0)


@pytest.fixture
def latest(make_table: Callable[..., Table]) -> LatestSnapshots:
    table = make_table()
    table.upsert([{"id": 1, "v": "a"}])
    return table.latest_snapshots


def test_what_is_leased_may_be_numbers_snapshots_cuts_and_lists(link: Link, make_table: Callable[..., Table]) -> None:
    table = make_table(buckets=3)
    table.upsert([{"id": n, "v": "a"} for n in range(9)])
    taken = {bucket.bucket: snapshot for bucket, snapshot in table.create_snapshot().items()}
    last = BUCKET._replace(bucket=2)

    cut = Cut({last: table.cut()[last]}, database=link.database, table_id=table.info.table_id)
    wanted = [{BUCKET: taken[0].id}, {taken[1].bucket: taken[1]}, cut]
    lease = acquire(link, "job", wanted, duration="1min")  # type: ignore[arg-type]

    held = {bucket.bucket: (snapshot.id, snapshot.offset) for bucket, snapshot in lease.snapshots.items()}
    assert held == {n: (taken[n].id, taken[n].offset) for n in (0, 1)} | {2: (None, cut[last])}
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


def test_context_gives_the_lease_back_and_forgives_one_that_is_gone(
    link: Link, node: ClientNode, latest: LatestSnapshots
) -> None:
    with acquire(link, "job", latest, duration="1min"):
        assert [info.lease_id for info in node.engine.leases.list()] == ["job"]
    assert node.engine.leases.list() == []

    with acquire(link, "job", latest, duration="1min"):
        node.engine.leases.drop("job")


def test_lease_is_renewed_in_the_background_until_it_is_given_back(
    link: Link, node: ClientNode, latest: LatestSnapshots
) -> None:
    with acquire(link, "job", latest, duration="30ms", auto_renew=True) as lease:
        wait_until(lambda: node.calls.count("leases.renew") >= 3)
    assert lease.failure is None

    wait_until(lambda: not renewing())


def test_forgotten_lease_is_renewed_no_more(link: Link, node: ClientNode, latest: LatestSnapshots) -> None:
    lease: Lease | None = acquire(link, "job", latest, duration="30ms", auto_renew=True)
    wait_until(lambda: "leases.renew" in node.calls)

    assert lease is not None
    lease = None

    wait_until(lambda: not renewing())


def test_failed_renewal_shouts_and_leaving_the_context_raises(
    link: Link, node: ClientNode, latest: LatestSnapshots, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, logger="penstock")
    node.rules.refuse("leases.renew", LeaseNotFoundError("the lease is unknown or has expired", lease_id="job"))

    with (
        pytest.raises(LeaseNotFoundError),
        acquire(link, "job", latest, duration="30ms", auto_renew=True) as lease,
    ):
        wait_until(lambda: lease.failure is not None)

    assert "lease is lost: what it held may go id=job" in caplog.text


def test_error_inside_the_context_is_not_hidden_by_a_failed_renewal(
    link: Link, node: ClientNode, latest: LatestSnapshots
) -> None:
    node.rules.refuse("leases.renew", LeaseNotFoundError("the lease is unknown or has expired", lease_id="job"))

    def read() -> None:
        with acquire(link, "job", latest, duration="30ms", auto_renew=True) as lease:
            wait_until(lambda: lease.failure is not None)
            raise KeyError("the reader's own")

    with pytest.raises(KeyError):
        read()


def renewing() -> bool:
    return any(thread.name == "penstock-lease-job" for thread in threading.enumerate())
