"""The cut of several tables: one of each, all of one moment."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.cut.cut import Cut
from penstock.client.cut.cut_pin import CutPin
from penstock.client.link.link import Link
from penstock.errors import InvalidError
from penstock.model.table.table import TableInfo


def cut_together(link: Link, infos: Sequence[TableInfo]) -> dict[str, Cut]:
    """Return the present cuts of tables by path, in the order asked.

    Raises:
        InvalidError: there are none.
        TableNotFoundError: one was dropped.
    """
    known = {info.table_id: info for info in infos}
    if not known:
        raise InvalidError("name at least one table")
    cuts = link.retry.run(lambda: link.node.scan.open_cuts(list(known)))
    found = {}
    for info, cut in zip(known.values(), cuts, strict=True):
        CutPin(link, info.table_id, cut).release()
        found[info.path] = Cut(cut.offsets, database=link.database, table_id=info.table_id, births=cut.births)
    return found
