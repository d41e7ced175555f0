"""Authentication of the Flight port: finds out who calls, before anything of the call is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyarrow import flight

from penstock.errors import PermissionDeniedError, UnsupportedError
from penstock.model.node.principal import ANONYMOUS, UNNAMED
from penstock.server.access.token_file import TokenFile
from penstock.wire.fault import to_flight

AUTHENTICATION: Final = "penstock-authentication"
OFFERED_METHODS: Final = "penstock-offered-methods"
_OFFERED: Final = (flight.FlightMethod.DO_EXCHANGE, flight.FlightMethod.DO_GET)


class OfferedMethods(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses methods of Flight that are not offered: Flight's own refusal would carry a traceback."""

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> None:
        """Refuse all but streams of calls and exports."""
        if info.method not in _OFFERED:
            raise to_flight(UnsupportedError("the server answers streams of calls and exports only"))


class Caller(flight.ServerMiddleware):  # type: ignore[misc]
    """A caller with a known token, for the length of one stream, or until the token is taken out of the file."""

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


class Authentication(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets in callers with a known token."""

    def __init__(self, tokens: TokenFile) -> None:
        super().__init__()
        self._tokens = tokens

    def start_call(self, info: flight.CallInfo, headers: Mapping[str, Sequence[Any]]) -> Caller:
        """Return the caller, or refuse the call."""
        given = next((values for name, values in headers.items() if name.lower() == "authorization"), ())
        try:
            return Caller(self._tokens, str(given[0]) if given else "")
        except PermissionDeniedError as error:
            raise to_flight(error) from None


def principal_of(context: flight.ServerCallContext, *, certified: bool) -> str:
    """Return who makes a call: the token's name, else the client certificate's, else `anonymous`.

    `certified` says that callers are asked for a certificate. Of several alternative names in it the first
    counts: gRPC shows us no other.

    Raises:
        PermissionDeniedError: the token is no longer known, or the certificate has no name of its own.
    """
    caller = context.get_middleware(AUTHENTICATION)
    if isinstance(caller, Caller):
        return caller.principal
    name: str = context.peer_identity().decode(errors="replace")
    if name in UNNAMED:
        raise PermissionDeniedError("the certificate's name stands for callers without one; issue another", name=name)
    if certified and not name:
        # All callers without a name would be one principal, and end each other's scans and leases.
        raise PermissionDeniedError("the certificate has no name; issue one with a subject alternative name")
    return name or ANONYMOUS
