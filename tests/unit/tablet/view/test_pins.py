"""Pins hold the base back, and only that."""

from __future__ import annotations

import pytest

from penstock.errors import OffsetOutOfRangeError
from penstock.model.place.change import OFFSET_MAX
from penstock.tablet.view.pins import PinHolder, PinKind, Pins

A, B, C = (PinHolder(PinKind.READER, name) for name in "abc")


def test_base_moves_to_the_target_without_pins() -> None:
    assert Pins(3).advance(10) == 10


def test_base_stops_at_the_lowest_pin() -> None:
    pins = Pins(0)
    pins.pin(A, 7)
    pins.pin(B, 5)

    assert pins.advance(10) == 5
    assert pins.floor() == 5


def test_base_never_goes_back() -> None:
    pins = Pins(8)

    assert pins.advance(3) == 8
    pins.pin(A, 8)
    assert pins.advance(3) == 8


def test_pin_below_the_base_is_refused_and_the_one_before_stays() -> None:
    pins = Pins(4)
    pins.pin(A, 6)

    with pytest.raises(OffsetOutOfRangeError):
        pins.pin(A, 3)

    assert pins.snapshot() == {A: 6}


def test_same_holder_moves_its_pin() -> None:
    pins = Pins(0)
    pins.pin(A, 3)
    pins.pin(A, 9)

    assert pins.advance(20) == 9


def test_unpin_tells_whether_the_base_may_move_and_is_idempotent() -> None:
    pins = Pins(0)
    pins.pin(A, 3)
    pins.pin(B, 3)
    pins.pin(C, 9)

    assert pins.unpin(B) is False
    assert pins.unpin(A) is True
    assert pins.unpin(A) is False
    assert pins.unpin(C) is True
    assert pins.floor() == OFFSET_MAX


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (PinHolder(PinKind.SCANNER, "7f"), "scanner-7f"),
        (PinHolder(PinKind.LEASE, "lease-of-ann"), "lease-lease-of-ann"),
        (PinHolder(PinKind.GRACE), "grace"),
    ],
)
def test_holder_is_shown_by_kind_and_id(holder: PinHolder, words: str) -> None:
    assert str(holder) == words


def test_holders_of_two_kinds_with_one_id_have_a_pin_each() -> None:
    pins = Pins(0)
    pins.pin(PinHolder(PinKind.LEASE, "a"), 3)
    pins.pin(PinHolder(PinKind.READER, "a"), 5)

    assert pins.unpin(PinHolder(PinKind.LEASE, "a")) is True
    assert pins.floor() == 5
