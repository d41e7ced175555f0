"""A token file is edited whole: comments stay, edits wait for each other, readers see one state or the other."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.errors import AlreadyExistsError, InvalidError, NotFoundError
from penstock.server.access.token_lines import TokenLines
from penstock.server.access.tokens import Tokens, hash_token


def test_token_that_was_added_is_known_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens"

    token = TokenLines(file).add("ann")

    assert Tokens.load(file).principal(f"Bearer {token}") == "ann"
    assert file.read_text() == f"ann:{hash_token(token)}\n"


def test_comments_and_permissions_and_links_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "tokens", tmp_path / "link"
    file.write_text(f"# people\nann:{hash_token('a')}\n\n# programs")
    file.chmod(0o640)
    link.symlink_to(file)

    TokenLines(link).add("etl")
    TokenLines(link).remove(["ann"])

    assert file.read_text().splitlines()[:3] == ["# people", "", "# programs"]
    assert TokenLines(file).names() == ["etl"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "tokens"]


def test_edits_at_one_time_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    names = [f"job-{number}" for number in range(16)]
    threads = [threading.Thread(target=TokenLines(file).add, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(TokenLines(file).names()) == sorted(names)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "-a", "local", "anonymous", "x" * 200])
def test_name_that_is_none_to_give_makes_no_token(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError):
        TokenLines(tmp_path / "tokens").add(name)


def test_wrong_edit_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    with pytest.raises(NotFoundError):
        TokenLines(file).remove(["ann"])
    TokenLines(file).add("ann")
    before = file.read_text()

    for wrong, edit in (
        (AlreadyExistsError, lambda: TokenLines(file).add("ann")),
        (NotFoundError, lambda: TokenLines(file).remove(["ann", "bob"])),
        (InvalidError, lambda: TokenLines(file).remove(["ann"])),
    ):
        with pytest.raises(wrong):
            edit()

    assert file.read_text() == before
