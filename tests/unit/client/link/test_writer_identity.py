from __future__ import annotations

from contextlib import ExitStack

import pytest

from penstock.client.link.writer_identity import WriterIdentities


def test_calls_one_after_the_other_share_an_identity_with_growing_sequences() -> None:
    identities = WriterIdentities()
    seen = []

    for _ in range(3):
        with identities.borrow() as who:
            seen.append((who.writer_id, who.sequence))

    assert [sequence for _, sequence in seen] == [0, 1, 2]
    assert len({writer_id for writer_id, _ in seen}) == 1
    assert len(seen[0][0]) == 16


def test_calls_at_the_same_time_never_share_an_identity() -> None:
    identities = WriterIdentities()

    with ExitStack() as stack:
        borrowed = [stack.enter_context(identities.borrow()) for _ in range(5)]

    assert len({who.writer_id for who in borrowed}) == 5


def test_an_identity_is_not_lent_again_after_a_failed_call() -> None:
    identities = WriterIdentities()
    lost: list[bytes] = []

    def fail() -> None:
        with identities.borrow() as who:
            lost.append(who.writer_id)
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()

    with identities.borrow() as who:
        assert who.writer_id not in lost
        assert who.sequence == 0
