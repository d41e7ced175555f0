from __future__ import annotations

import pytest

from penstock.client.link.writer_identity import WriterIdentities, WriterIdentity


def test_calls_one_after_the_other_share_an_identity_with_growing_sequences() -> None:
    identities = WriterIdentities()

    seen = [identities.lend(lambda writer: (writer.writer_id, writer.sequence)) for _ in range(3)]

    assert [sequence for _, sequence in seen] == [0, 1, 2]
    assert len({writer_id for writer_id, _ in seen}) == 1
    assert len(seen[0][0]) == 16


def test_calls_at_the_same_time_never_share_an_identity() -> None:
    identities = WriterIdentities()

    def nested(writer: WriterIdentity, more: int) -> set[bytes]:
        inner = identities.lend(lambda other: nested(other, more - 1)) if more else set()
        return inner | {writer.writer_id}

    assert len(identities.lend(lambda writer: nested(writer, 4))) == 5


def test_an_identity_is_not_lent_again_after_a_failed_call() -> None:
    identities = WriterIdentities()
    lost: list[bytes] = []

    def fail(writer: WriterIdentity) -> None:
        lost.append(writer.writer_id)
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        identities.lend(fail)

    assert identities.lend(lambda writer: (writer.writer_id in lost, writer.sequence)) == (False, 0)
