import pyarrow as pa

from penstock.log.chunk_cache import ChunkCache


def chunk(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def test_chunk_comes_back_until_it_is_dropped() -> None:
    cache = ChunkCache(1000)
    kept = chunk(10)
    cache.put(("a", 0, "0"), kept)
    cache.put(("b", 0, "0"), kept)

    assert cache.get(("a", 0, "0")) is kept
    assert cache.get(("a", 1, "0")) is None
    cache.drop("a")
    cache.drop("a")

    assert cache.get(("a", 0, "0")) is None
    assert cache.get(("b", 0, "0")) is kept
    assert cache.bytes == 80


def test_least_recently_used_chunk_goes_first() -> None:
    cache = ChunkCache(240)
    for block in range(3):
        cache.put(("a", block, "0"), chunk(10))
    cache.get(("a", 0, "0"))

    cache.put(("a", 3, "0"), chunk(10))

    assert [block for block in range(4) if cache.get(("a", block, "0")) is not None] == [0, 2, 3]
    assert (cache.bytes, cache.count) == (240, 3)


def test_chunk_larger_than_the_cache_is_not_kept() -> None:
    cache = ChunkCache(100)
    cache.put(("a", 0, "0"), chunk(5))

    cache.put(("a", 1, "0"), chunk(50))

    assert cache.get(("a", 1, "0")) is None
    assert cache.get(("a", 0, "0")) is not None


def test_chunk_that_is_put_twice_counts_once() -> None:
    cache = ChunkCache(1000)
    for _ in range(2):
        cache.put(("a", 0, "0"), chunk(10))

    assert (cache.bytes, cache.count) == (80, 1)


def test_cache_of_no_bytes_keeps_nothing() -> None:
    cache = ChunkCache(0)
    cache.put(("a", 0, "0"), chunk(1))

    assert cache.count == 0


def test_half_of_the_room_is_left_to_those_who_pick_rows() -> None:
    cache = ChunkCache(400)
    cache.put(("a", 0, "0"), chunk(10))

    assert cache.has_room(120)
    assert not cache.has_room(121)
