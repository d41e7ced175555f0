import errno
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from penstock.codec.stored.group_mark import GroupMark
from penstock.errors import BucketFailedError, CorruptionError, UnsupportedError
from penstock.log.segment import Segment, SegmentWriter, cut_segment, read_segment
from penstock.model.place.bucket import BucketId
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts
from penstock.runtime.disk import Disk
from penstock.testing.faulty_disk import FaultyDisk

Rows = Callable[..., pa.RecordBatch]
PATH = "b/0.seg"


def create(disk: Disk, schema: pa.Schema, *, preallocate_bytes: int = 0, path: str = PATH) -> SegmentWriter:
    bucket = BucketId(1, 0, 2)
    return SegmentWriter.create(
        disk,
        path,
        bucket=bucket,
        base_offset=0,
        schema_id=5,
        schema=schema,
        preallocate_bytes=preallocate_bytes,
    )


def append(writer: SegmentWriter, batch: pa.RecordBatch) -> int:
    """Append a batch and return the position it starts at."""
    start = writer.size
    writer.append(BatchFacts(writer.end_offset, batch.num_rows, timestamp_ms=1, term=1, schema_id=5), batch)
    return start


def read(disk: Disk, *, last: bool = True, durable_end: int | None = None) -> Segment:
    segment = read_segment(disk, PATH, last=last, durable_end=durable_end)
    assert segment is not None
    return segment


def overwrite(disk: FaultyDisk, data: bytes) -> None:
    disk.remove(PATH)
    file = disk.create(PATH)
    file.append(data)
    file.sync()


def three_batches(disk: FaultyDisk, rows: Rows, *, each_synced: bool, preallocate_bytes: int = 0) -> list[int]:
    """Write three batches of some 2 kB; return where they start, and where the last ends."""
    writer = create(disk, rows(0).schema, preallocate_bytes=preallocate_bytes)
    starts = []
    for i in range(3):
        starts.append(append(writer, rows(40, first=i * 40)))
        if each_synced:
            writer.sync()
    return [*starts, writer.size]


def test_rows_of_every_type_come_back(disk: FaultyDisk, wide_rows: Rows) -> None:
    batches = [wide_rows(count, seed=count) for count in (1, 7, 300)]
    writer = create(disk, batches[0].schema)
    for batch in batches:
        append(writer, batch)
    writer.finish()

    segment = read(disk, last=False)

    assert [batch for _, batch in segment.batches] == batches
    assert segment.end_offset == 308
    assert (segment.valid_bytes, segment.torn) == (disk.size(PATH), False)


def test_slice_is_stored_without_its_parent(disk: FaultyDisk, wide_rows: Rows) -> None:
    parent = wide_rows(5000)
    writer = create(disk, parent.schema)

    append(writer, parent.slice(1000, 3))

    assert writer.size < 8192
    assert read(disk).batches[0][1] == parent.slice(1000, 3)


def test_facts_of_a_batch_come_back(disk: FaultyDisk, rows: Rows) -> None:
    written = BatchFacts(0, 2, 17, 3, 5, BatchKind.UNDO, b"w" * 16, 8, 4, 6, 9, b"a" * 16, (0, 1))
    writer = create(disk, rows(0).schema)

    writer.append(written, rows(2))

    assert read(disk).batches[0][0] == written


def test_reserved_space_of_the_last_segment_is_torn_and_holds_nothing(disk: FaultyDisk, rows: Rows) -> None:
    *_, end = three_batches(disk, rows, each_synced=True, preallocate_bytes=1 << 16)

    segment = read(disk)

    assert (segment.valid_bytes, segment.torn, segment.end_offset) == (end, True, 120)
    with pytest.raises(CorruptionError, match=f"position={end}"):
        read(disk, last=False)


