"""Pins hold the base back, and only that."""

from __future__ import annotations

import pytest

from penstock.errors import OffsetOutOfRangeError
from penstock.model.place.change import OFFSET_MAX
from penstock.tablet.view.pins import Pins


def test_base_moves_to_the_target_without_pins() -> None:
    assert Pins(3).advance(10) == 10


def test_base_stops_at_the_lowest_pin() -> None:
    pins = Pins(0)
    pins.pin("a", 7)
    pins.pin("b", 5)

    assert pins.advance(10) == 5
    assert pins.floor() == 5


def test_base_never_goes_back() -> None:
    pins = Pins(8)

    assert pins.advance(3) == 8
    pins.pin("a", 8)
    assert pins.advance(3) == 8


def test_pin_below_the_base_is_refused_and_the_one_before_stays() -> None:
    pins = Pins(4)
    pins.pin("a", 6)

    with pytest.raises(OffsetOutOfRangeError):
        pins.pin("a", 3)

    assert pins.snapshot() == {"a": 6}


def test_same_name_moves_its_pin() -> None:
    pins = Pins(0)
    pins.pin("a", 3)
    pins.pin("a", 9)

    assert pins.advance(20) == 9


def test_unpin_tells_whether_the_base_may_move_and_is_idempotent() -> None:
    pins = Pins(0)
    pins.pin("a", 3)
    pins.pin("b", 3)
    pins.pin("c", 9)

    assert pins.unpin("b") is False
    assert pins.unpin("a") is True
    assert pins.unpin("a") is False
    assert pins.unpin("c") is True
    assert pins.floor() == OFFSET_MAX
