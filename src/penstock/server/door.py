"""The door: finds out who calls, before anything of the call is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyarrow import flight

from penstock.errors import PermissionDeniedError, UnsupportedError
from penstock.model.principal import ANONYMOUS, UNNAMED
from penstock.server.tokens import Tokens
from penstock.wire.fault import to_flight

DOOR: Final = "penstock-door"
OFFER: Final = "penstock-offer"
_OFFERED: Final = (flight.FlightMethod.DO_EXCHANGE, flight.FlightMethod.DO_GET)


class Offer(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Turns away methods of Flight that are not offered: Flight's own refusal would carry a traceback."""

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> None:
        """Refuse all but streams of calls and exports."""
        if info.method not in _OFFERED:
            raise to_flight(UnsupportedError("the server answers streams of calls and exports only"))


class Visitor(flight.ServerMiddleware):  # type: ignore[misc]
    """Whoever was let in, for the length of one stream."""

    def __init__(self, principal: str) -> None:
        super().__init__()
        self.principal = principal


class Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who carries a known token."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> Visitor:
        """Return the visitor, or turn the call away."""
        given = next((values for name, values in headers.items() if name.lower() == "authorization"), ())
        try:
            return Visitor(self._tokens.principal(str(given[0]) if given else ""))
        except PermissionDeniedError as error:
            raise to_flight(error) from None


def principal_of(context: flight.ServerCallContext) -> str:
    """Return who makes a call: the token's name, else the client certificate's, else `anonymous`.

    Raises:
        PermissionDeniedError: the certificate has a name that stands for callers without one.
    """
    visitor = context.get_middleware(DOOR)
    if isinstance(visitor, Visitor):
        return visitor.principal
    name: str = context.peer_identity().decode(errors="replace")
    if name in UNNAMED:
        raise PermissionDeniedError("the certificate's name stands for callers without one; issue another", name=name)
    return name or ANONYMOUS
