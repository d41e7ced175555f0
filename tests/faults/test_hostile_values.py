"""Well-formed requests whose values are not: each is answered as a caller's mistake, never as a bug of the server's.

Bytes that are no request at all are in `test_hostile_wire`. Here every frame can be read; what is wrong is a number, a
name, a description, a token or the columns of a batch.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

import penstock
from penstock.client.scan.request import compile_filter
from penstock.model.node.calls import LookupCall, OpenScan, Operation, PullChanges, WriteCall
from penstock.model.node.lease import AcquireLease
from penstock.model.node.owner import AcquireOwner
from penstock.model.table.spec import make_spec
from penstock.testing.server import ServerProcess
from penstock.wire import calls
from penstock.wire.call import Call
from penstock.wire.frame import CALL_STREAM, FrameKind, decode_frame, encode_frame
from penstock.wire.reply import is_last

SEED = 8
REQUESTS = 6_000
NUMBERS = [-1, 0, 1, 2**31, -(2**31), 2**53, 2**63 - 1, 1 - 2**63, 2**63, 10**30]
TEXTS = [
    "",
    "..",
    "/",
    "a/b",
    "../../etc/passwd",
    "\0",
    "x" * 300,
    "x" * 70_000,
    "\u202e",
    "\uff53hop",
    "shop.",
    "NaN",
    "_op",
]
OTHERS = [None, True, 1.5, [], {}, [None], {"a": 1}, {"$map": [[[], 1]]}, {"$decimal": "1e999999999"}, {"$ms": 10**30}]
COLUMNS = {
    "id": [
        pa.array([1, 2]),
        pa.array([1, None]),
        pa.array([1, 2]).dictionary_encode(),
        pa.array([2**63 - 1, -(2**63)]),
    ],
    "note": [pa.array(["a", "b"]), pa.array([b"\xff", b""]), pa.nulls(2), pa.array(["a", "b"], pa.string_view())],
    "n": [
        pa.array([1, 2]),
        pa.array([2**63 - 1] * 2),
        pa.array([float("nan")] * 2),
        pa.array([2**64 - 1] * 2, pa.uint64()),
    ],
    "_change_type": [pa.array(["+I", "-D"]), pa.array(["+A", None]), pa.array([1, 2])],
}
BUGS = {"internal", "corruption", "bucket_failed"}


@pytest.fixture
def server(tmp_path: Any) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", settings={"log.fsync": "never"}) as process:
        yield process


class Requests:
    """Makes requests of every kind that takes arguments, as they should be."""

    def __init__(self, connection: penstock.Connection, dice: random.Random) -> None:
        self._dice = dice
        ddl = "id BIGINT, note STRING, n BIGINT, PRIMARY KEY (id)"
        self._tables = [
            connection.create_table("orders", ddl, buckets=2),
            connection.create_table("sums", "id BIGINT, note STRING LISTAGG, n BIGINT SUM, PRIMARY KEY (id)"),
            connection.create_table("log", "id BIGINT, note STRING, n BIGINT"),
        ]
        self._buckets = {table.path: list(table.cut()) for table in self._tables}
        self._owner = self._tables[1].acquire_owner("keeper", ttl="1h")
        self._owner.begin(1)

    def make(self) -> tuple[Call[Any], dict[str, Any]]:
        """Return a call and its arguments."""
        dice = self._dice
        table = dice.choice(self._tables)
        ids: dict[str, Any] = {"table_id": table.info.table_id, "schema_id": table.info.schema_id}
        bucket, batch = dice.choice(self._buckets[table.path]), self._batch()
        columns = dice.choice([None, ("n",), ("note", "n")])
        owner = dice.choice([None, None, self._owner.token(1)])
        write = WriteCall(**ids, operation=dice.choice(list(Operation)), batch=batch, columns=columns, owner=owner)
        filter = compile_filter("n > 5 AND note = 'x'", table.info.schema)
        scan = OpenScan(**ids, bucket=bucket, columns=("id", "n"), filter=filter, limit=5, page_bytes=4_096, end=9)
        good: list[tuple[Call[Any], dict[str, Any]]] = [
            (calls.WRITE, {"call": write}),
            (calls.STAGE, {"call": write}),
            (calls.LOOKUP, {"call": LookupCall(**ids, keys=batch)}),
            (calls.PREFIX_LOOKUP, {"call": LookupCall(**ids, keys=batch)}),
            (calls.OPEN_SCANNER, {"call": scan}),
            (calls.PULL, {"call": PullChanges(**ids, positions={bucket: (0, 9)}, max_bytes=4_096, reader_id="r")}),
            (calls.OPEN_CUT, {"table_id": ids["table_id"], "as_of": {bucket: 0}, "buckets": [bucket]}),
            (calls.NAMED_CUT, {"table_id": ids["table_id"], "name": "cut", "ttl_ms": 1_000}),
            (calls.CREATE_DATABASE, {"name": "other", "if_not_exists": True}),
            (calls.CREATE_TABLE, {"path": "other.t", "spec": self._spec(), "if_not_exists": True}),
            (
                calls.DELETE_WHERE,
                {"table_id": ids["table_id"], "filter": filter, "writer_id": b"w" * 16, "sequence": 1},
            ),
            (calls.OFFSETS, {"table_id": ids["table_id"], "timestamp_ms": 5}),
            (calls.ACQUIRE, {"call": AcquireLease("lease", 1_000, snapshots={bucket: 1})}),
            (calls.ACQUIRE_AN_OWNER, {"call": AcquireOwner(ids["table_id"], "job", ("n",), 1_000, None, "me")}),
            (calls.BEGIN_EPOCH, {"owner": self._owner.token(1), "epoch": 1}),
            (calls.END_ATTEMPT, {"owner": self._owner.token(1), "attempt": b"a" * 16, "written": 0}),
        ]
        return dice.choice(good)

    def _batch(self) -> pa.RecordBatch:
        dice = self._dice
        names = dice.sample(list(COLUMNS), dice.randint(1, 4)) if dice.random() < 0.3 else ["id", "note", "n"]
        if dice.random() < 0.1:
            names.append(names[0])
        # Mostly good ones: what is wrong with the request gets further then.
        arrays = [COLUMNS[name][0] if dice.random() < 0.9 else dice.choice(COLUMNS[name]) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _spec(self) -> Any:
        return make_spec("d DATE, a INT, b DECIMAL(9,2), PRIMARY KEY (d, a)", partitioned_by=["d"], buckets=2)


def twist(dice: random.Random, said: dict[str, Any]) -> Any:
    """Return arguments of which one or two values are others, missing or too many."""
    said = copy.deepcopy(said)
    for _ in range(dice.randint(1, 2)):
        holder: Any = said
        while True:
            places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not places:
                break
            place = dice.choice(places)
            if isinstance(holder[place], dict | list) and dice.random() < 0.9:
                holder = holder[place]
                continue
            found = holder[place]
            alike = NUMBERS if type(found) is int else TEXTS if isinstance(found, str) else OTHERS
            holder[place] = copy.deepcopy(dice.choice(alike if dice.random() < 0.7 else [*NUMBERS, *TEXTS, *OTHERS]))
            break
    return said


def test_wrong_values_are_refused_and_fail_nothing(server: ServerProcess) -> None:
    print(f"seed={SEED}")
    dice = random.Random(SEED)
    answers: Counter[str] = Counter()
    with penstock.connect(server.url) as connection:
        requests = Requests(connection, dice)
        client = flight.FlightClient(server.url.replace("penstock", "grpc"))
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
        for _ in range(REQUESTS):
            call, arguments = requests.make()
            batches: list[pa.RecordBatch] = []
            said: Any = {name: call.arguments[name].write(value, batches) for name, value in arguments.items()}
            if dice.random() < 0.7:
                said = twist(dice, said)
            if call is calls.PULL and isinstance(said["call"], dict):
                said["call"]["wait_ms"] = 0  # any other would be waited for, up to half a minute
            writer.write_metadata(encode_frame(FrameKind.REQUEST, {"id": 1, "call": call.name, "args": said}, batches))
            while not is_last(metadata := reader.read_chunk().app_metadata):
                pass
            reply = decode_frame(metadata)
            code = reply.header["error"]["code"] if reply.kind is FrameKind.ERROR else "ok"
            assert code not in BUGS, f"{call.name} {json.dumps(said)[:2_000]} {reply.header} {server.log[-2_000:]}"
            answers[code] += 1
        writer.close()

        print(answers)
        assert answers["ok"] > REQUESTS // 20
        assert answers["invalid"] > REQUESTS // 4
        for path in ("orders", "sums"):
            assert connection.table(path).stats() is not None
        connection.table("orders").upsert([{"id": 7, "note": "here", "n": 1}])
        connection.table("log").append([{"id": 7, "note": "here", "n": 1}])
        assert connection.table("orders").get(id=7) == {"id": 7, "note": "here", "n": 1}
