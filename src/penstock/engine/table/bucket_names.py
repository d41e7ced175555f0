"""Errors that speak of buckets as users name them: inside, a bucket is three numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from penstock.errors import PenstockError
from penstock.model.place.bucket import BucketId, TableBucket


class naming:  # noqa: N801 - read as a word of the language, as `suppress` is
    """A context in which what is raised names the buckets of a table by its path, partition and number.

    A class, as each write enters two: a generator's context manager would be half of what the checks inside cost.
    """

    __slots__ = ("_name",)

    def __init__(self, name: Callable[[BucketId], TableBucket]) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the facts of an error other words for its buckets."""
        if isinstance(error, PenstockError):
            for fact, value in error.facts.items():
                error.facts[fact] = _named(value, self._name)
                setattr(error, fact, error.facts[fact])


def _named(value: object, name: Callable[[BucketId], TableBucket]) -> object:
    if isinstance(value, BucketId):
        return name(value)
    if isinstance(value, list):
        return [_named(item, name) for item in value]
    if isinstance(value, dict):
        return {_named(key, name): item for key, item in value.items()}
    return value
