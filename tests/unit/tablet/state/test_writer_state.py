"""Writer state: a retried batch is known, one too old to be known is refused (I-6)."""

from __future__ import annotations

import pytest

from penstock.errors import SequenceError
from penstock.tablet.state.writer_state import Applied, WriterState

A, B, C = (bytes([letter]) * 16 for letter in b"abc")


def test_new_batch_is_unknown_and_a_recorded_one_is_found() -> None:
    state = WriterState()
    assert state.find(A, 1) is None

    state.record(A, Applied(1, 10, 12))

    assert state.find(A, 1) == (1, 10, 12)
    assert state.find(A, 2) is None
    assert state.find(B, 1) is None


def test_last_five_are_remembered_and_older_ones_refused() -> None:
    state = WriterState()
    for sequence in range(1, 8):
        state.record(A, Applied(sequence, sequence, sequence))

    assert [state.find(A, sequence) is not None for sequence in range(3, 8)] == [True] * 5
    with pytest.raises(SequenceError, match="older"):
        state.find(A, 2)


def test_sequence_that_was_passed_over_is_refused() -> None:
    state = WriterState()
    state.record(A, Applied(5, 0, 1))

    with pytest.raises(SequenceError):
        state.find(A, 4)


def test_recording_again_changes_nothing() -> None:
    state = WriterState()
    state.record(A, Applied(1, 0, 1))
    state.record(A, Applied(2, 1, 2))
    before = state.to_bytes()

    state.record(A, Applied(1, 0, 1))

    assert state.to_bytes() == before


def test_state_survives_as_bytes() -> None:
    state = WriterState()
    state.record(B, Applied(9, 3, 3))
    state.record(A, Applied(1, 0, 2))
    state.record(A, Applied(2, 2, 3))

    again = WriterState.from_bytes(state.to_bytes())

    assert again.to_bytes() == state.to_bytes()
    assert again.find(B, 9) == (9, 3, 3)


def test_longest_silent_writer_is_forgotten_first() -> None:
    state = WriterState(writers_kept=2)
    state.record(A, Applied(1, 0, 1))
    state.record(B, Applied(1, 1, 2))
    state.record(A, Applied(2, 2, 3))

    state.record(C, Applied(1, 3, 4))

    assert state.find(B, 1) is None
    assert state.find(A, 2) == (2, 2, 3)
