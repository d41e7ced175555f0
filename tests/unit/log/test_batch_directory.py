import numpy as np
import pytest

from penstock.errors import CorruptionError
from penstock.log.batch_directory import BatchDirectory, DirectoryBuilder, concat
from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts


def batch(base_offset: int, rows: int, *, at: int = 0, columns: tuple[int, ...] | None = None) -> BatchFacts:
    kind = BatchKind.DATA if rows else BatchKind.EMPTY
    return BatchFacts(base_offset, rows, timestamp_ms=at, term=1, schema_id=1, kind=kind, columns=columns)


def directory_of(*batches: BatchFacts) -> BatchDirectory:
    builder = DirectoryBuilder()
    for facts in batches:
        builder.append(facts)
    return builder.snapshot()


def all_facts(directory: BatchDirectory) -> list[BatchFacts]:
    return [directory.facts(i) for i in range(len(directory))]


FIVE = (batch(10, 5, at=100), batch(15, 0, at=110), batch(15, 1, at=120), batch(16, 4, at=120), batch(20, 0, at=200))


def test_every_fact_of_a_batch_comes_back() -> None:
    full = BatchFacts(3, 2, 17, 4, 5, BatchKind.UNDO, b"writer  writer\0\0", 8, 9, 6, 7, b"a" * 15 + b"\0", (4, 0))

    directory = directory_of(full)

    assert directory.facts(0) == full
    assert (directory.term[0], directory.sequence[0], directory.owner[0]) == (4, 8, 9)
    assert (directory.fence[0], directory.epoch[0], directory.kind[0]) == (6, 7, BatchKind.UNDO)
    assert directory.writer_id[0].tobytes() == full.writer_id
    assert directory.attempt[0].tobytes() == full.attempt


def test_snapshot_does_not_see_what_is_appended_later() -> None:
    builder = DirectoryBuilder()
    snapshots = []
    for i in range(1000):
        builder.append(batch(i, 1, columns=(i % 3,)))
        snapshots.append(builder.snapshot())

    for i in (0, 62, 63, 64, 65, 998, 999):
        assert len(snapshots[i]) == i + 1
        assert snapshots[i].facts(i) == batch(i, 1, columns=(i % 3,))
        assert snapshots[i].facts(0) == batch(0, 1, columns=(0,))


def test_batch_of_an_offset_is_the_one_with_its_row() -> None:
    directory = directory_of(*FIVE)

    found = directory.batch_of(np.array([9, 10, 14, 15, 16, 19, 20, 99]))

    assert found.tolist() == [-1, 0, 0, 2, 3, 3, -1, -1]


def test_timestamp_of_an_offset_is_that_of_its_batch() -> None:
    directory = directory_of(*FIVE)

    assert directory.timestamps_of(np.array([9, 14, 15, 19, 20])).tolist() == [-1, 100, 120, 120, -1]


def test_first_offset_at_a_time() -> None:
    directory = directory_of(*FIVE)

    assert [directory.first_offset_at(at) for at in (0, 100, 101, 120, 121, 201)] == [10, 10, 15, 15, 20, None]


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        (10, 20, [0, 1, 2, 3]),
        (0, 99, [0, 1, 2, 3, 4]),
        (14, 15, [0]),
        (15, 16, [1, 2]),
        (17, 18, [3]),
        (20, 21, [4]),
        (5, 10, []),
        (30, 40, []),
        (15, 15, []),
    ],
)
def test_between_keeps_batches_with_rows_in_the_range(start: int, end: int, kept: list[int]) -> None:
    assert all_facts(directory_of(*FIVE).between(start, end)) == [FIVE[i] for i in kept]


@pytest.mark.parametrize(("offset", "dropped"), [(0, 0), (14, 0), (15, 1), (16, 3), (20, 4), (21, 5)])
def test_since_drops_batches_wholly_below(offset: int, dropped: int) -> None:
    assert all_facts(directory_of(*FIVE).since(offset)) == list(FIVE[dropped:])


def test_concat_keeps_each_batch_with_its_own_columns() -> None:
    parts = [
        (batch(0, 1, columns=(1,)), batch(1, 1), batch(2, 1, columns=(2, 3))),
        (batch(3, 1, columns=(2, 3)), batch(4, 1, columns=(9,))),
        (),
    ]

    joined = concat([directory_of(*part) for part in parts])

    assert all_facts(joined) == [facts for part in parts for facts in part]
    assert len(concat([])) == 0


def test_bytes_give_the_directory_back() -> None:
    directory = directory_of(*FIVE, batch(20, 3, columns=(4, 0)), batch(23, 1, columns=())).since(15)

    again = BatchDirectory.from_bytes(directory.to_bytes())

    assert all_facts(again) == all_facts(directory)
    assert all_facts(BatchDirectory.from_bytes(BatchDirectory.empty().to_bytes())) == []


def test_truncated_bytes_are_refused() -> None:
    data = directory_of(batch(0, 1, columns=(1, 2))).to_bytes()

    for length in range(len(data)):
        with pytest.raises(CorruptionError):
            BatchDirectory.from_bytes(data[:length])


def test_empty_directory_knows_no_offset() -> None:
    empty = BatchDirectory.empty()

    assert empty.batch_of(np.array([0, 1])).tolist() == [-1, -1]
    assert empty.timestamps_of(np.array([0])).tolist() == [-1]
    assert empty.first_offset_at(0) is None
    assert len(empty.since(0)) == len(empty.between(0, 9)) == 0


def test_code_of_columns_tells_schemas_and_columns_apart() -> None:
    older = [batch(0, 1), batch(1, 1, columns=(2,)), batch(2, 1, columns=(3,)), batch(3, 1, columns=(2,))]
    newer = [batch(4, 1)._replace(schema_id=2), batch(5, 1, columns=(2,))._replace(schema_id=2)]

    codes = concat([directory_of(*older), directory_of(*newer)]).columns_code.tolist()

    assert codes[1] == codes[3]
    assert len(set(codes)) == 5
