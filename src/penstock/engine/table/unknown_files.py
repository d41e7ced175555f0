"""Files and index entries that the catalog does not know, settled before a node is used.

An id that the catalog never gave, and that has files, means that the catalog is older than they are: it would give the
id again, and a new table would show another's rows. An id that it gave and does not know any more is what a drop left.
"""

from __future__ import annotations

import logging
from itertools import groupby

from penstock.engine.catalog.catalog import Catalog
from penstock.engine.home.storage import TABLES, Storage
from penstock.errors import CorruptionError

_log = logging.getLogger("penstock")


def settle_unknown(catalog: Catalog, storage: Storage) -> None:
    """Remove what drops left behind.

    Raises:
        CorruptionError: there is something of an id that the catalog never gave.
    """
    indexed = {table: list(buckets) for table, buckets in groupby(storage.index.buckets(), lambda b: b.table_id)}
    tables = {*_ids(storage, TABLES), *indexed}
    lost = [f"{TABLES}/{table}" for table in sorted(tables) if not catalog.has_given(table)]
    parts = {
        (table, part)
        for table in tables
        if catalog.knows(table)
        for part in (*_ids(storage, f"{TABLES}/{table}"), *(bucket.partition_id for bucket in indexed.get(table, [])))
    }
    lost += [f"{TABLES}/{table}/{part}" for table, part in sorted(parts) if not catalog.has_given(table, part)]
    if lost:
        raise CorruptionError(
            "files are there that the catalog does not know, so it is older than they are; restore all files of the"
            " directory from one copy, or a backup with `penstock restore`",
            found=", ".join(lost[:10]),
        )
    for table in sorted(tables):
        if not catalog.knows(table):
            _log.warning("removing what was left of a dropped table table_id=%d", table)
            storage.remove_table(table, indexed.get(table, []))
    for table, part in sorted(parts):
        if not catalog.knows(table, part):
            _log.warning("removing what was left of a dropped partition table_id=%d partition_id=%d", table, part)
            count = max((b.bucket + 1 for b in indexed.get(table, []) if b.partition_id == part), default=0)
            storage.remove_partition(table, part, count)


def _ids(storage: Storage, directory: str) -> list[int]:
    return [int(name) for name in storage.disk.list(directory) if name.isdigit()]
