"""What every node's backups do: files fixed at one moment, read piece by piece, the same whenever they are read."""

from __future__ import annotations

import pytest
from tests.kit.node_calls import make_table, orders, write_call

from penstock.errors import PenstockError
from penstock.model.node.node import Node


def listed(node: Node, backup_id: str) -> list[str]:
    """Return the paths of all files of a backup."""
    paths: list[str] = []
    while files := node.backup.files(backup_id, len(paths)):
        paths += [file.path for file in files]
    return paths


def test_files_stay_as_they_are_until_the_end(node: Node) -> None:
    info = make_table(node)
    node.tables.write(write_call(info, orders(*range(100))))
    plan = node.backup.begin("ab" * 16)
    paths = listed(node, plan.backup_id)
    before = {path: node.backup.read(plan.backup_id, path, 0, 1 << 20) for path in paths}

    node.tables.write(write_call(info, orders(*range(200), note="late")))

    assert paths
    assert len(set(paths)) == len(paths)
    assert {path: node.backup.read(plan.backup_id, path, 0, 1 << 20) for path in paths} == before
    node.backup.end(plan.backup_id)
    node.backup.end(plan.backup_id)


def test_piece_of_a_file_is_what_was_asked_for(node: Node) -> None:
    node.tables.write(write_call(make_table(node), orders(*range(100))))
    plan = node.backup.begin("ab" * 16)
    path = max(listed(node, plan.backup_id), key=lambda path: len(node.backup.read(plan.backup_id, path, 0, 1 << 20)))
    whole = node.backup.read(plan.backup_id, path, 0, 1 << 20)

    assert len(whole) > 20
    assert node.backup.read(plan.backup_id, path, 5, 10) == whole[5:15]
    assert node.backup.read(plan.backup_id, path, len(whole) - 3, 10) == whole[-3:]


def test_backup_that_ended_or_was_never_there_gives_nothing(node: Node) -> None:
    make_table(node)
    plan = node.backup.begin("ab" * 16)
    paths = listed(node, plan.backup_id)
    node.backup.end(plan.backup_id)

    for backup_id in (plan.backup_id, "cd" * 16):
        with pytest.raises(PenstockError):
            node.backup.files(backup_id, 0)
        with pytest.raises(PenstockError):
            node.backup.read(backup_id, paths[0], 0, 10)


def test_file_that_is_none_of_the_backup_is_refused(node: Node) -> None:
    make_table(node)
    plan = node.backup.begin("ab" * 16)

    for path in ("../secret", "nothing", ""):
        with pytest.raises(PenstockError):
            node.backup.read(plan.backup_id, path, 0, 10)
