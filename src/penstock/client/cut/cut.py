"""The cut of a table as users hold it, and every way to say one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.cut.stream_position import StreamPosition
from penstock.client.link.buckets import OffsetsByBucket, resolve_offsets
from penstock.client.link.link import Link
from penstock.client.link.origin_check import check_position
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket
from penstock.model.place.cut_text import CUT_FIELDS, CutText, write_cut
from penstock.model.table.table import TableInfo
from penstock.model.words.html_table import html_table


class Cut(dict[TableBucket, int]):
    """One offset for each bucket of a table, all of one moment. A lease can pin it.

    It remembers database and table, so that it is not taken for a cut of another one. Read from JSON it knows its
    table by id only: its buckets have no table's name, and are found under any. Partitions that it does not name and
    whose ids are `births` or higher were born after it (None, as of a cut read from JSON: it is not known).
    """

    def __init__(
        self, offsets: Mapping[TableBucket, int], *, database: str, table_id: int, births: int | None = None
    ) -> None:
        super().__init__(offsets)
        self.database = database
        self.table_id = table_id
        self.births = births

    def to_json(self) -> str:
        """Return the cut as JSON text: ids of database and table, offsets by bucket, as texts."""
        return write_cut(self.database, self.table_id, self)

    @classmethod
    def from_json(cls, cut: str | Mapping[str, Any]) -> Cut:
        """Return the cut that JSON says, as text or parsed.

        Raises:
            InvalidError: it is no cut.
        """
        if not isinstance(cut, str | Mapping):
            raise InvalidError("a cut is read from the text of cut.to_json(), or that parsed", found=type(cut).__name__)
        read = CutText.read(cut)
        return cls(read.bucket_offsets(""), database=read.database, table_id=read.table_id)

    def of(self, path: str) -> dict[TableBucket, int]:
        """Return the offsets by bucket of the table of that path."""
        return {bucket._replace(table=path): offset for bucket, offset in self.items()}

    def __missing__(self, bucket: TableBucket) -> int:
        if isinstance(bucket, TableBucket) and bucket.table:
            return self[bucket._replace(table="")]
        raise KeyError(bucket)

    def __contains__(self, bucket: object) -> bool:
        if super().__contains__(bucket):
            return True
        return isinstance(bucket, TableBucket) and super().__contains__(bucket._replace(table=""))

    def get(self, bucket: TableBucket, default: Any = None) -> Any:
        """Return the offset of a bucket, or the default."""
        try:
            return self[bucket]
        except KeyError:
            return default

    def __eq__(self, other: object) -> bool:
        # As a mapping, whatever its origin: a restored table has the cut that was backed up.
        if isinstance(other, Cut) and "" in {bucket.table for bucket in (*self, *other)}:
            return self.of("") == other.of("")
        return super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _repr_html_(self) -> str:
        """Return the offsets as a notebook shows them."""
        rows = [(bucket.partition, bucket.bucket, offset) for bucket, offset in self.items()]
        return html_table(f"Cut of table {self.table_id}", ("partition", "bucket", "offset"), rows)

    __hash__ = None

    def __repr__(self) -> str:
        return f"Cut({super().__repr__()}, database={self.database!r}, table_id={self.table_id})"


CutLike = Cut | OffsetsByBucket | Mapping[str, Any] | str
"""A cut, its JSON as text or parsed, or offsets by bucket."""


def is_cut_json(cut: object) -> bool:
    """Tell whether it is the JSON of a cut, parsed."""
    return isinstance(cut, Mapping) and not isinstance(cut, Cut) and set(cut) == CUT_FIELDS


def resolve_cut(link: Link, info: TableInfo, cut: CutLike, what: str = "cut") -> dict[TableBucket, int]:
    """Return the offsets by bucket that a cut of this table says.

    Raises:
        InvalidError: it is no cut, or one of another table or database.
    """
    if isinstance(cut, str):
        named, database, table_id = _read(info, cut)
    elif isinstance(cut, Cut):
        named, database, table_id = cut.of(info.path), cut.database, cut.table_id
    elif is_cut_json(cut):
        read = Cut.from_json(cut)  # type: ignore[arg-type]
        named, database, table_id = read.of(info.path), read.database, read.table_id
    else:
        return resolve_offsets(info, cut)  # type: ignore[arg-type]
    check_position(link, info, what, database=database, table_id=table_id, offsets=named)
    return resolve_offsets(info, named)


def _read(info: TableInfo, text: str) -> tuple[dict[TableBucket, int], str | None, int]:
    if not text.lstrip().startswith("{"):
        raise InvalidError("a cut is t.cut(), the text of its to_json(), or offsets by bucket", found=repr(text[:80]))
    position = StreamPosition.decode(text)
    if position.snapshot is not None:
        raise InvalidError("the position is inside a snapshot, and no cut; pass a cut", table=info.path)
    return position.bucket_offsets(info.path), position.database, position.table_id
