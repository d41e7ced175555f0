"""What users say of the past: a cut, or a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.client.cut.cut import CutLike, resolve_cut
from penstock.client.link.link import Link
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo

AsOfLike = CutLike | datetime
"""A cut, its JSON, offsets by bucket, a moment, or its text as ISO 8601 has it."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The past as a node is asked for it: offsets by bucket, or a moment that it has yet to find them for."""

    offsets: Mapping[TableBucket, int] | None = None
    timestamp_ms: int | None = None


PRESENT: Final = AsOf()


def resolve_as_of(link: Link, info: TableInfo, as_of: AsOfLike | None) -> AsOf:
    """Return what is meant; None is the present.

    Raises:
        InvalidError: neither a cut of this table nor a moment.
    """
    if as_of is None:
        return PRESENT
    if isinstance(as_of, datetime) or is_moment_text(as_of):
        return AsOf(timestamp_ms=moment_ms(as_of))
    return AsOf(resolve_cut(link, info, as_of))


def is_moment_text(text: object) -> bool:
    """Tell whether a text is to say a moment: JSON begins with a brace."""
    return isinstance(text, str) and not text.lstrip().startswith("{")


def moment_ms(moment: object) -> int:
    """Return the milliseconds since 1970 that have passed at a moment, which names its zone.

    Raises:
        InvalidError: it is no moment, or has no zone.
    """
    found = moment
    if isinstance(moment, str):
        try:
            found = datetime.fromisoformat(moment.strip())
        except ValueError as error:
            raise InvalidError(
                "not a moment; say it as 2026-11-18T10:00:00Z, or pass a cut", as_of=moment[:80]
            ) from error
    if not isinstance(found, datetime):
        raise InvalidError("not a moment; pass a datetime with its zone", as_of=repr(moment)[:80])
    if found.utcoffset() is None:
        raise InvalidError(
            "the moment has no zone; say which, as in 2026-11-18T10:00:00Z or datetime.now(UTC)",
            moment=str(moment)[:80],
        )
    # What was written within the same millisecond was written before it, or at it.
    return (found - _EPOCH) // timedelta(milliseconds=1)
