"""What scanners are about is known for as long as they have more to give."""

from __future__ import annotations

import pyarrow as pa

from penstock.client.remote.stream_affinity import StreamAffinity, rows_affinity
from penstock.model.node.calls import OpenScan, Page
from penstock.model.place.bucket import TableBucket

CALL = OpenScan(7, 1, TableBucket("shop.orders", None, 0), ("id",))


def page(scanner_id: str | None, *, has_more: bool = True) -> Page:
    return Page(scanner_id, 9, (pa.record_batch({"id": [1]}),), has_more, 1, b"")


def test_scanner_is_known_until_it_has_no_more_or_is_forgotten() -> None:
    known = StreamAffinity()
    for name in ("a", "b", "c"):
        known.note(page(name), rows_affinity(CALL))
    known.note(page("a", has_more=False), rows_affinity(CALL))
    known.note(page(None), rows_affinity(CALL))
    known.forget("b")
    known.forget("b")

    assert [known.get(name) for name in ("a", "b", "c")] == [None, None, rows_affinity(CALL)]
    assert len(known) == 1


def test_scanners_that_were_left_lying_are_forgotten() -> None:
    known = StreamAffinity(scanners_max=10)
    for number in range(100):
        known.note(page(str(number)), number)

    assert len(known) == 10
    assert (known.get("89"), known.get("90")) == (None, 90)


def test_scans_of_the_same_columns_are_about_the_same() -> None:
    assert rows_affinity(CALL) == rows_affinity(OpenScan(7, 1, TableBucket("shop.orders", None, 3), ("id",), limit=5))
    assert rows_affinity(CALL) != rows_affinity(OpenScan(7, 2, CALL.bucket, ("id",)))
    assert rows_affinity(CALL) != rows_affinity(OpenScan(7, 1, CALL.bucket))
