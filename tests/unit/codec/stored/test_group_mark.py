from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.stored.group_mark import MEMBER_BYTES, decode_members, encode_members


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_buckets_of_a_group_come_back(places: set[tuple[int, int]]) -> None:
    found = list(decode_members(encode_members(places)))

    assert len(found) == len(places)
    assert set(found) == places


def test_all_buckets_of_many_partitions_are_named_in_one_run() -> None:
    places = [(partition, bucket) for partition in range(7, 1007) for bucket in range(16)]

    assert len(encode_members(places)) == MEMBER_BYTES


def test_neighbours_with_other_buckets_are_runs_of_their_own() -> None:
    assert len(encode_members([(1, 0), (1, 1), (2, 0), (2, 1), (3, 1)])) == 2 * MEMBER_BYTES