def test_truncation_at_every_length_is_torn_in_the_last_segment_only(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    ends = [writer.size]
    for i in range(3):
        append(writer, rows(2, first=2 * i))
        ends.append(writer.size)
    data = disk.read(PATH)

    for length in range(len(data)):
        overwrite(disk, data[:length])
        whole = [end for end in ends if end <= length]
        if not whole:
            assert read_segment(disk, PATH, last=True, durable_end=None) is None
            with pytest.raises(CorruptionError):
                read(disk, last=False)
            continue
        segment = read(disk)
        assert (segment.valid_bytes, len(segment.batches)) == (whole[-1], len(whole) - 1)
        assert segment.torn == (length not in ends)
        if segment.torn:
            with pytest.raises(CorruptionError, match=f"position={whole[-1]}"):
                read(disk, last=False)


def test_every_flipped_bit_of_a_segment_is_found(disk: FaultyDisk, rows: Rows) -> None:
    """Also in the last segment: a batch that is all there and fails its checksum was not torn."""
    random = Random(11)
    starts = three_batches(disk, rows, each_synced=False)
    size = disk.size(PATH)
    for position in range(size):
        bit = random.randrange(8)
        disk.flip_bit(PATH, position, bit)
        with pytest.raises((CorruptionError, UnsupportedError)) as caught:
            read(disk)
        assert caught.value.facts["file"] == PATH
        if position >= starts[0]:
            assert caught.value.facts["position"] == max(start for start in starts if start <= position)
        disk.flip_bit(PATH, position, bit)
    assert read(disk).end_offset == 120


def sparse_rows(count: int, *set_rows: int) -> pa.RecordBatch:
    """Return rows of zeros but for some that have a single bit."""
    values = [1 if row in set_rows else 0 for row in range(count)]
    columns = {"0": pa.array(values, pa.int64()), "1": pa.array(values, pa.int8())}
    return pa.record_batch(columns | {"_op": pa.array(values, pa.int8()), "_prev": pa.array(values, pa.int64())})


@pytest.mark.parametrize(("set_rows", "reserved"), [((), 1 << 15), ((200,), 0)])
def test_every_flipped_bit_of_a_last_batch_of_zeros_is_found(
    disk: FaultyDisk, set_rows: tuple[int, ...], reserved: int
) -> None:
    """Sectors that are zero because the rows are were not lost, nor is one whose only set bit was flipped."""
    batch = sparse_rows(700, *set_rows)
    writer = create(disk, batch.schema, preallocate_bytes=reserved)
    append(writer, batch)
    start = append(writer, batch)
    end = writer.size
    writer.sync()
    data = disk.read(PATH)
    places = [(position, position % 8) for position in (*range(start, start + 300), *range(start + 300, end, 16))]
    places += [(position, 0) for position in range(start, end) if data[position] == 1]
    for position, bit in places:
        disk.flip_bit(PATH, position, bit)
        with pytest.raises((CorruptionError, UnsupportedError)) as caught:
            read(disk)
        assert caught.value.facts["position"] == start, (position, bit)
        disk.flip_bit(PATH, position, bit)
    assert read(disk).end_offset == 1400


def test_batches_of_zeros_are_torn_by_power_loss_and_never_damaged() -> None:
    for seed in range(300):
        random = Random(seed)
        disk = FaultyDisk()
        disk.make_directory("b")
        writer = create(disk, sparse_rows(0).schema, preallocate_bytes=random.choice((0, 1 << 14)))
        synced = 0
        for _ in range(random.randint(1, 6)):
            append(writer, sparse_rows(random.randint(1, 400), *random.sample(range(400), 2)))
            if random.random() < 0.4:
                writer.sync()
                synced = writer.end_offset

        assert read(disk.after_power_loss(seed), durable_end=synced).end_offset >= synced, seed


def test_sectors_lost_since_the_last_sync_are_torn_though_later_batches_are_intact(
    disk: FaultyDisk, rows: Rows
) -> None:
    first, second, third, _ = three_batches(disk, rows, each_synced=False)
    data = bytearray(disk.read(PATH))
    sector = (second // 512 + 1) * 512
    assert sector + 512 < third
    data[sector : sector + 512] = bytes(512)
    overwrite(disk, bytes(data))

    segment = read(disk)

    assert (segment.valid_bytes, segment.torn, segment.end_offset) == (second, True, 40)
    assert segment.positions == [first]


def test_lost_sectors_before_a_batch_that_knew_them_durable_are_damage(disk: FaultyDisk, rows: Rows) -> None:
    _, second, third, _ = three_batches(disk, rows, each_synced=True)
    data = bytearray(disk.read(PATH))
    data[second:third] = bytes(third - second)
    overwrite(disk, bytes(data))

    with pytest.raises(CorruptionError, match=f"position={second}"):
        read(disk)


def test_batch_lost_whole_before_an_intact_one_is_torn_if_no_sync_lay_between(disk: FaultyDisk, rows: Rows) -> None:
    _, second, third, _ = three_batches(disk, rows, each_synced=False)
    data = bytearray(disk.read(PATH))
    data[second:third] = bytes(third - second)
    overwrite(disk, bytes(data))

    assert read(disk).valid_bytes == second


def test_log_that_ends_before_what_was_durable_is_damage(disk: FaultyDisk, rows: Rows) -> None:
    *_, third, end = three_batches(disk, rows, each_synced=True)
    disk.truncate_file(PATH, end - 8)

    assert read(disk, durable_end=80).valid_bytes == third
    with pytest.raises(CorruptionError, match="durable_end=81"):
        read(disk, durable_end=81)


def test_moved_batch_is_damage(disk: FaultyDisk, rows: Rows) -> None:
    first, second, *_ = three_batches(disk, rows, each_synced=False)
    data = disk.read(PATH)
    overwrite(disk, data[:first] + data[second:])

    with pytest.raises(CorruptionError, match=f"not where it was written .*position={first}"):
        read(disk)


def test_batch_with_the_wrong_offset_is_damage(disk: FaultyDisk, rows: Rows) -> None:
    create(disk, rows(0).schema)
    head = disk.read(PATH)
    other = SegmentWriter.create(
        disk, "b/x", bucket=BucketId(1, 0, 2), base_offset=7, schema_id=5, schema=rows(0).schema, preallocate_bytes=0
    )
    start = append(other, rows(3))
    overwrite(disk, head + disk.read("b/x")[start:])

    with pytest.raises(CorruptionError, match="wrong offset"):
        read(disk)


def test_damaged_header_before_an_intact_batch_is_damage(disk: FaultyDisk, rows: Rows) -> None:
    three_batches(disk, rows, each_synced=True)
    data = disk.read(PATH)
    overwrite(disk, bytes(512) + data[512:])

    with pytest.raises(CorruptionError, match=f"file={PATH}"):
        read(disk)


def test_creation_that_never_finished_is_no_segment(disk: FaultyDisk, rows: Rows) -> None:
    schema = rows(0).schema
    first = disk.operations
    create(disk, schema, preallocate_bytes=4096)
    steps = disk.operations - first
    for step in range(steps):
        for seed in range(20):
            fresh = FaultyDisk()
            fresh.make_directory("b")
            fresh.crash_at(fresh.operations + step, done=0.5)
            with pytest.raises(BaseException, match="Operation"):
                create(fresh, schema, preallocate_bytes=4096)
            lost = fresh.after_power_loss(seed)
            if lost.exists(PATH):
                segment = read_segment(lost, PATH, last=True, durable_end=None)
                assert segment is None or segment.batches == []


def test_power_loss_keeps_every_synced_batch_and_no_part_of_another(rows: Rows) -> None:
    for seed in range(300):
        random = Random(seed)
        disk = FaultyDisk()
        disk.make_directory("b")
        writer = create(disk, rows(0).schema, preallocate_bytes=random.choice((0, 1 << 14)))
        synced = 0
        for _ in range(random.randint(1, 8)):
            append(writer, rows(random.randint(1, 60), first=writer.end_offset))
            if random.random() < 0.4:
                writer.sync()
                synced = writer.end_offset

        segment = read(disk.after_power_loss(seed), durable_end=synced)

        assert segment.end_offset >= synced, seed
        values = [value for _, batch in segment.batches if batch for value in batch.column(0).to_pylist()]
        assert values == list(range(segment.end_offset)), seed


def test_cut_segment_may_have_a_successor(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema, preallocate_bytes=1 << 16)
    for number in range(3):
        facts = BatchFacts(40 * number, 40, timestamp_ms=1, term=1, schema_id=5)
        writer.append_all([(facts, rows(40, first=40 * number))], GroupMark(number))
    writer.sync()
    cut = read(disk).before_group(2)

    cut_segment(disk, PATH, cut.valid_bytes)

    assert cut.end_offset == 80
    for seed in range(20):
        segment = read(disk.after_power_loss(seed), last=False)
        assert (segment.end_offset, segment.torn) == (80, False)


def test_cut_makes_durable_what_a_failed_sync_left_in_doubt(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    append(writer, rows(40))
    disk.fail_at(disk.operations, errno.EIO)
    with pytest.raises(BucketFailedError):
        writer.sync()
    disk.clear_faults()
    segment = read(disk)

    cut_segment(disk, PATH, segment.valid_bytes)

    for seed in range(50):
        assert read(disk.after_power_loss(seed), last=False).end_offset == 40


def test_bytes_that_pass_the_checksum_and_are_no_rows_are_damage(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema)
    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    bad = rows(2).set_column(1, pa.field("1", pa.string()), text)
    start = writer.size
    writer.append(BatchFacts(0, 2, timestamp_ms=1, term=1, schema_id=5), bad)

    with pytest.raises(CorruptionError, match=f"position={start}"):
        read(disk)


def test_segment_is_cut_where_it_is_on_a_disk_without_room_for_another(disk: FaultyDisk, rows: Rows) -> None:
    writer = create(disk, rows(0).schema, preallocate_bytes=1 << 16)
    append(writer, rows(40))
    disk.fail_at(disk.operations, errno.EIO)
    with pytest.raises(BucketFailedError):
        writer.sync()
    disk.clear_faults()
    segment = read(disk)
    disk.capacity_bytes = disk.size(PATH) + 100

    cut_segment(disk, PATH, segment.valid_bytes)

    assert disk.paths() == [PATH]
    for seed in range(20):
        found = read(disk.after_power_loss(seed), last=False)
        assert (found.end_offset, found.torn) == (40, False)
