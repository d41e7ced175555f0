"""A token file that changes under a running server."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PermissionDeniedError
from penstock.server.access.token_file import LOOK_AGAIN_MS, TokenFile
from penstock.server.access.tokens import hash_token, make_token
from penstock.testing.manual_clock import ManualClock

ANN, BOB = make_token(), make_token()
ANNS, BOBS = f"ann:{hash_token(ANN)}\n", f"bob:{hash_token(BOB)}\n"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tokens(tmp_path: Path, clock: ManualClock) -> TokenFile:
    (tmp_path / "tokens").write_text(ANNS)
    return TokenFile(tmp_path / "tokens", clock)


def test_token_that_is_added_counts_and_one_taken_out_does_not(
    tokens: TokenFile, tmp_path: Path, clock: ManualClock
) -> None:
    (tmp_path / "tokens").write_text(BOBS)
    clock.advance(LOOK_AGAIN_MS)

    assert tokens.principal(f"Bearer {BOB}") == "bob"
    with pytest.raises(PermissionDeniedError):
        tokens.principal(f"Bearer {ANN}")


@pytest.mark.parametrize("text", [None, "", "ann:no hash\n", BOBS + BOBS])
def test_file_that_is_wrong_or_gone_leaves_the_tokens_of_before_and_is_told(
    tokens: TokenFile, tmp_path: Path, clock: ManualClock, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tokens").unlink()
    if text is not None:
        (tmp_path / "tokens").write_text(text)
    clock.advance(LOOK_AGAIN_MS)

    assert tokens.principal(f"Bearer {ANN}") == "ann"
    assert "tokens of before stay valid" in caplog.text
    (tmp_path / "tokens").write_text(BOBS)
    clock.advance(LOOK_AGAIN_MS)
    assert tokens.principal(f"Bearer {BOB}") == "bob"
