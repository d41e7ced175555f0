"""Whether a place in a table that comes back from outside is one of this database, and of this table."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.link.link import Link
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.table.table import TableInfo


def check_position(
    link: Link,
    info: TableInfo,
    what: str,
    *,
    database: str | None,
    table_id: int,
    offsets: Mapping[TableBucket, int],
    births: int | None = None,
) -> None:
    """Refuse a place of another table, or of a database that this one does not go on with.

    `database` None stands for a place of before databases had ids: the table's id alone tells.

    Raises:
        InvalidError: the place is of another database, of another table, or beyond what was restored.
    """
    check_database(link, what, database=database, table_id=table_id, offsets=offsets, births=births)
    if table_id != info.table_id:
        raise InvalidError(
            f"the {what} is of another table, or of one of this name that was dropped; start anew with this one",
            table=info.path,
            table_id=info.table_id,
            found=table_id,
        )


def check_database(
    link: Link,
    what: str,
    *,
    database: str | None,
    table_id: int,
    offsets: Mapping[TableBucket, int],
    births: int | None = None,
) -> None:
    """Refuse a place of a database that this one does not go on with.

    Raises:
        InvalidError: the place is of another database, or beyond what was restored of it.
    """
    if database is None or database == link.database:
        return
    try:
        link.retry.run(lambda: link.node.catalog.check_origin(database, table_id, offsets, births))
    except InvalidError as error:
        raise InvalidError(f"the {what} cannot be used here: {error.message}", **error.facts) from error
