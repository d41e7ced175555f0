"""What a `FaultyDisk` may and may not lose."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from penstock.runtime.disk import write_atomically
from penstock.testing.fault_plan import SimulatedCrash
from penstock.testing.faulty_disk import FaultyDisk
from penstock.testing.faulty_file import FaultyAppendFile

SEEDS = range(200)


def outcomes(disk: FaultyDisk, look: Callable[[FaultyDisk], object]) -> set[object]:
    """Return what `look` finds over many power losses; the seeds are 0 to 199."""
    return {look(disk.after_power_loss(seed)) for seed in SEEDS}


def read(path: str) -> Callable[[FaultyDisk], bytes | None]:
    return lambda disk: disk.read(path) if disk.exists(path) else None


def durable_file(disk: FaultyDisk, path: str, data: bytes) -> None:
    file = disk.create(path)
    file.append(data)
    file.sync()
    disk.sync_directory(path.rpartition("/")[0])


def test_synced_bytes_of_a_synced_name_always_survive() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"kept" * 500)

    assert outcomes(disk, read("a")) == {b"kept" * 500}


def test_unsynced_bytes_are_kept_dropped_cut_or_scattered_and_synced_ones_stay() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"s" * 700)
    file = disk.open_append("a", 700)
    file.append(b"n" * 3000)

    found = outcomes(disk, read("a"))

    images = [image for image in found if isinstance(image, bytes)]
    assert len(images) == len(found)
    assert all(image[:700] == b"s" * 700 for image in images)
    assert all(set(image[700:]) <= set(b"n\0") for image in images)
    assert b"s" * 700 in images, "all dropped"
    assert b"s" * 700 + b"n" * 3000 in images, "all kept"
    assert any(len(image) % 512 and len(image) < 3700 and 0 not in image for image in images), "cut at a byte"
    assert any(len(image) % 512 == 0 and len(image) > 700 and 0 not in image for image in images), "cut at a sector"
    assert any(0 in image and image.rstrip(b"\0").endswith(b"n") for image in images), "a hole before kept bytes"


def test_scattered_holes_are_whole_sectors() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"")
    disk.open_append("a", 0).append(b"n" * 4096)

    for image in outcomes(disk, read("a")):
        assert isinstance(image, bytes)
        if 0 in image:
            assert all(len(set(image[start : start + 512])) == 1 for start in range(0, len(image), 512))


def test_unsynced_truncate_may_come_undone_and_mix_with_what_was_appended_since() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"o" * 2048)
    file = disk.open_append("a", 512)
    file.append(b"n" * 1024)

    found = outcomes(disk, read("a"))

    images = [image for image in found if isinstance(image, bytes)]
    assert all(image[:512] == b"o" * 512 for image in images)
    assert b"o" * 2048 in images
    assert b"o" * 512 + b"n" * 1024 in images
    assert any(b"n" in image and b"o" in image[512:] for image in images)


def test_synced_truncate_stays() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"o" * 2048)
    file = disk.open_append("a", 100)
    file.sync()

    assert outcomes(disk, read("a")) == {b"o" * 100}


def test_preallocated_space_reads_as_zeroes_after_a_loss() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    file.preallocate(5000)
    file.append(b"s" * 1000)
    file.sync()
    disk.sync_directory("")
    file.append(b"n" * 1000)

    for image in outcomes(disk, read("a")):
        assert isinstance(image, bytes)
        assert len(image) == 5000
        assert image[:1000] == b"s" * 1000
        assert image[2000:] == bytes(3000)


def test_unsynced_preallocation_may_be_lost() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"s")
    disk.open_append("a", 1).preallocate(10)

    assert outcomes(disk, lambda after: after.size("a")) == {1, 10}


def test_created_file_may_be_gone_though_its_bytes_were_synced() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    file.append(b"data")
    file.sync()

    assert outcomes(disk, read("a")) == {None, b"data"}
    disk.sync_directory("")
    assert outcomes(disk, read("a")) == {b"data"}


def test_synced_name_of_unsynced_bytes_may_be_empty() -> None:
    disk = FaultyDisk()
    disk.create("a").append(b"data")
    disk.sync_directory("")

    assert {b"", b"data"} <= outcomes(disk, read("a"))


def test_unsynced_rename_leaves_the_old_or_the_new_file() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"old")
    durable_file(disk, "a.tmp", b"new")
    disk.replace("a.tmp", "a")

    found = outcomes(disk, lambda after: (read("a")(after), read("a.tmp")(after)))

    assert found == {(b"old", b"new"), (b"new", None)}
    disk.sync_directory("")
    assert outcomes(disk, lambda after: (read("a")(after), read("a.tmp")(after))) == {(b"new", None)}


def test_rename_between_directories_is_durable_with_the_targets_directory() -> None:
    disk = FaultyDisk()
    for directory in ("x", "y"):
        disk.make_directory(directory)
    file = disk.create("x/a")
    file.append(b"data")
    file.sync()
    disk.replace("x/a", "y/a")

    both: Callable[[FaultyDisk], object] = lambda after: tuple(after.paths())  # noqa: E731
    assert outcomes(disk, both) == {(), ("x/a",), ("y/a",)}
    disk.sync_directory("y")
    disk.sync_directory("x")
    assert outcomes(disk, both) == {("y/a",)}


def test_unsynced_remove_may_come_undone() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"data")
    disk.remove("a")

    assert outcomes(disk, read("a")) == {None, b"data"}
    disk.sync_directory("")
    assert outcomes(disk, read("a")) == {None}


def test_names_are_lost_in_order_or_out_of_order() -> None:
    disk = FaultyDisk()
    for name in "abc":
        disk.create(name)

    found = outcomes(disk, lambda after: "".join(after.paths()))

    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_a_sync_covers_only_its_own_directory() -> None:
    disk = FaultyDisk()
    disk.make_directory("x")
    disk.create("x/a")
    disk.create("b")

    disk.sync_directory("")

    assert outcomes(disk, lambda after: tuple(after.paths())) == {("b",), ("b", "x/a")}


def test_made_directory_is_durable_and_what_lies_beside_is_not() -> None:
    disk = FaultyDisk()
    disk.create("a")
    disk.make_directory("x/y/z")

    assert outcomes(disk, lambda after: after.exists("x/y/z")) == {True}
    assert outcomes(disk, lambda after: after.exists("a")) == {True, False}


def test_directory_made_by_half_may_be_lost_until_it_is_made_again() -> None:
    disk = FaultyDisk()
    disk.crash_at(0, done=0.5)
    with pytest.raises(SimulatedCrash):
        disk.make_directory("x/y")

    disk = disk.after_kill()

    assert disk.exists("x/y")
    assert outcomes(disk, lambda after: (after.exists("x"), after.exists("x/y"))) == {
        (False, False),
        (True, False),
        (True, True),
    }
    disk.make_directory("x/y")
    assert outcomes(disk, lambda after: after.exists("x/y")) == {True}


def test_unsynced_remove_tree_may_leave_any_part() -> None:
    disk = FaultyDisk()
    disk.make_directory("t/u")
    durable_file(disk, "t/u/a", b"")
    durable_file(disk, "t/b", b"")
    disk.create("t/c")
    disk.remove_tree("t")

    found = outcomes(disk, lambda after: tuple(after.paths()))

    assert {(), ("t/b",), ("t/b", "t/u/a"), ("t/u/a",)} <= found
    disk.sync_directory("")
    assert outcomes(disk, lambda after: (tuple(after.paths()), after.exists("t"))) == {((), False)}


def test_tree_removed_and_made_again_is_empty_after_a_loss() -> None:
    disk = FaultyDisk()
    disk.make_directory("t")
    durable_file(disk, "t/a", b"old")
    disk.create("t/b")
    disk.remove_tree("t")
    disk.make_directory("t")

    assert outcomes(disk, lambda after: (after.exists("t"), tuple(after.paths()))) == {(True, ())}


def test_same_seed_gives_the_same_loss_and_leaves_the_disk_as_it_was() -> None:
    disk = FaultyDisk()
    disk.create("a").append(b"n" * 5000)
    disk.create("b")

    first, second = disk.after_power_loss(7), disk.after_power_loss(7)

    assert [first.paths(), *map(first.read, first.paths())] == [second.paths(), *map(second.read, second.paths())]
    assert disk.read("a") == b"n" * 5000


def test_what_came_back_after_a_loss_is_durable() -> None:
    disk = FaultyDisk()
    disk.create("a").append(b"n" * 5000)
    after = next(after for after in map(disk.after_power_loss, SEEDS) if after.exists("a") and after.size("a"))

    assert outcomes(after, read("a")) == {after.read("a")}


def test_kill_keeps_everything_written_and_a_later_power_loss_does_not() -> None:
    disk = FaultyDisk()
    file = disk.create("a")
    file.append(b"data")

    after = disk.after_kill()
    file.append(b"more")

    assert after.read("a") == b"data"
    assert {None, b"data"} <= outcomes(after, read("a"))


def test_bytes_of_a_failed_sync_stay_unsure_though_a_later_sync_succeeds() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"s" * 512)
    file = disk.open_append("a", 512)
    file.append(b"lost" * 128)
    disk.fail_at(disk.operations, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.append(b"more" * 128)

    file.sync()

    assert disk.read("a") == b"s" * 512 + b"lost" * 128 + b"more" * 128, "the process still reads them"
    assert outcomes(disk.after_kill(), read("a")) == {
        b"s" * 512 + b"lost" * 128 + b"more" * 128,
        b"s" * 512 + bytes(512) + b"more" * 128,
    }


def test_a_sync_after_a_failed_one_does_not_save_the_end_of_the_file() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"s")
    file = disk.open_append("a", 1)
    file.append(b"lost")
    disk.fail_at(disk.operations, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()

    file.sync()

    assert {b"s", b"slost"} <= outcomes(disk, read("a"))


def test_bytes_cut_off_and_written_again_after_a_failed_sync_are_durable() -> None:
    disk = FaultyDisk()
    durable_file(disk, "a", b"s")
    file = disk.open_append("a", 1)
    file.append(b"lost")
    disk.fail_at(disk.operations, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()

    file.truncate(1)
    file.append(b"again")
    file.sync()

    assert outcomes(disk, read("a")) == {b"sagain"}


def test_write_atomically_gives_the_old_file_or_the_new_one_at_every_crash() -> None:
    disk = FaultyDisk()
    write_atomically(disk, "m", b"old" * 400)
    steps = 0
    found = set()
    while True:
        victim = disk.after_kill()
        victim.crash_at(steps, done=(steps % 3) / 2)
        try:
            write_atomically(victim, "m", b"new" * 400)
        except SimulatedCrash:
            found |= outcomes(victim, read("m"))
            steps += 1
        else:
            found_after = outcomes(victim, read("m"))
            break

    assert steps == 5
    assert found == {b"old" * 400, b"new" * 400}
    assert found_after == {b"new" * 400}


@pytest.mark.parametrize("kind", ["sync", "sync_directory"])
def test_write_atomically_is_not_atomic_or_not_durable_without_one_of_its_syncs(kind: str) -> None:
    disk = FaultyDisk()
    write_atomically(disk, "m", b"old" * 400)
    disk.skip_syncs(lambda operation: operation.kind == kind)

    write_atomically(disk, "m", b"new" * 400)

    assert outcomes(disk, read("m")) != {b"new" * 400}


class Promises:
    """Random work on a disk, with what the disk owes after it: names and bytes that were synced, untouched since."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = FaultyDisk()
        self.files: dict[str, FaultyAppendFile] = {}
        self.bytes_synced: dict[FaultyAppendFile, bytes] = {}
        self.names_synced: dict[str, FaultyAppendFile | None] = {}

    def step(self) -> None:
        act = self.random.choice((self.create, self.append, self.append, self.sync, self.truncate, self.replace))
        self.random.choice((act, act, self.remove, self.sync_names))()

    def create(self) -> None:
        name = self.random.choice("abcdef")
        if name not in self.files:
            self.files[name] = self.disk.create(name)
            self.bytes_synced[self.files[name]] = b""
            self.names_synced.pop(name, None)

    def append(self) -> None:
        for _, file in self.pick():
            file.append(self.random.randbytes(self.random.choice((1, 100, 512, 2000))))

    def sync(self) -> None:
        for name, file in self.pick():
            file.sync()
            self.bytes_synced[file] = self.disk.read(name)

    def truncate(self) -> None:
        for _, file in self.pick():
            file.truncate(self.random.randint(0, file.size))
            self.bytes_synced[file] = self.bytes_synced[file][: file.size]

    def replace(self) -> None:
        target = self.random.choice("abcdef")
        for name, file in self.pick():
            if name != target:
                self.disk.replace(name, target)
                del self.files[name]
                self.files[target] = file
                self.names_synced.pop(name, None)
                self.names_synced.pop(target, None)

    def remove(self) -> None:
        for name, _ in self.pick():
            self.disk.remove(name)
            del self.files[name]
            self.names_synced.pop(name, None)

    def sync_names(self) -> None:
        self.disk.sync_directory("")
        self.names_synced = {name: self.files.get(name) for name in "abcdef"}

    def pick(self) -> list[tuple[str, FaultyAppendFile]]:
        return self.random.sample(sorted(self.files.items(), key=lambda item: item[0]), min(1, len(self.files)))

    def check(self, after: FaultyDisk) -> None:
        for name, file in self.names_synced.items():
            assert after.exists(name) == (file is not None), name
            if file is not None:
                assert after.read(name).startswith(self.bytes_synced[file]), name


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_synced_and_not_touched_since_survives_any_work(seed: int) -> None:
    print(f"seed={seed}")
    promises = Promises(Random(seed))
    for step in range(60):
        promises.step()
        promises.check(promises.disk.after_kill())
        for loss in range(3):
            promises.check(promises.disk.after_power_loss(step * 3 + loss))
