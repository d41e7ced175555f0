"""The tables that a call is on, told from its arguments: by id, or by path where the call names the table so.

A check of what a principal may do to a table needs no more than this and the call. Each call of `penstock.wire.calls`
says one of these; a call that is on no table says `ON_NO_TABLE`, for one of four reasons:

- it is about the node or a database: `list_databases`, `create_database`, `list_tables`;
- it names what an earlier call gave out, which was checked itself: a scan session, a cut, a lease. Sessions and
  leases belong to the principal that opened them, and a cut or the resume token of a page gives no rows by itself;
- it is about all tables at once: a backup, which is for principals that may read every table;
- it lists things of all tables: `list_leases`, `list_owners`. A check has the answer without what the principal may
  not see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.model.node.owner_token import OwnerToken

TableName = int | str
"""A table's id, or its path."""
TablesOf = Callable[[Mapping[str, Any]], tuple[TableName, ...]]
"""Returns the tables that a call with these arguments is on."""


def _by_id(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return (arguments["table_id"],)


def _by_ids(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return tuple(dict.fromkeys(arguments["table_ids"]))


def _by_path(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return (arguments["path"],)


def _of_call(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return (arguments["call"].table_id,)


def _of_calls(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return tuple(dict.fromkeys(call.table_id for call in arguments["calls"]))


def _of_owner(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    return (OwnerToken.from_bytes(arguments["owner"]).table_id,)


def _of_lease(arguments: Mapping[str, Any]) -> tuple[TableName, ...]:
    call = arguments["call"]
    ids = [*call.latest, *(cut.table_id for cut in call.cuts)]
    return tuple(dict.fromkeys([*ids, *(bucket.table for bucket in call.snapshots)]))


def _none(_: Mapping[str, Any]) -> tuple[TableName, ...]:
    return ()


BY_ID: Final[TablesOf] = _by_id
"""The table of the argument `table_id`."""
BY_IDS: Final[TablesOf] = _by_ids
"""The tables of the argument `table_ids`."""
BY_PATH: Final[TablesOf] = _by_path
"""The table of the argument `path`, which need not be there."""
OF_CALL: Final[TablesOf] = _of_call
"""The table of the argument `call`."""
OF_CALLS: Final[TablesOf] = _of_calls
"""The tables of the argument `calls`."""
OF_OWNER: Final[TablesOf] = _of_owner
"""The table of the owner whose token is the argument `owner`."""
OF_LEASE: Final[TablesOf] = _of_lease
"""The tables that a lease is asked for."""
ON_NO_TABLE: Final[TablesOf] = _none
