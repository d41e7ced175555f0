"""Offsets by bucket as JSON on the command line: `{"0": 17, "1": 20}`, with partitions `{"day=1/0": 17}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.client.cut.cut import CutLike, is_cut_json
from penstock.errors import InvalidError
from penstock.model.place.bucket import TableBucket, bucket_key
from penstock.model.table.table import TableInfo


def format_offsets(offsets: Mapping[TableBucket, int]) -> str:
    """Return offsets as `read_offsets` reads them."""
    return json.dumps({bucket_key(bucket): offset for bucket, offset in offsets.items()})


def read_json_object(text: str, option: str) -> dict[str, Any]:
    """Return the JSON object of an option.

    Raises:
        InvalidError: it is none.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidError(f"{option} takes json such as '{{\"0\": 17}}'; {error}") from error
    if not isinstance(found, dict):
        raise InvalidError(f"{option} takes a json object such as '{{\"0\": 17}}'")
    return found


def read_offsets(info: TableInfo, given: Mapping[str, Any], option: str) -> CutLike:
    """Return offsets by bucket, or a cut, as they were read from JSON; the table checks them.

    Raises:
        InvalidError: a name is no bucket's.
    """
    if is_cut_json(given):
        return given
    offsets: dict[TableBucket, int] = {}
    for name, offset in given.items():
        partition, slash, number = name.rpartition("/")
        if not number.isdecimal() or bool(slash) != info.partitioned:
            example = "partition/0" if info.partitioned else "0"
            raise InvalidError(f"{option} names buckets as {example!r}; this is {name!r}")
        offsets[TableBucket(info.path, partition if slash else None, int(number))] = offset
    return offsets
