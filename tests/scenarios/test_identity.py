"""What names a place in a table is taken by the table that it was made for, and by no other."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import (
    ConflictError,
    InvalidError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from tests.scenarios.conftest import Connect

ROWS = 400
DDL = "id BIGINT, v STRING, PRIMARY KEY (id)"
DAYS = "id BIGINT, day STRING, PRIMARY KEY (id, day)"


def fill(connection: penstock.Connection, v: str = "old") -> penstock.Table:
    table = connection.create_table("t", DDL, buckets=1)
    table.upsert([{"id": n, "v": v} for n in range(ROWS)])
    return table


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return sorted(id for batch in batches for id in batch["id"].to_pylist())


def places(connection: penstock.Connection, table: penstock.Table) -> dict[str, Callable[[penstock.Connection], Any]]:
    """Return everything that names a place in the table, as a way to use it on a connection."""
    path = table.path
    scan = table.scan()
    next(iter(scan))
    token, cut, page = scan.resume_token, table.cut(), connection.scanner(table, 0, page_bytes="1KB").open()
    stream = table.changes()
    next(stream)
    position = stream.position
    copying = table.snapshot_and_follow(timeout=0)
    next(copying)
    inside = copying.position
    text = cut.to_json()
    return {
        "resume_scan": lambda other: ids(other.resume_scan(token)),
        "resume_scan of a page": lambda other: ids(other.resume_scan(page.resume_token)),
        "scanner": lambda other: other.scanner(path, 0).open(page.resume_token),
        "as_of": lambda other: ids(other.table(path).scan(as_of=cut)),
        "as_of of a scan": lambda other: ids(other.table(path).scan(as_of=scan.log_offsets)),
        "start of a scan": lambda other: ids(other.table(path).changes(start=scan.log_offsets)),
        "as_of text": lambda other: ids(other.table(path).scan(as_of=text)),
        "as_of parsed": lambda other: ids(other.table(path).scan(as_of=json.loads(text))),
        "as_of read": lambda other: ids(other.table(path).scan(as_of=penstock.Cut.from_json(text))),
        "start position": lambda other: ids(other.table(path).changes(start=position)),
        "start cut": lambda other: ids(other.table(path).changes(start=cut)),
        "start text": lambda other: ids(other.table(path).changes(start=text)),
        "start parsed": lambda other: ids(other.table(path).changes(start=json.loads(text))),
        "end": lambda other: ids(other.table(path).changes(end=cut)),
        "end text": lambda other: ids(other.table(path).changes(end=text)),
        "snapshot_and_follow": lambda other: ids(other.table(path).snapshot_and_follow(start=inside, timeout=0)),
        "lease of a cut": lambda other: other.acquire_lease("job", cut),
        "lease of text": lambda other: other.acquire_lease("job", text),
        "lease of parsed": lambda other: other.acquire_lease("job", [json.loads(text)]),
    }


@pytest.fixture
def here(connect: Connect) -> penstock.Connection:
    return connect("here", kv__scanner__page_bytes="1KB")


def test_every_place_is_taken_by_the_table_that_it_was_made_for(here: penstock.Connection) -> None:
    for name, use in places(here, fill(here)).items():
        assert use(here) is not None, name


def test_no_place_is_taken_by_another_database_with_the_same_tables(
    here: penstock.Connection, connect: Connect
) -> None:
    there = connect("there", kv__scanner__page_bytes="1KB")
    fill(there, "others")
    for name, use in places(here, fill(here)).items():
        with pytest.raises(InvalidError, match="it is of another database; connect to that one, or start anew"):
            print(name, use(there))


def test_no_place_is_taken_by_a_table_of_the_same_name_that_was_made_since(here: penstock.Connection) -> None:
    known = places(here, fill(here))
    here.drop_table("t")
    fill(here, "others")

    for name, use in known.items():
        with pytest.raises((InvalidError, TableNotFoundError), match=r"dropped|another bucket"):
            print(name, use(here))


def test_offsets_by_hand_are_taken_anywhere(here: penstock.Connection, connect: Connect) -> None:
    there = connect("there")
    cut = {bucket.bucket: at for bucket, at in fill(here).cut().items()}
    table = fill(there)

    assert ids(table.scan(as_of=cut)) == list(range(ROWS))
    assert ids(table.changes(start=dict(table.cut()))) == []


def test_a_cut_is_json_with_ids_and_offsets_as_text(here: penstock.Connection) -> None:
    table = fill(here)
    days = here.create_table("days", DAYS, partitioned_by=["day"])
    days.upsert([{"id": n, "day": "mon"} for n in range(3)])
    cut = table.cut()
    read = penstock.Cut.from_json(cut.to_json())
    (bucket,) = cut

    assert json.loads(cut.to_json()) == {
        "database": cut.database,
        "table": table.info.table_id,
        "offsets": {"0": "400"},
    }
    assert json.loads(days.cut().to_json())["offsets"] == {"day=mon/0": "3"}
    assert read == cut
    assert (read[bucket], read.get(bucket), bucket in read, list(read.values())) == (400, 400, True, [400])
    assert read.to_json() == cut.to_json()
    assert ids(days.scan(as_of=days.cut().to_json())) == [0, 1, 2]
    assert len(cut.database) == 32


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "x", '{"database":"a","table":1}', '{"database":1,"table":1,"offsets":{}}']
    + [
        f'{{"database":"a","table":1,"offsets":{{{named}}}}}' for named in ('"x":"1"', '"0":"x"', '"0":"-1"', '"0":1.5')
    ],
)
def test_other_json_is_no_cut(here: penstock.Connection, text: str) -> None:
    table = fill(here)
    with pytest.raises(InvalidError, match="not the json of a cut"):
        penstock.Cut.from_json(text)
    with pytest.raises(InvalidError, match=r"not |a cut is"):
        table.scan(as_of=text)


V0_1_SCAN = (
    "UFNDVAEXw32xeyJidWNrZXRzIjpbW251bGwsMCw0MDAsMTI1XV0sImNvbHVtbnMiOlsiaWQiXSwiZmlsdGVyIjoiQVdCcFpHQWdQQ0F6T1RBPSIsImxp"
    "bWl0IjpudWxsLCJzY2hlbWFfaWQiOjAsInNvdXJjZSI6ImxpdmUiLCJ0YWJsZV9pZCI6MX0="
)
V0_1_PAGE = "UFNSVAEA6fr4dQEAAAAAAAAAAAAAAAAAkAEAAAAAAAAHAAAAAAAAAP//////////QAAAAAEAAAAAAAAAAAA="
V0_1_POSITION = '{"version":1,"table_id":1,"offsets":[[null,0,400]],"snapshot":null}'
V0_1_INSIDE = (
    '{"version":1,"table_id":1,"offsets":[[null,0,400]],"snapshot":{"token":"UFNDVAGzEAfseyJidWNrZXRzIjpbW251bGwsMCw0MDAs'
    "NzJdXSwiY29sdW1ucyI6WyJpZCIsInYiXSwiZmlsdGVyIjpudWxsLCJsaW1pdCI6bnVsbCwic2NoZW1hX2lkIjowLCJzb3VyY2UiOiJsaXZlIiwidGFi"
    'bGVfaWQiOjF9","cut_us":1795013093532284}}'
)


def test_places_that_version_0_1_named_are_still_taken(here: penstock.Connection) -> None:
    table = fill(here)
    assert table.info.table_id == 1

    assert ids(here.resume_scan(base64.b64decode(V0_1_SCAN))) == list(range(125, 390))
    assert ids(here.resume_scan(base64.b64decode(V0_1_PAGE))) == list(range(7, ROWS))
    with here.scanner(table, 0) as scanner:
        page = scanner.open(base64.b64decode(V0_1_PAGE))
        assert page.batch["id"][0].as_py() == 7
    table.upsert([{"id": 1_000, "v": "new"}])
    assert ids(table.changes(start=V0_1_POSITION)) == [1_000]
    assert ids(table.scan(as_of=V0_1_POSITION)) == list(range(ROWS))
    assert ids(table.snapshot_and_follow(start=V0_1_INSIDE, timeout=0)) == [*range(72, ROWS), 1_000]


def test_pages_go_on_by_their_token_with_another_scanner(here: penstock.Connection) -> None:
    table = fill(here)
    asked: dict[str, Any] = {"page_bytes": "1KB", "columns": ["id"], "filter": "id < 300", "limit": 250}
    with here.scanner(table, 0, **asked) as scanner:
        first, second = scanner.open(), scanner.next(1)
        seen = first.batch["id"].to_pylist() + second.batch["id"].to_pylist()
    table.upsert([{"id": n, "v": "late"} for n in range(ROWS)])

    for again in (here.scanner(table, 0), here.scanner("t", 0, **asked)):
        with again:
            page, rest, number = again.open(second.resume_token), [], 0
            while True:
                rest += page.batch["id"].to_pylist()
                if not page.has_more:
                    break
                number += 1
                page = again.next(number)
        assert seen + rest == list(range(250))
    assert seen + ids(here.resume_scan(second.resume_token)) == list(range(250))


def test_a_page_token_of_another_bucket_or_request_is_refused(here: penstock.Connection) -> None:
    table = here.create_table("t", DDL, buckets=2)
    table.upsert([{"id": n, "v": ""} for n in range(ROWS)])
    page = here.scanner(table, 0, page_bytes="1KB", columns=["id"]).open()
    scan = table.scan()

    with pytest.raises(InvalidError, match="the resume token is of another bucket"):
        here.scanner(table, 1).open(page.resume_token)
    with pytest.raises(InvalidError, match="of other columns, or with another filter"):
        here.scanner(table, 0, columns=["v"]).open(page.resume_token)
    with pytest.raises(InvalidError, match="of other columns, or with another filter"):
        here.scanner(table, 0, filter="id > 3").open(page.resume_token)
    with pytest.raises(InvalidError, match="not a resume token of a scanner"):
        here.scanner(table, 0).open(scan.resume_token)
    with pytest.raises(InvalidError, match="a resume token is the bytes of a page found=str"):
        here.scanner(table, 0).open("token")  # type: ignore[arg-type]


def test_a_page_token_gives_no_more_rows_than_the_limit_asked_for(here: penstock.Connection) -> None:
    table = here.create_table("t", DDL)
    table.upsert([{"id": n, "v": ""} for n in range(ROWS)])
    for limit in (None, 200):
        token = here.scanner(table, 0, page_bytes="1KB", limit=limit).open().resume_token

        with pytest.raises(InvalidError, match="more rows are left to the resume token than the limit allows"):
            here.scanner(table, 0, limit=1).open(token)
        # The limit that it was made with is not counted anew.
        assert len(ids(here.resume_scan(token))) < (limit or ROWS)
        here.scanner(table, 0, limit=limit).open(token)


def test_a_page_token_never_goes_on_in_a_partition_that_was_made_anew(here: penstock.Connection) -> None:
    days = here.create_table("days", DAYS, partitioned_by=["day"])
    days.upsert([{"id": n, "day": "mon"} for n in range(ROWS)])
    bucket = penstock.TableBucket("default.days", "day=mon", 0)
    page = here.scanner(days, bucket, page_bytes="1KB").open()
    days.drop_partition({"day": "mon"})
    days.upsert([{"id": 1_000 + n, "day": "mon"} for n in range(ROWS)])

    def next_page() -> list[int]:
        return ids([here.scanner(days, bucket).open(page.resume_token).batch])

    def rest() -> list[int]:
        return ids(here.resume_scan(page.resume_token))

    # While its files are there the first one may still be read; after that its rows are gone, and that is said.
    for read in (next_page, rest):
        try:
            found = read()
        except (PartitionNotFoundError, OffsetOutOfRangeError):
            continue
        assert found == list(range(page.rows, ROWS))[: len(found)]


def test_owners_and_leases_of_another_database_are_refused(here: penstock.Connection, connect: Connect) -> None:
    ddl = "id BIGINT, n BIGINT SUM, PRIMARY KEY (id)"
    there = connect("there")
    ours, theirs = (c.create_table("a", ddl, merge_engine="aggregate") for c in (here, there))
    with ours.acquire_owner("job") as owner, theirs.acquire_owner("job") as other:
        assert owner.fence == other.fence
        owner.begin(1)
        other.begin(1)
        for used in (owner, owner.token(1)):
            with pytest.raises(InvalidError, match="the owner is one of another database; acquire it in this one"):
                theirs.upsert([{"id": 1, "n": 1}], owner=used)
        assert ids(theirs.scan()) == []
    lease = here.acquire_lease("job", ours.cut())
    there.acquire_lease("job", theirs.cut())
    with pytest.raises(InvalidError, match="the lease is of another database"):
        theirs.scan(lease=lease)
    with pytest.raises(InvalidError, match="the table cannot be used here: it is of another database"):
        there.acquire_lease("next", ours.latest_snapshots)
    with pytest.raises(InvalidError, match="the table is of another database; open it in this one"):
        there.scanner(ours, 0)
    with pytest.raises(InvalidError, match="the bucket is of another table"):
        there.scanner("a", penstock.TableBucket("default.b", None, 0))


def test_snapshots_of_another_database_or_of_a_namesake_are_not_leased(
    here: penstock.Connection, connect: Connect
) -> None:
    there = connect("there")
    fill(there).create_snapshot()
    taken = fill(here).create_snapshot()
    assert not here.acquire_lease("job", taken).unavailable

    with pytest.raises(InvalidError, match="the snapshot is of another database, or of a table of this name"):
        there.acquire_lease("job", taken)
    here.drop_table("t")
    fill(here).create_snapshot()
    with pytest.raises(InvalidError, match="the snapshot is of another database, or of a table of this name"):
        here.acquire_lease("again", taken)


def test_a_place_outlives_a_restart(connect: Connect, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with penstock.serve(directory) as server, penstock.connect(server.url) as connection:
        known = places(connection, fill(connection))
        served = connection.table("t").cut().database
    with penstock.connect(directory) as connection:
        assert connection.table("t").cut().database == served
        for name, use in known.items():
            assert use(connection) is not None, name


def test_a_connection_notices_that_its_server_has_another_database(tmp_path: Path) -> None:
    pages = {"kv.scanner.page-bytes": "1KB"}
    with penstock.serve(tmp_path / "one", settings=pages) as server:
        connection = penstock.connect(server.url)
        table = fill(connection)
        scan = table.scan()
        stream = table.changes(follow=True, timeout="100ms")
        next(stream)
        port = int(server.url.rpartition(":")[2])
    with penstock.serve(tmp_path / "two", port=port) as server, penstock.connect(server.url) as other:
        twin = fill(other, "others")
        for use in (
            lambda: table.upsert([{"id": 1, "v": "wrong"}]),
            lambda: table.lookup([1]),
            scan.to_arrow,
            lambda: list(stream),
            lambda: connection.table("t"),
            connection.list_databases,
        ):
            with pytest.raises(ConflictError, match="the server at this address serves another database now"):
                use()
        assert twin.get(id=1) == {"id": 1, "v": "others"}
    with penstock.serve(tmp_path / "one", port=port):
        assert table.get(id=1) == {"id": 1, "v": "old"}
        assert scan.to_arrow().num_rows == ROWS
    connection.close()


def backed_up(source: Path, target: Path) -> Path:
    with penstock.connect(source) as connection:
        connection.backup(target)
    return target


def test_a_restored_database_goes_on_with_its_origins_places_up_to_the_backup(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "origin") as origin:
        table = fill(origin)
        days = origin.create_table("days", DAYS, partitioned_by=["day"])
        days.upsert([{"id": n, "day": "mon"} for n in range(3)])
        log = origin.create_table("log", "id BIGINT")
        log.append([{"id": n} for n in range(5)])
        at_backup = {handle.path: handle.cut() for handle in (table, days, log)}
        reading = log.changes()
        next(reading)
        token = table.scan().resume_token
    backed_up(tmp_path / "origin", tmp_path / "backup")
    with penstock.connect(tmp_path / "origin") as origin:
        origin.table("t").upsert([{"id": 9_999, "v": "later"}])
        origin.table("days").upsert([{"id": 9_999, "day": "tue"}])
        origin.create_table("born", DDL).upsert([{"id": 1, "v": "x"}])
        later = {path: origin.table(path).cut() for path in ("t", "days", "born")}
        late_token = origin.table("t").scan().resume_token
        late_page = origin.scanner("t", 0, page_bytes="1KB").open().resume_token
    penstock.restore(tmp_path / "backup", tmp_path / "copy")

    with penstock.connect(tmp_path / "copy") as copy:
        assert copy.table("t").cut().database not in {cut.database for cut in at_backup.values()}
        copy.table("t").upsert([{"id": 7_777, "v": "copy"}])
        copy.table("days").upsert([{"id": 7_777, "day": "tue"}])
        copy.create_table("born", DDL).upsert([{"id": 2, "v": "y"}])

        assert ids(copy.table("t").changes(start=at_backup["default.t"])) == [7_777]
        assert ids(copy.table("t").scan(as_of=at_backup["default.t"].to_json())) == list(range(ROWS))
        assert ids(copy.resume_scan(token)) == list(range(ROWS))
        assert ids(copy.table("days").changes(start=at_backup["default.days"])) == [7_777]
        assert ids(copy.table("log").changes(start=reading.position)) == []
        lost = "this database was restored from a backup that does not have those changes; start anew"
        for path in ("t", "days"):
            with pytest.raises(InvalidError, match=lost):
                copy.table(path).changes(start=later[path])
        with pytest.raises(InvalidError, match=lost):
            copy.resume_scan(late_token)
        with pytest.raises(InvalidError, match=lost):
            copy.resume_scan(late_page)
        with pytest.raises(InvalidError, match="the table was made after the backup"):
            copy.table("born").changes(start=later["born"])


def test_a_restored_database_knows_which_partitions_its_origin_had(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "origin") as origin:
        days = origin.create_table("days", DAYS, partitioned_by=["day"])
        days.upsert([{"id": n, "day": "mon"} for n in range(3)])
        stream = days.changes()
        next(stream)
        read = stream.position
        days.drop_partition({"day": "mon"})
    backed_up(tmp_path / "origin", tmp_path / "backup")
    with penstock.connect(tmp_path / "origin") as origin:
        days = origin.table("days")
        days.upsert([{"id": 9, "day": "tue"}])
        days.drop_partition({"day": "tue"})
        later = days.changes(follow=True, timeout=0).position
    penstock.restore(tmp_path / "backup", tmp_path / "copy")

    with penstock.connect(tmp_path / "copy") as copy:
        days = copy.table("days")
        days.upsert([{"id": 4, "day": "wed"}])

        assert ids(days.changes(start=read)) == [4]
        with pytest.raises(InvalidError, match="restored from a backup that does not have those changes"):
            days.changes(start=later)


def test_a_chain_of_restores_knows_all_its_ancestors(tmp_path: Path) -> None:
    cuts: list[tuple[penstock.Cut, penstock.Cut]] = []
    name = "0"
    with penstock.connect(tmp_path / name) as connection:
        connection.create_table("t", DDL)
    for turn in range(3):
        with penstock.connect(tmp_path / name) as connection:
            table = connection.table("t")
            table.upsert([{"id": 10 * turn, "v": ""}])
            kept = table.cut()
        backed_up(tmp_path / name, tmp_path / f"backup{turn}")
        with penstock.connect(tmp_path / name) as connection:
            connection.table("t").upsert([{"id": 10 * turn + 1, "v": "lost"}])
            cuts.append((kept, connection.table("t").cut()))
        name = str(turn + 1)
        penstock.restore(tmp_path / f"backup{turn}", tmp_path / name)

    with penstock.connect(tmp_path / name) as last:
        table = last.table("t")
        assert len({cut.database for cut, _ in cuts} | {table.cut().database}) == 4
        assert ids(table.changes(start=cuts[-1][0])) == []
        for turn, (kept, _) in enumerate(cuts[:-1]):
            # The history came along.
            assert ids(table.changes(start=kept)) == [10 * later for later in range(turn + 1, 3)]
        for _, lost in cuts:
            with pytest.raises(InvalidError, match="does not have those changes"):
                table.changes(start=lost)
