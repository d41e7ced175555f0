"""Take off a last group that is not in all of its buckets: a call is there whole or not at all.

One committer writes the groups of a table, one after the other, and shows and answers a group when it is durable in
all of its buckets. So a group that a bucket lacks was never acknowledged, and none follows it. Where that does
not hold, a bucket has lost what was durable.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.codec.stored.group_mark import decode_members
from penstock.errors import CorruptionError
from penstock.model.place.bucket import BucketId
from penstock.tablet.files.found_log import FoundLog

_log = logging.getLogger("penstock")


def cut_unfinished_group(logs: Mapping[BucketId, FoundLog]) -> None:
    """Leave off the last group of a table's logs if one of them lacks its part.

    A bucket that is not among the logs does not count: it was dropped since.

    Raises:
        CorruptionError: a group is not whole that others follow, or that was shown.
    """
    last = max((log.group for log in logs.values()), default=-1)
    for number, lacking in sorted(_unfinished(logs).items()):
        holders = [log for log in logs.values() if log.group == number]
        if number == last and all(log.can_cut(number) for log in holders):
            for log in holders:
                log.cut(number)
        elif all(logs[bucket].may_lack_groups for bucket in lacking):
            for bucket in lacking:
                logs[bucket].forgive(number)
            _log.warning("a call is there in part: the machine stopped before it was synced buckets=%s", lacking)
        else:
            raise CorruptionError(
                "log ends before what other buckets of the table have; restore it",
                directory=logs[lacking[0]].files.directory,
                group=number,
                last_group=last,
            )


def _unfinished(logs: Mapping[BucketId, FoundLog]) -> dict[int, list[BucketId]]:
    """Return the groups that are not in all of their buckets, with those that lack them."""
    whole = {bucket: log.whole_group for bucket, log in logs.items()}
    lacking = {log.group: {bucket} for bucket, log in logs.items() if whole[bucket] < log.group}
    known: dict[bytes, list[BucketId]] = {}
    floors: dict[bytes, int] = {}
    for bucket, log in logs.items():
        for mark in log.marks():
            members = mark.members
            if members not in known:
                named = (bucket._replace(partition_id=place[0], bucket=place[1]) for place in decode_members(members))
                known[members] = [member for member in named if member in logs]
                floors[members] = min(whole[member] for member in known[members])
            if mark.number > floors[members]:
                gone = [member for member in known[members] if whole[member] < mark.number]
                lacking.setdefault(mark.number, set()).update(gone)
    return {number: sorted(buckets) for number, buckets in lacking.items()}
