"""Column names in Spark: any text is one, also with a dot or a backtick in it, and case does not tell two apart."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from penstock.model.words.names import fold


def quoted(name: str) -> str:
    """Return a name as Spark's functions take it: unquoted, a dot leads into a struct."""
    return f"`{name.replace('`', '``')}`"


def find_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name among those known that this one means, the very same one first; None if there is none."""
    names = list(known)
    if name in names:
        return name
    return next((other for other in names if fold(other) == fold(name)), None)


def mappable(df: DataFrame) -> DataFrame:
    """Return the rows under names that `mapInArrow` finds: it looks for every column by its name, unquoted."""
    if not any("." in name or "`" in name for name in df.columns):
        return df
    return df.toDF(*(f"column_{place}" for place in range(len(df.columns))))
