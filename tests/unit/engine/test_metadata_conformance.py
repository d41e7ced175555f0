"""What every metadata store promises, asked of each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.metadata.memory_store import MemoryMetadataStore
from penstock.engine.metadata.sqlite_store import SqliteMetadataStore
from penstock.engine.metadata.store import (
    ABSENT,
    KEY_LENGTH_MAX,
    VALUE_BYTES_MAX,
    WRITES_MAX,
    Check,
    Delete,
    MetadataStore,
    Put,
)
from penstock.errors import ClosedError, ConflictError, LimitError


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetadataStore]:
    opened = MemoryMetadataStore() if request.param == "memory" else SqliteMetadataStore(tmp_path / "metadata.sqlite")
    yield opened
    opened.close()


def test_what_is_put_is_got_with_its_version(store: MetadataStore) -> None:
    version = store.commit([Put("a", b"1"), Put("b", b"")])

    assert store.get("a") == ("a", b"1", version)
    assert store.get("b") == ("b", b"", version)
    assert store.get("c") is None


def test_a_prefix_lists_in_key_order(store: MetadataStore) -> None:
    store.commit([Put(key, b"x") for key in ("t/2", "t/10", "t", "t/", "tz", "s/1", "t/~~", "u")])

    assert [entry.key for entry in store.list("t/")] == ["t/", "t/10", "t/2", "t/~~"]
    assert [entry.key for entry in store.list("")] == sorted(["t/2", "t/10", "t", "t/", "tz", "s/1", "t/~~", "u"])
    assert store.list("nothing") == []


def test_a_put_with_the_right_version_wins_once(store: MetadataStore) -> None:
    first = store.commit([Put("a", b"1", ABSENT)])
    second = store.commit([Put("a", b"2", first)])

    with pytest.raises(ConflictError, match=f"changed meanwhile key=a expected={first} version={second}"):
        store.commit([Put("a", b"3", first)])
    assert store.get("a") == ("a", b"2", second)


def test_an_expected_absence_is_checked(store: MetadataStore) -> None:
    store.commit([Put("a", b"1", ABSENT)])

    with pytest.raises(ConflictError, match="there already"):
        store.commit([Put("a", b"2", ABSENT)])


def test_one_failed_expectation_leaves_every_key_as_it_was(store: MetadataStore) -> None:
    version = store.commit([Put("a", b"1"), Put("b", b"1")])

    for wrong in (Put("b", b"2", version + 7), Delete("b", version + 7), Check("b", ABSENT), Check("c", version)):
        with pytest.raises(ConflictError):
            store.commit([Put("a", b"2"), Put("new", b"2"), wrong])
    assert [(entry.key, entry.value) for entry in store.list("")] == [("a", b"1"), ("b", b"1")]


def test_deleting_is_conditional_where_a_version_is_named(store: MetadataStore) -> None:
    version = store.commit([Put("a", b"1")])

    store.commit([Delete("a", version), Delete("never there")])

    assert store.get("a") is None
    with pytest.raises(ConflictError):
        store.commit([Delete("a", version)])


def test_a_key_that_comes_back_has_a_version_it_never_had(store: MetadataStore) -> None:
    versions = []
    for _ in range(3):
        versions.append(store.commit([Put("a", b"1", ABSENT)]))
        store.commit([Delete("a")])

    assert len(set(versions)) == 3


def test_a_check_changes_nothing(store: MetadataStore) -> None:
    version = store.commit([Put("a", b"1")])

    store.commit([Check("a", version), Check("b", ABSENT), Put("c", b"1")])

    assert store.get("a") == ("a", b"1", version)
    assert store.get("b") is None


def test_limits_are_refused_before_anything_is_written(store: MetadataStore) -> None:
    store.commit([Put("k" * KEY_LENGTH_MAX, b"\x00" * (1 << 20))])

    for writes in (
        [Put("k" * (KEY_LENGTH_MAX + 1), b"")],
        [Put("big", b"\x00" * (VALUE_BYTES_MAX + 1))],
        [Put(f"k{number}", b"") for number in range(WRITES_MAX + 1)],
    ):
        with pytest.raises(LimitError):
            store.commit(writes)
    assert len(store.list("")) == 1


def test_concurrent_increments_by_compare_and_set_lose_none(store: MetadataStore) -> None:
    store.commit([Put("n", b"0")])

    def increment() -> None:
        done = 0
        while done < 50:
            entry = store.get("n")
            assert entry is not None
            try:
                store.commit([Put("n", str(int(entry.value) + 1).encode(), entry.version)])
            except ConflictError:
                continue
            done += 1

    threads = [threading.Thread(target=increment) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entry = store.get("n")
    assert entry is not None
    assert entry.value == b"200"


def test_a_closed_store_says_so(store: MetadataStore) -> None:
    store.close()
    store.close()

    for call in (lambda: store.get("a"), lambda: store.list(""), lambda: store.commit([Put("a", b"")])):
        with pytest.raises(ClosedError, match="closed"):
            call()
