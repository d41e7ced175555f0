r"""What databases, tables, columns and partitions may be called.

Nothing stored is named after them: directories carry ids, stored columns their column id. So the
rules protect people, command lines and logs, not the disk.

- Databases and tables: a letter or `_`, then letters, digits, `_` or `-`, 128 characters in all, ASCII.
- Columns: any visible Unicode text of 1 to 255 characters, without control or format characters, and
  none of the reserved names. Two columns may not differ in case alone, for Spark could not tell them apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.errors import InvalidError
from penstock.model.place.system_columns import RESERVED_NAMES

DEFAULT_DATABASE: Final = "default"
"""Where a table lives whose path names no database; always there."""

NAME_LENGTH_MAX: Final = 128
COLUMN_NAME_LENGTH_MAX: Final = 255
_NAME: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}", re.ASCII)
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


class TablePath(NamedTuple):
    """A table's name inside its database."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, path: str | TablePath) -> TablePath:
        """Read `"shop.orders"`; a bare `"orders"` is in the database `default`.

        Raises:
            InvalidError: not a path, or a part is no valid name.
        """
        if isinstance(path, TablePath):
            database, table = path
        elif isinstance(path, str):
            database, dot, table = path.partition(".")
            if not dot:
                database, table = DEFAULT_DATABASE, path
            if "." in table:
                raise InvalidError("a table path is database.table", path=_shown(path))
        else:
            raise InvalidError("a table path is a string: database.table", path=_shown(path))
        return cls(check_database_name(database), check_table_name(table))


def name_list(columns: Iterable[str]) -> list[str]:
    """Return the column names given as a list, or as anything else that yields them.

    Raises:
        InvalidError: it yields none, or one twice; a bare string would yield its letters.
    """
    if isinstance(columns, str | bytes) or not isinstance(columns, Iterable):
        raise InvalidError("columns= takes a list of names", columns=columns)
    names = list(columns)
    counts = Counter(name for name in names if isinstance(name, str))
    if len(counts) < counts.total():
        raise InvalidError("a column is named twice", column=counts.most_common(1)[0][0])
    return names


def check_text(value: str, what: str) -> str:
    """Return what a thing is called by, if that is a text at all.

    Raises:
        InvalidError: it is none.
    """
    if not isinstance(value, str):
        raise InvalidError(f"{what} is a string", found=type(value).__name__)
    return value


def check_database_name(name: str) -> str:
    """Return the name if a database may have it.

    Raises:
        InvalidError: it may not.
    """
    return _check_name(name, "database")


def check_table_name(name: str) -> str:
    """Return the name if a table may have it.

    Raises:
        InvalidError: it may not.
    """
    return _check_name(name, "table")


def check_column_name(name: str) -> str:
    """Return the name if a column may have it.

    Raises:
        InvalidError: it may not.
    """
    check_field_name(name)
    if name.lower() in RESERVED_NAMES:
        raise InvalidError("the column name is reserved; choose another", column=name)
    return name


def check_field_name(name: str) -> str:
    """Return the name if a field inside a struct may have it: as a column, but no name is reserved.

    Raises:
        InvalidError: it may not.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= COLUMN_NAME_LENGTH_MAX:
        raise InvalidError(f"a column name has 1 to {COLUMN_NAME_LENGTH_MAX} characters", column=_shown(name))
    if any(unicodedata.category(character) in _INVISIBLE for character in name):
        raise InvalidError("a column name has no control, format or unassigned characters", column=_shown(name))
    return name


def fold(name: str) -> str:
    """Return what two column names share if people and Spark cannot tell them apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _check_name(name: object, kind: str) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidError(
            f"a {kind} name starts with a letter or _ and goes on with letters, digits, _ or -, "
            f"at most {NAME_LENGTH_MAX} characters",
            **{kind: _shown(name)},
        )
    return name


def _shown(name: object) -> str:
    text = ascii(name)
    return text if len(text) <= 80 else f"{text[:77]}..."
