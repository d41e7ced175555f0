"""The door: finds out who calls, before anything of the call is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyarrow import flight

from penstock.errors import PermissionDeniedError, UnsupportedError
from penstock.model.node.principal import ANONYMOUS, UNNAMED
from penstock.server.access.token_file import TokenFile
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
    """Whoever was let in, for the length of one stream, or until the token is taken out of the file."""

    def __init__(self, tokens: TokenFile, authorization: str) -> None:
        super().__init__()
        self._file = tokens
        self._authorization = authorization
        self._tokens = tokens.tokens
        self._principal = self._tokens.principal(authorization)

    @property
    def principal(self) -> str:
        """Return whose token it is.

        Raises:
            PermissionDeniedError: the token is no longer known.
        """
        if (tokens := self._file.tokens) is not self._tokens:
            self._principal = tokens.principal(self._authorization)
            self._tokens = tokens
        return self._principal


class Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in who carries a known token."""

    def __init__(self, tokens: TokenFile) -> None:
        super().__init__()
        self._tokens = tokens

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> Visitor:
        """Return the visitor, or turn the call away."""
        given = next((values for name, values in headers.items() if name.lower() == "authorization"), ())
        try:
            return Visitor(self._tokens, str(given[0]) if given else "")
        except PermissionDeniedError as error:
            raise to_flight(error) from None


def principal_of(context: flight.ServerCallContext, *, certified: bool) -> str:
    """Return who makes a call: the token's name, else the client certificate's, else `anonymous`.

    `certified` says that callers are asked for a certificate. Of several alternative names in it the first
    counts: gRPC shows us no other.

    Raises:
        PermissionDeniedError: the token is no longer known, or the certificate has no name of its own.
    """
    visitor = context.get_middleware(DOOR)
    if isinstance(visitor, Visitor):
        return visitor.principal
    name: str = context.peer_identity().decode(errors="replace")
    if name in UNNAMED:
        raise PermissionDeniedError("the certificate's name stands for callers without one; issue another", name=name)
    if certified and not name:
        # All callers without a name would be one principal, and end each other's scans and leases.
        raise PermissionDeniedError("the certificate names nobody; issue one with a subject alternative name")
    return name or ANONYMOUS
