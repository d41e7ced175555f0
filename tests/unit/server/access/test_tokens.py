"""Token files, and who is known by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidError, NotFoundError, PermissionDeniedError
from penstock.server.access.tokens import Tokens, hash_token, make_token


def test_token_names_its_principal_whatever_the_case_of_the_scheme() -> None:
    token, other = make_token(), make_token()
    tokens = Tokens({"ann": hash_token(token), "bob": hash_token(other)})

    assert tokens.principal(f"Bearer {token}") == "ann"
    assert tokens.principal(f"bearer {other}") == "bob"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic abc", "token", "Bearer " + "x" * 10_000])
def test_unknown_token_is_turned_away(header: str) -> None:
    with pytest.raises(PermissionDeniedError, match="pass token="):
        Tokens({"ann": hash_token(make_token())}).principal(header)


def test_hash_is_no_token() -> None:
    known = hash_token(make_token())

    with pytest.raises(PermissionDeniedError):
        Tokens({"ann": known}).principal(f"Bearer {known}")


def test_file_is_read_with_comments_and_blanks(tmp_path: Path) -> None:
    token = make_token()
    file = tmp_path / "tokens"
    file.write_text(f"\n# people\n  job-7:{hash_token(token)}  \n")

    assert Tokens.load(file).principal(f"Bearer {token}") == "job-7"


@pytest.mark.parametrize("text", ["", "# nobody", "ann", "ann:abc", "ann:" + "g" * 64, f"a:{'0' * 64}\na:{'1' * 64}"])
def test_file_that_is_no_token_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)

    with pytest.raises(InvalidError):
        Tokens.load(file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="tokens"):
        Tokens.load(tmp_path / "tokens")


@pytest.mark.parametrize("name", ["local", "anonymous"])
def test_token_gives_nobody_the_name_of_those_who_show_none(tmp_path: Path, name: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ann:{hash_token(make_token())}\n{name}:{hash_token(make_token())}\n")

    with pytest.raises(InvalidError, match=r"choose another .*line=2"):
        Tokens.load(file)
