"""Modes of writes to aggregating tables."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidError
from penstock.model.schema.agg_mode import AggMode


@pytest.mark.parametrize("mode", AggMode)
def test_mode_is_found_by_its_word(mode: AggMode) -> None:
    assert AggMode.parse(mode.value) is mode


@pytest.mark.parametrize("word", ["", "Replace", "add", None])
def test_unknown_mode_is_refused_with_the_list(word: str) -> None:
    with pytest.raises(InvalidError, match="there are accumulate, replace, merge_state"):
        AggMode.parse(word)
