"""What owners did last in a bucket: told by headers, however often they are read."""

from __future__ import annotations

from penstock.model.place.change import BatchKind
from penstock.model.place.facts import BatchFacts
from penstock.tablet.state.owner_state import OwnerState, StagedMark

FIRST, SECOND = b"1" * 16, b"2" * 16


def header(
    kind: BatchKind, *, fence: int = 1, attempt: bytes = FIRST, sequence: int = -1, epoch: int = 5
) -> BatchFacts:
    return BatchFacts(
        base_offset=0,
        rows=1,
        timestamp_ms=0,
        term=1,
        schema_id=0,
        kind=kind,
        owner=3,
        fence=fence,
        epoch=epoch,
        attempt=attempt,
        sequence=sequence,
    )


LOG = [
    header(BatchKind.DATA),
    header(BatchKind.UNDO),
    header(BatchKind.DATA, attempt=SECOND),
    header(BatchKind.ATTEMPT_END, attempt=SECOND, sequence=7),
    header(BatchKind.STAGED_COMMIT, sequence=2),
    header(BatchKind.STAGED_COMMIT, sequence=4),
]


def told(*headers: BatchFacts) -> OwnerState:
    state = OwnerState()
    for facts in headers:
        state.record(facts)
    return state


def test_first_end_counts_and_what_was_taken_back_is_fenced() -> None:
    state = told(*LOG, header(BatchKind.ATTEMPT_END, sequence=9))

    run = state.run(3, 1)

    assert (run.opened, run.fenced) == ((FIRST, SECOND), frozenset({FIRST}))
    assert (run.ended, run.ended_rows, run.current) == (SECOND, 7, SECOND)
    assert state.staged(3) == StagedMark(5, 4)


def test_reading_the_log_again_changes_nothing() -> None:
    state = told(*LOG)

    for start in range(len(LOG)):
        again = OwnerState.from_bytes(state.to_bytes())
        for facts in LOG[start:]:
            again.record(facts)
        assert again.to_bytes() == state.to_bytes()


def test_higher_fence_begins_anew_and_a_lower_one_is_not_heard() -> None:
    state = told(*LOG, header(BatchKind.DATA, fence=2), header(BatchKind.ATTEMPT_END, fence=1, sequence=1))

    assert state.run(3, 2).opened == (FIRST,)
    assert state.run(3, 2).ended is None
    assert state.run(3, 1).opened == ()


def test_attempt_that_was_taken_back_is_not_current() -> None:
    assert told(*LOG[:2]).run(3, 1).current is None


def test_empty_state_takes_no_bytes() -> None:
    assert OwnerState().to_bytes() == b""
    assert OwnerState.from_bytes(b"").staged(3) is None
