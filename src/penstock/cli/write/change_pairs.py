"""Updates of a changelog that are not torn apart by the blocks in which a file arrives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.cli.input.input_block import InputBlock
from penstock.model.place.change import ChangeType
from penstock.model.place.system_columns import CHANGE_TYPE


def whole_updates(blocks: Iterable[InputBlock]) -> Iterator[InputBlock]:
    """Yield the blocks; an image before an update (-U) that ends one goes to the next, where its +U stands.

    An aggregating table refuses a +U without its -U, and both may not depend on how a pipe is cut.
    """
    held: InputBlock | None = None
    for block in blocks:
        joined = block if held is None else _joined(held, block)
        if joined is None:
            assert held is not None, "only two blocks can fail to join"
            yield held
            joined = block
        held = None
        if _ends_before_update(joined):
            joined, held = joined.part(0, joined.rows - 1), joined.part(joined.rows - 1, joined.rows)
        if joined.rows:
            yield joined
    if held is not None:
        yield held


def _ends_before_update(block: InputBlock) -> bool:
    kinds = block.columns.get(CHANGE_TYPE)
    if kinds is None or not block.rows:
        return False
    last = kinds[block.rows - 1]
    return str(last) == ChangeType.UPDATE_BEFORE.value


def _joined(first: InputBlock, second: InputBlock) -> InputBlock | None:
    """Return both as one; None if they have other names, or are of two files."""
    head, rest = first.columns, second.columns
    if head.keys() != rest.keys() or first.file != second.file:
        return None
    columns = {name: _concatenated(head[name], rest[name]) for name in rest}
    return InputBlock(columns, first.rows + second.rows, second.file, second.unit, [*first.numbers, *second.numbers])


def _concatenated(first: Any, second: Any) -> Any:
    if isinstance(first, pa.Array) and isinstance(second, pa.Array):
        return pa.concat_arrays([first, second])
    return [*first, *second]
