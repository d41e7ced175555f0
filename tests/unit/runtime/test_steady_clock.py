from penstock.runtime.steady_clock import JUMP_MS, SteadyClock
from penstock.testing.manual_clock import ManualClock

HOUR_MS = 3_600_000
YEAR_MS = 8_766 * HOUR_MS


def test_clock_that_is_slowly_corrected_is_followed() -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    for _ in range(100):
        clock.advance(60_000)
        clock.jump_wall(JUMP_MS // 2)
        assert steady.wall_ms() == clock.wall_ms()


def test_time_goes_on_at_its_pace_after_a_jump_and_follows_the_clock_again_when_that_agrees() -> None:
    for jump_ms in (YEAR_MS, -YEAR_MS, JUMP_MS + 1):
        clock = ManualClock()
        steady = SteadyClock(clock)
        before = steady.wall_ms()
        clock.jump_wall(jump_ms)
        clock.advance(HOUR_MS)
        assert steady.wall_ms() == before + HOUR_MS
        assert steady.earliest_ms() == min(before + HOUR_MS, clock.wall_ms())

        clock.jump_wall(-jump_ms + 1000)
        assert steady.wall_ms() == clock.wall_ms() == before + HOUR_MS + 1000


def test_time_goes_on_from_a_later_moment_that_was_reached_before() -> None:
    clock = ManualClock()
    steady = SteadyClock(clock)
    reached = clock.wall_ms() + YEAR_MS

    steady.go_on_from(reached)
    clock.advance(5)

    assert steady.wall_ms() == reached + 5
