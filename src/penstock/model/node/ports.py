"""Where a server listens unless told otherwise."""

from __future__ import annotations

from typing import Final

FLIGHT_PORT: Final = 9123
HTTP_PORT: Final = 9124
