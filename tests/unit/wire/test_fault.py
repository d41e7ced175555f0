"""Errors on the wire: every class of ours as itself, everything else by one table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.errors import (
    InternalError,
    InvalidError,
    LimitError,
    LockedError,
    PenstockError,
    PermissionDeniedError,
    TimedOutError,
    UnavailableError,
)
from penstock.model.place.bucket import TableBucket
from penstock.wire.fault import EXTRA_BYTES_MAX, from_flight, read_fault, to_flight, write_fault
from penstock.wire.value import PAIRS_MAX, read_value, write_value

KINDS = sorted(PenstockError.by_code.values(), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_every_error_crosses_as_itself(kind: type[PenstockError]) -> None:
    error = kind("no such thing; make one", table="shop.orders", offset=7)

    for heard in (read_fault(json.loads(json.dumps(write_fault(error)))), from_flight(to_flight(error))):
        assert type(heard) is kind
        assert (str(heard), heard.facts, heard.retriable) == (str(error), error.facts, error.retriable)


def test_facts_keep_their_types() -> None:
    facts = {
        "bucket": TableBucket("shop.orders", None, 3),
        "id": b"\x00\xff",
        "price": Decimal("1.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC),
        "applied": {TableBucket("t", "day=1", 0): [1, 2]},
        "share": float("inf"),
        "names": ["a", "b"],
        "nothing": None,
    }

    assert read_fault(json.loads(json.dumps(write_fault(LockedError("held", **facts))))).facts == facts


def test_fact_without_a_form_is_sent_as_its_text() -> None:
    fault = write_fault(InvalidError("no", type=pa.int64()))

    assert read_fault(fault).facts == {"type": "int64"}


def test_large_error_still_fits_where_a_stream_is_refused() -> None:
    refused = to_flight(InvalidError("too long", value="x" * 100_000))

    assert len(refused.extra_info) <= EXTRA_BYTES_MAX
    assert type(from_flight(refused)) is InvalidError


def test_unknown_code_keeps_its_words() -> None:
    heard = read_fault({"code": "from_the_future", "message": "do something new", "facts": {}})

    assert isinstance(heard, InternalError)
    assert heard.message == "do something new"


@pytest.mark.parametrize("fault", [None, 3, [], {}, {"facts": 1}, {"facts": {"message": 1, "no good": 2}, "code": []}])
def test_what_is_no_error_is_one_of_ours(fault: object) -> None:
    assert isinstance(read_fault(fault), InternalError)


@pytest.mark.parametrize(
    ("foreign", "kind"),
    [
        (flight.FlightUnavailableError("gone"), UnavailableError),
        (flight.FlightTimedOutError("late"), TimedOutError),
        (flight.FlightCancelledError("cut"), UnavailableError),
        (flight.FlightInternalError("reset"), UnavailableError),
        (flight.FlightUnauthenticatedError("who"), PermissionDeniedError),
        (flight.FlightUnauthorizedError("no"), PermissionDeniedError),
        (flight.FlightServerError("broke"), UnavailableError),
        (StopIteration(), UnavailableError),
        (ConnectionResetError("reset"), UnavailableError),
        (pa.ArrowInvalid("odd"), InternalError),
        (flight.FlightServerError("broke", extra_info=b"{"), InternalError),
        (KeyError("x"), InternalError),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_foreign_errors_are_mapped(foreign: BaseException, kind: type[PenstockError]) -> None:
    assert type(from_flight(foreign)) is kind


@pytest.mark.parametrize(
    "said", [{"$what": 1}, {"$date": "x"}, {"$bucket": [1]}, {"$map": 1}, {"$map": [[[], 1]]}, {"$ms": "x"}]
)
def test_malformed_values_are_refused(said: object) -> None:
    with pytest.raises(InvalidError):
        read_value(said)


def test_values_without_a_form_or_nested_too_deeply_are_refused() -> None:
    with pytest.raises(InvalidError, match="not sent"):
        write_value(object())
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidError, match="deeply"):
        write_value(deep)
    with pytest.raises(InvalidError, match="deeply"):
        read_value(deep)


def test_mapping_whose_keys_all_hash_alike_is_refused_before_they_are_compared() -> None:
    alike = [[number * (2**61 - 1), 0] for number in range(PAIRS_MAX + 1)]

    with pytest.raises(LimitError, match="too many pairs"):
        read_value({"$map": alike})
    assert len(read_value({"$map": alike[:100]})) == 100
