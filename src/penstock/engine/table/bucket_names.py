"""Errors that speak of buckets as users name them: inside, a bucket is three numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError
from penstock.model.place.bucket import BucketId, TableBucket


@contextmanager
def naming(name: Callable[[BucketId], TableBucket]) -> Iterator[None]:
    """Let what is raised name the buckets of a table by its path, partition and number.

    Raises:
        PenstockError: as it was raised, with other words for its buckets.
    """
    try:
        yield
    except PenstockError as error:
        for fact, value in error.facts.items():
            error.facts[fact] = _named(value, name)
            setattr(error, fact, error.facts[fact])
        raise


def _named(value: object, name: Callable[[BucketId], TableBucket]) -> object:
    if isinstance(value, BucketId):
        return name(value)
    if isinstance(value, list):
        return [_named(item, name) for item in value]
    if isinstance(value, dict):
        return {_named(key, name): item for key, item in value.items()}
    return value
