import errno
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.errors import BucketFailedError
from penstock.log.segment import Segment, SegmentWriter, read_segment
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]
PATH = "b/0.seg"


def create(disk: FaultyDisk, schema: pa.Schema, *, preallocate_bytes: int = 0) -> SegmentWriter:
    return SegmentWriter.create(
        disk,
        PATH,
        bucket=BucketId(1, 0, 2),
        base_offset=100,
        schema_id=5,
        schema=schema,
        preallocate_bytes=preallocate_bytes,
    )


def facts(base_offset: int, count: int) -> BatchFacts:
    return BatchFacts(base_offset, count, timestamp_ms=base_offset, term=1, schema_id=5)


def reread(disk: FaultyDisk) -> Segment:
    segment = read_segment(disk, PATH, last=True, durable_end=None)
    assert segment is not None
    return segment


def test_append_returns_the_bytes_it_took(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    before = writer.size

    took = writer.append(facts(100, 3), rows(3))

    assert writer.size == before + took
    assert writer.end_offset == 103


def test_batch_without_rows_has_no_body(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    empty = BatchFacts(100, 0, timestamp_ms=1, term=1, schema_id=5, kind=BatchKind.EMPTY)

    took = [writer.append(empty, None), writer.append(empty, rows(0))]

    assert took[0] == took[1] < 240
    assert reread(disk).batches == [(empty, None), (empty, None)]


def test_new_segment_survives_power_loss(disk: FaultyDisk, rows: Rows) -> None:
    create(disk, rows(0).schema, preallocate_bytes=4096)

    for seed in range(20):
        segment = reread(disk.after_power_loss(seed))
        assert (segment.bucket, segment.base_offset, segment.schema_id) == (BucketId(1, 0, 2), 100, 5)
        assert segment.schema == rows(0).schema
        assert segment.batches == []


@pytest.mark.parametrize("kind", ["preallocate", "append", "sync", "sync_directory"])
def test_failed_creation_leaves_no_file(disk: FaultyDisk, rows: Rows, kind: str) -> None:
    disk.fail_when(lambda operation: operation.kind == kind, errno.EIO)

    with pytest.raises(OSError, match="5"):
        create(disk, rows(0).schema)

    assert not disk.exists(PATH)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("done", [0.0, 0.3, 0.99, 1.0])
def test_failed_append_takes_its_bytes_back(disk: FaultyDisk, rows: Rows, error: int, done: float) -> None:
    writer = create(disk, rows(0).schema)
    writer.append(facts(100, 3), rows(3))
    before = writer.size
    disk.fail_at(disk.operations, error, done=done)

    with pytest.raises(OSError, match=str(error)):
        writer.append(facts(103, 2), rows(2, first=3))

    assert (writer.size, writer.end_offset) == (before, 103)
    assert disk.size(PATH) == before
    writer.append(facts(103, 1), rows(1, first=50))
    writer.sync()
    assert [batch.column(0).to_pylist() for _, batch in reread(disk).batches if batch] == [[0, 1, 2], [50]]


@pytest.mark.parametrize("done", [0.0, 0.4, 0.6, 0.99])
def test_batches_of_one_append_are_in_the_file_together_or_not_at_all(
    disk: FaultyDisk, rows: Rows, done: float
) -> None:
    writer = create(disk, rows(0).schema)
    before = writer.size
    entries = [(facts(100, 3), rows(3)), (facts(103, 2), rows(2, first=3))]
    disk.fail_at(disk.operations, errno.EIO, done=done)

    with pytest.raises(OSError, match="5"):
        writer.append_all(entries)

    assert (writer.size, writer.end_offset, disk.size(PATH)) == (before, 100, before)
    writer.append_all(entries)
    assert [batch.column(0).to_pylist() for _, batch in reread(disk).batches if batch] == [[0, 1, 2], [3, 4]]


def test_full_disk_keeps_what_was_written(rows: Rows) -> None:
    disk = FaultyDisk(capacity_bytes=4096)
    disk.make_directory("b")
    writer = create(disk, rows(0).schema)
    writer.append(facts(100, 3), rows(3))

    with pytest.raises(OSError) as caught:  # noqa: PT011  the errno says which
        writer.append(facts(103, 1000), rows(1000))

    assert caught.value.errno == errno.ENOSPC
    assert reread(disk).end_offset == 103


@pytest.mark.parametrize("kind", ["truncate", "sync"])
def test_append_that_cannot_be_taken_back_fails_the_writer(disk: FaultyDisk, rows: Rows, kind: str) -> None:
    writer = create(disk, rows(0).schema)
    disk.fail_at(disk.operations, errno.ENOSPC, done=0.5)
    disk.fail_when(lambda operation: operation.kind == kind, errno.EIO)
    with pytest.raises(OSError, match="28"):
        writer.append(facts(100, 3), rows(3))
    disk.clear_faults()

    for act in (lambda: writer.append(facts(100, 3), rows(3)), writer.sync, writer.finish, lambda: writer.rollback(0)):
        with pytest.raises(BucketFailedError, match=f"file={PATH}"):
            act()


def test_failed_sync_poisons_the_writer(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    writer.append(facts(100, 3), rows(3))
    disk.fail_at(disk.operations, errno.EIO)

    with pytest.raises(BucketFailedError) as caught:
        writer.sync()

    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(BucketFailedError):
        writer.sync()
    with pytest.raises(BucketFailedError):
        writer.append(facts(103, 1), rows(1))


def test_rollback_returns_to_an_earlier_size(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema, preallocate_bytes=8192)
    writer.append(facts(100, 2), rows(2))
    kept = writer.size
    writer.append(facts(102, 2), rows(2))
    writer.append(facts(104, 2), rows(2))

    writer.rollback(kept)

    assert (writer.size, writer.end_offset) == (kept, 102)
    writer.append(facts(102, 1), rows(1, first=9))
    assert [batch.column(0).to_pylist() for _, batch in reread(disk).batches if batch] == [[0, 1], [9]]


def test_batch_that_was_taken_back_never_returns(disk: FaultyDisk, rows: Rows) -> None:
    """Without a sync at the cut, a lost write could leave an old batch standing behind a new one."""
    writer = create(disk, rows(0).schema)
    kept = writer.size
    writer.append(facts(100, 1), rows(1, first=10))
    writer.append(facts(101, 1), rows(1, first=11))

    writer.rollback(kept)
    writer.append(facts(100, 1), rows(1, first=20))

    for seed in range(100):
        batches = reread(disk.after_power_loss(seed)).batches
        assert [batch.column(0).to_pylist() for _, batch in batches if batch] in ([], [[20]]), seed


def test_rollback_to_the_present_size_does_nothing(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    writer.append(facts(100, 2), rows(2))
    before = disk.operations

    writer.rollback(writer.size)

    assert disk.operations == before


def test_finish_gives_back_reserved_space_durably(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema, preallocate_bytes=1 << 16)
    writer.append(facts(100, 2), rows(2))

    writer.finish()

    for seed in range(20):
        lost = disk.after_power_loss(seed)
        assert lost.size(PATH) == writer.size
        segment = read_segment(lost, PATH, last=False, durable_end=None)
        assert segment is not None
        assert segment.end_offset == 102


def test_reserved_space_grows_with_what_is_appended_and_ends_at_the_limit(disk: FaultyDisk, rows: Rows) -> None:
    limit = 1 << 20
    writer = create(disk, rows(0).schema, preallocate_bytes=limit)
    reserved = [disk.size(PATH)]
    offset = 100
    while writer.size < limit:
        writer.append(facts(offset, 500), rows(500))
        offset += 500
        reserved.append(disk.size(PATH))
        assert reserved[-1] <= max(limit, writer.size)
        assert reserved[-1] <= max(2 * writer.size, reserved[0])

    assert reserved[0] == 16 << 10
    # Each time about twice as much: the file system is asked seldom.
    assert len(set(reserved)) < 12
    writer.finish()
    assert disk.size(PATH) == writer.size
