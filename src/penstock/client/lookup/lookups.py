"""Rows by key: many at once, one as a dict, or all that share the first key columns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.client.catalog.known_table import KnownTable
from penstock.client.cut.as_of import AsOf, AsOfLike, resolve_as_of
from penstock.client.cut.cut_pin import CutPin
from penstock.client.ingest.arrow_source import ArrowSource, kept
from penstock.client.ingest.ingest import ingest_keys
from penstock.client.link.link import Link
from penstock.client.lookup.shared_lookups import SharedLookups
from penstock.client.lookup.single_key import SingleKey
from penstock.client.scan.request import project
from penstock.client.write.requests import is_kept, listed
from penstock.errors import InvalidError, SchemaMismatchError, UnknownOrExpiredScannerError, UnsupportedError
from penstock.model.node.calls import LookupCall, LookupResult
from penstock.model.place.bucket import bucket_key
from penstock.model.place.system_columns import FOUND
from penstock.model.table.table import TableInfo

LEADER: Final = "leader"
OFFSETS: Final = b"penstock.offsets"
"""Where the schema of what was looked up says up to which offset of each bucket it looked: JSON, offsets as text."""


class Lookups:
    """The lookups of one table handle, by the columns that the table has now. Thread-safe.

    Keys may also be named as the handle's own columns are.
    """

    def __init__(self, link: Link, known: KnownTable) -> None:
        self._link = link
        self._known = known
        self._key = SingleKey(known.latest.schema)
        # Beside an engine in this process a call costs little, and waiting for others would only cost.
        self._shared = SharedLookups(self._ask) if link.distant else None

    def lookup(
        self,
        keys: object,
        columns: Iterable[str] | None = None,
        as_of: AsOfLike | None = None,
        offsets: bool = False,
        consistency: str | None = None,
    ) -> pa.Table:
        """Return one row for each key, in the order asked.

        Raises:
            InvalidError: a column is unknown, or the consistency, or `as_of` is neither a cut nor a moment.
            OffsetOutOfRangeError: `as_of` is older than what is kept, or not yet written.
            PartitionNotFoundError: `as_of` names a partition that is gone, or is a moment before it went.
            SchemaMismatchError: the keys do not fit the table.
            UnsupportedError: the table has no primary key.
        """
        self._require_key("lookup")
        _check_consistency(consistency)
        if not isinstance(offsets, bool):
            raise InvalidError("offsets is True or False", found=repr(offsets))
        named = listed(columns)
        keys = kept(keys)

        def attempt(info: TableInfo) -> pa.Table:
            single = self._single_key(info).batch(keys) if type(keys) is list and len(keys) == 1 else None
            batch = self._keys(keys, info) if single is None else single
            call = replace(_call(info, batch, project(named, info.schema)), offsets=offsets)
            return _table(self._lookup(call, info, as_of))

        return self._known.read(attempt)

    def get(self, key: dict[str, Any], as_of: AsOfLike | None = None) -> dict[str, Any] | None:
        """Return the row of one key, None if there is none.

        Raises:
            SchemaMismatchError: the key does not fit the table.
            UnsupportedError: the table has no primary key, or the row a date or time beyond those of Python.
        """
        self._require_key("get")
        found = self._known.read(lambda info: self._get(key, info, as_of)).batch
        try:
            row: dict[str, Any] = found.to_pylist()[0]
        except (ValueError, OverflowError) as error:
            raise UnsupportedError(
                "the row has a date or time that Python cannot say; read it with lookup, as Arrow", reason=str(error)
            ) from error
        return row if row.pop(FOUND) else None

    def prefix_lookup(self, prefix: dict[str, Any], columns: Iterable[str] | None = None) -> pa.Table:
        """Return the live rows whose first key columns have these values.

        Raises:
            InvalidError: the columns are not the first of the key.
            SchemaMismatchError: a value does not fit.
            UnsupportedError: the table has no primary key.
        """
        self._require_key("prefix_lookup")
        named = listed(columns)
        return self._known.read(lambda info: self._prefix_lookup(prefix, named, info))

    def _get(self, key: dict[str, Any], info: TableInfo, as_of: AsOfLike | None) -> LookupResult:
        names = info.primary_key
        if key.keys() != set(names):
            names = self._known.own.primary_key
        if key.keys() != set(names):
            raise InvalidError(
                "get takes every key column and no other", primary_key=list(info.primary_key), given=list(key)
            )
        values = [key[name] for name in names]
        single = self._single_key(info).batch(values)
        call = _call(
            info,
            ingest_keys([dict(zip(info.primary_key, values, strict=True))], info.schema) if single is None else single,
            None,
        )
        return self._lookup(call, info, as_of)

    def _prefix_lookup(self, prefix: dict[str, Any], columns: Iterable[str] | None, info: TableInfo) -> pa.Table:
        count = len(prefix)
        known = (info, self._known.own)
        given = next((one.primary_key[:count] for one in known if prefix.keys() == set(one.primary_key[:count])), ())
        if not given:
            raise InvalidError(
                "prefix_lookup takes the first key columns", primary_key=list(info.primary_key), given=list(prefix)
            )
        names = info.primary_key[:count]
        source = ArrowSource.of([dict(zip(names, (prefix[name] for name in given), strict=True))])
        fields = [info.schema.arrow_schema.field(name) for name in names]
        arrays = [source.column(field) for field in fields]
        for name, array in zip(names, arrays, strict=True):
            if array.null_count:
                raise InvalidError("a key column is never null", column=name)
        keys = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
        call = _call(info, keys, project(columns, info.schema))
        found = self._link.retry.run(lambda: self._link.node.lookup.prefix(call))
        self._known.check(info, found.schema_id)
        return _table(found)

    def _keys(self, keys: object, info: TableInfo) -> pa.RecordBatch:
        own = self._known.own.schema
        if own.primary_key == info.primary_key or not is_kept(keys):
            return ingest_keys(keys, info.schema)
        try:
            return ingest_keys(keys, info.schema)
        except SchemaMismatchError:
            return ingest_keys(keys, own).rename_columns(list(info.primary_key))

    def _single_key(self, info: TableInfo) -> SingleKey:
        if self._key.names != info.primary_key:
            self._key = SingleKey(info.schema)
        return self._key

    def _require_key(self, verb: str) -> None:
        if not self._known.own.keyed:
            path = self._known.own.path
            raise UnsupportedError(f"{verb} needs a table with a primary key; scan the log", table=path)

    def _lookup(self, call: LookupCall, info: TableInfo, as_of: AsOfLike | None) -> LookupResult:
        # First of all: a closed connection, or a fork's, must say so, not wait for threads that are gone.
        self._link.check_usable()
        if as_of is not None:
            found = self._look_back(call, info, resolve_as_of(self._link, info, as_of))
        else:
            found = self._ask(call) if self._shared is None else self._shared.lookup(call)
        self._known.check(info, found.schema_id)
        return found

    def _look_back(self, call: LookupCall, info: TableInfo, past: AsOf) -> LookupResult:
        pin = CutPin.take(self._link, info.table_id, as_of=past.offsets, timestamp_ms=past.timestamp_ms)
        try:
            self._known.check(info, pin.schema_id)
            try:
                return self._ask(replace(call, as_of=pin.offsets, cut_id=pin.cut_id))
            except UnknownOrExpiredScannerError:
                # A server that was started anew knows of no cut.
                pin.renew()
                return self._ask(replace(call, as_of=pin.offsets, cut_id=pin.cut_id))
        finally:
            pin.release()

    def _ask(self, call: LookupCall) -> LookupResult:
        return self._link.retry.run(lambda: self._link.node.lookup.rows(call))


def _call(info: TableInfo, keys: pa.RecordBatch, columns: tuple[str, ...] | None) -> LookupCall:
    return LookupCall(info.table_id, info.schema_id, keys, columns)


def _check_consistency(consistency: str | None) -> None:
    if consistency not in (None, LEADER):
        raise InvalidError('consistency is "leader", or None: the leader answers', consistency=repr(consistency))


def _table(found: LookupResult) -> pa.Table:
    # In the metadata, so that the columns are those that were asked for and no caller pays for rows of it.
    offsets = {bucket_key(bucket): str(offset) for bucket, offset in found.offsets.items()}
    rows = pa.Table.from_batches([found.batch])
    return rows.replace_schema_metadata({OFFSETS: json.dumps(offsets)})
