"""Rows of JSON by their shape, that is by the names that they have.

Rows that are written together have the same names: whether a row lacks a column must not depend on which
rows happened to arrive in one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

Rows = list[dict[str, Any]]


def same_shapes(rows: Rows, numbers: Sequence[int], key: Sequence[str] = ()) -> Iterator[tuple[Rows, Sequence[int]]]:
    """Yield the rows in pieces of one shape, each with the numbers of its rows.

    The order stays; but if `key` is given and no two rows have the same values there, all rows of a shape
    are one piece, for no order can be told from the result.
    """
    shapes = list(map(frozenset, rows))
    if all(shape == shapes[0] for shape in shapes):
        yield rows, numbers
        return
    places: Sequence[int] = range(len(rows))
    if key and _distinct(rows, key):
        first: dict[frozenset[str], int] = {}
        places = sorted(places, key=lambda place: first.setdefault(shapes[place], place))
    for _, piece in groupby(places, key=shapes.__getitem__):
        chosen = list(piece)
        yield [rows[place] for place in chosen], [numbers[place] for place in chosen]


def _distinct(rows: Rows, key: Sequence[str]) -> bool:
    # As text: a value may be a list or an object, and 1, 1.0 and true are one key to Python only.
    return len({repr([row.get(name) for name in key]) for row in rows}) == len(rows)
