"""Owners as a node offers them: an owner is for the principal that acquired it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.engine.engine import Engine
from penstock.engine.settings import Settings
from penstock.errors import InvalidError, PermissionDeniedError
from penstock.model.node.calls import LookupCall, Operation, WriteCall
from penstock.model.node.node import Node
from penstock.model.node.owner import AcquireOwner
from penstock.model.node.owner_token import OwnerToken
from penstock.model.table.spec import make_spec
from penstock.tablet.settings import FsyncMode

SPEC = make_spec("k BIGINT, a BIGINT SUM, b BIGINT SUM, PRIMARY KEY (k)", merge_engine="aggregate")
ATTEMPT = b"a" * 16


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def engine(directory: Path) -> Iterator[Engine]:
    engine = Engine.open(directory, Settings(fsync=FsyncMode.NEVER))
    engine.catalog.create_table("t", SPEC)
    yield engine
    engine.close()


def acquire(node: Node, columns: tuple[str, ...] = ("a",)) -> OwnerToken:
    call = AcquireOwner(node.catalog.table("default.t").table_id, "job", columns)
    return OwnerToken.from_bytes(node.owners.acquire(call).token)


def begin(node: Node, handle: OwnerToken, epoch: int) -> bytes:
    begun = node.owners.begin(handle.to_bytes(), epoch)
    return handle.at(fence=begun.fence, epoch=epoch).to_bytes()


def rows(node: Node, token: bytes, attempt: bytes = ATTEMPT) -> WriteCall:
    info = node.catalog.table("default.t")
    batch = pa.record_batch({"k": [1], "a": [1]})
    call = WriteCall(info.table_id, info.schema_id, Operation.UPSERT, batch, columns=("a",))
    return WriteCall(call.table_id, call.schema_id, call.operation, batch, columns=("a",), owner=token, attempt=attempt)


def value(node: Node) -> int | None:
    info = node.catalog.table("default.t")
    found = node.lookup.rows(LookupCall(info.table_id, info.schema_id, pa.record_batch({"k": [1]})))
    only: int | None = found.batch.column("a")[0].as_py()
    return only


def test_owner_belongs_to_the_principal_that_acquired_it(engine: Engine) -> None:
    ann, bob = engine.acting_as("ann"), engine.acting_as("bob")
    owner = acquire(ann)
    task = begin(ann, owner, 1)
    ann.tables.write(rows(ann, task))
    ann.owners.end_attempt(task, ATTEMPT, 1)
    table_id = ann.catalog.table("default.t").table_id
    handle = owner.to_bytes()
    acts: list[Callable[[], object]] = [
        lambda: acquire(bob),
        lambda: bob.owners.renew(handle),
        lambda: bob.owners.release(handle),
        lambda: bob.owners.begin(handle, 2),
        lambda: bob.owners.commit(handle, 1),
        lambda: bob.owners.undo(handle),
        lambda: bob.owners.leave(handle),
        lambda: bob.owners.drop(table_id, "job"),
        lambda: bob.tables.write(rows(bob, task)),
        lambda: bob.owners.stage(rows(bob, task)),
        lambda: bob.owners.end_attempt(task, ATTEMPT, 1),
    ]

    for act in acts:
        with pytest.raises(PermissionDeniedError, match="principal=ann"):
            act()

    ann.owners.commit(handle, 1, {ATTEMPT: 1})
    assert value(ann) == 1


def test_owner_is_still_the_principals_after_a_restart(engine: Engine, directory: Path) -> None:
    owner = acquire(engine.acting_as("ann"))
    engine.close()

    again = Engine.open(directory)
    try:
        with pytest.raises(PermissionDeniedError):
            acquire(again.acting_as("bob"))
        again.acting_as("ann").owners.renew(owner.to_bytes())
    finally:
        again.close()


def test_token_of_another_database_is_refused_by_every_call(engine: Engine, tmp_path: Path) -> None:
    other = Engine.open(tmp_path / "other")
    try:
        other.catalog.create_table("t", SPEC)
        handle = acquire(other).to_bytes()
        acts: list[Callable[[], object]] = [
            lambda: engine.owners.renew(handle),
            lambda: engine.owners.release(handle),
            lambda: engine.owners.begin(handle, 1),
            lambda: engine.owners.commit(handle, 1),
            lambda: engine.owners.undo(handle),
            lambda: engine.owners.leave(handle),
            lambda: engine.owners.end_attempt(handle, ATTEMPT, 0),
            lambda: engine.tables.write(rows(engine, handle)),
            lambda: engine.owners.stage(rows(engine, handle)),
        ]
        for act in acts:
            with pytest.raises(InvalidError, match="another database"):
                act()
    finally:
        other.close()
