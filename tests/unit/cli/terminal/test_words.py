from __future__ import annotations

import pytest

from penstock.cli.terminal.words import count_bytes


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KB"),
        (8_840_621, "8.43 MB"),
        (1023 << 20, "1,023 MB"),
        (72 << 30, "72 GB"),
        (3 << 40, "3 TB"),
    ],
)
def test_size_is_said_to_three_digits(size: int, words: str) -> None:
    assert count_bytes(size) == words
