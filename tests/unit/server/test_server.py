"""A server as its clients see it: calls, errors, who is let in, limits, and its end."""

from __future__ import annotations

import json
import logging
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from tests.kit.waiting import wait_until

from penstock.client.remote.node import RemoteNode
from penstock.errors import (
    AlreadyExistsError,
    ClosedError,
    InternalError,
    InvalidError,
    LimitError,
    OverloadedError,
    PermissionDeniedError,
    TimedOutError,
    UnavailableError,
    UnknownOrExpiredScannerError,
)
from penstock.model.node.calls import LookupCall, OpenScan, PullChanges
from penstock.model.place.bucket import TableBucket
from penstock.server.access.token_file import LOOK_AGAIN_MS
from penstock.server.access.tokens import hash_token, make_token
from penstock.server.server import Listen, Server
from penstock.server.settings import ServerSettings
from penstock.testing.manual_clock import ManualClock
from penstock.wire.calls import OPEN_SCANNER, WRITE
from penstock.wire.frame import CALL_STREAM, FrameKind, decode_frame, encode_frame

BUCKET = TableBucket("default.orders", None, 0)
Start = Callable[..., Server]
Reach = Callable[..., RemoteNode]
Make = Callable[..., Any]


def pull_until_closed(remote: RemoteNode, pull: PullChanges) -> None:
    with pytest.raises(ClosedError):
        remote.changes.pull(pull)


def test_calls_reach_the_node_and_answers_come_back(node: Any, start: Start, reach: Reach, make_write: Make) -> None:
    remote = reach(start())
    remote.catalog.create_database("shop")
    result = remote.tables.write(make_write(3))
    page = remote.scan.open(OpenScan(1, 0, BUCKET))
    found = remote.lookup.rows(LookupCall(1, 0, pa.record_batch({"id": [2]})))

    assert remote.catalog.list_databases() == ["default", "shop"]
    assert (result.rows, result.offsets) == (3, {BUCKET: (0, 3)})
    assert (page.batch.to_pylist(), page.has_more) == (make_write(3).batch.to_pylist(), False)
    assert found.offsets == {BUCKET: 3}


def test_errors_of_the_node_arrive_as_themselves(start: Start, reach: Reach) -> None:
    remote = reach(start())

    with pytest.raises(AlreadyExistsError, match=r"there is a database of that name.* database=default"):
        remote.catalog.create_database("default")
    with pytest.raises(UnknownOrExpiredScannerError):
        remote.scan.next_page("s-9", 1)


def test_bug_of_the_node_is_logged_there_and_tells_the_client_nothing(
    start: Start, reach: Reach, caplog: pytest.LogCaptureFixture
) -> None:
    remote = reach(start())

    with caplog.at_level(logging.ERROR, "penstock"), pytest.raises(InternalError) as caught:
        remote.catalog.drop_database("secret")

    assert "secret" not in str(caught.value)
    assert "a bug of the node: secret" in caplog.text
    assert remote.catalog.list_databases() == ["default"]


def test_many_threads_share_one_connection(node: Any, start: Start, reach: Reach, make_write: Make) -> None:
    remote = reach(start())
    threads = [
        threading.Thread(target=lambda: [remote.tables.write(make_write(1)) for _ in range(20)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(node.batches) == 160


def test_tokens_give_a_principal_and_strangers_are_turned_away(
    node: Any, start: Start, reach: Reach, tmp_path: Path
) -> None:
    token = make_token()
    file = tmp_path / "tokens"
    file.write_text(f"# people\nann:{hash_token(token)}\n")
    server = start(token_file=file)

    reach(server, token=token).catalog.list_databases()

    assert node.principals == ["ann"]
    for wrong in (None, "", make_token(), "x" * 5_000):
        with pytest.raises(PermissionDeniedError, match="token"):
            reach(server, token=wrong).catalog.list_databases()
    assert node.principals == ["ann"]


def test_caller_with_a_token_leaves_streams_to_others(node: Any, start: Start, reach: Reach, tmp_path: Path) -> None:
    tokens = {name: make_token() for name in ("ann", "bob")}
    file = tmp_path / "tokens"
    file.write_text("".join(f"{name}:{hash_token(token)}\n" for name, token in tokens.items()))
    server = start(token_file=file, settings=ServerSettings(streams_max=4))

    for _ in range(3):
        reach(server, token=tokens["ann"]).catalog.list_databases()
    with pytest.raises(OverloadedError, match="ann has its share of the server's streams"):
        reach(server, token=tokens["ann"]).catalog.list_databases()
    reach(server, token=tokens["bob"]).catalog.list_databases()
    assert node.principals == ["ann", "ann", "ann", "bob"]


def test_token_that_is_taken_out_of_the_file_ends_on_open_streams_too(
    node: Any, start: Start, reach: Reach, tmp_path: Path
) -> None:
    ann, bob, clock = make_token(), make_token(), ManualClock()
    file = tmp_path / "tokens"
    file.write_text(f"ann:{hash_token(ann)}\nbob:{hash_token(bob)}\n")
    server = start(token_file=file, clock=clock)
    anns, bobs = reach(server, token=ann), reach(server, token=bob)
    anns.catalog.list_databases()
    bobs.catalog.list_databases()

    file.write_text(f"bob:{hash_token(bob)}\n")
    clock.advance(LOOK_AGAIN_MS)

    with pytest.raises(PermissionDeniedError, match="does not know this token"):
        anns.catalog.list_databases()
    bobs.catalog.list_databases()
    assert node.principals == ["ann", "bob", "bob"]


def test_certificates_that_are_replaced_are_used_without_a_restart(
    start: Start, reach: Reach, certificates: Path, tmp_path: Path
) -> None:
    for name in ("server.pem", "server.key"):
        (tmp_path / name).write_bytes((certificates / name).read_bytes())
    server = start(tls_cert=tmp_path / "server.pem", tls_key=tmp_path / "server.key")
    trusting = {"ca": certificates / "ca.pem"}
    port = server.port
    assert reach(server, tls=trusting).catalog.list_databases() == ["default"]

    (tmp_path / "server.pem").write_bytes((certificates / "ann.pem").read_bytes())
    server.renew_certificates()  # the key does not belong to it yet
    assert reach(server, tls=trusting).catalog.list_databases() == ["default"]
    (tmp_path / "server.key").write_bytes((certificates / "ann.key").read_bytes())
    server.renew_certificates()

    assert server.port == port
    assert shown_certificate(server.port) == (certificates / "ann.pem").read_text()
    assert server.http_url is not None
    assert shown_certificate(int(server.http_url.rpartition(":")[2])) == (certificates / "ann.pem").read_text()


def shown_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)


def test_certificate_without_a_name_is_no_principal(node: Any, start: Start, reach: Reach, certificates: Path) -> None:
    server = start(
        tls_cert=certificates / "server.pem", tls_key=certificates / "server.key", tls_ca=certificates / "ca.pem"
    )
    files = {"ca": certificates / "ca.pem", "cert": certificates / "nobody.pem", "key": certificates / "nobody.key"}

    with pytest.raises(PermissionDeniedError, match="certificate has no name"):
        reach(server, tls=files).catalog.list_databases()

    assert node.principals == []


def test_tls_is_spoken_when_asked_for(start: Start, reach: Reach, certificates: Path) -> None:
    server = start(tls_cert=certificates / "server.pem", tls_key=certificates / "server.key")

    assert server.url.startswith("penstock+tls://")
    assert reach(server, tls={"ca": certificates / "ca.pem"}).catalog.list_databases() == ["default"]
    with pytest.raises(UnavailableError):
        RemoteNode(server.url.replace("+tls", "")).catalog.list_databases()


def test_client_certificate_gives_a_principal(node: Any, start: Start, reach: Reach, certificates: Path) -> None:
    server = start(
        tls_cert=certificates / "server.pem", tls_key=certificates / "server.key", tls_ca=certificates / "ca.pem"
    )
    files = {"ca": certificates / "ca.pem", "cert": certificates / "ann.pem", "key": certificates / "ann.key"}

    reach(server, tls=files).catalog.list_databases()

    assert node.principals == ["ann"]
    with pytest.raises(UnavailableError):
        reach(server, tls={"ca": certificates / "ca.pem"}).catalog.list_databases()


def test_certificate_gives_nobody_the_name_of_who_has_the_files(
    node: Any, start: Start, reach: Reach, certificates: Path
) -> None:
    server = start(
        tls_cert=certificates / "server.pem", tls_key=certificates / "server.key", tls_ca=certificates / "ca.pem"
    )
    files = {"ca": certificates / "ca.pem", "cert": certificates / "local.pem", "key": certificates / "local.key"}

    with pytest.raises(PermissionDeniedError, match="issue another name=local"):
        reach(server, tls=files).catalog.list_databases()

    assert node.principals == []


def test_beyond_loopback_somebody_must_be_asked() -> None:
    with pytest.raises(InvalidError, match="say insecure"):
        Listen(host="0.0.0.0")
    with pytest.raises(InvalidError, match="say insecure"):
        Listen(host="192.0.2.1", tls_cert="c", tls_key="k")
    allowed: list[dict[str, Any]] = [
        {"insecure": True},
        {"token_file": "t"},
        {"tls_cert": "c", "tls_key": "k", "tls_ca": "a"},
    ]
    for options in allowed:
        assert Listen(host="0.0.0.0", **options).host == "0.0.0.0"
    for loopback in ("127.0.0.1", "localhost", "::1"):
        assert Listen(host=loopback).host == loopback


def test_taken_port_is_refused_although_grpc_would_share_it(start: Start) -> None:
    server = start()

    with pytest.raises(UnavailableError, match="choose another"):
        start(port=server.port)


def test_free_http_port_is_taken_only_where_any_will_do(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    first = start()
    assert first.http_url is not None
    taken = int(first.http_url.rpartition(":")[2])

    with pytest.raises(UnavailableError, match="the http port is taken"):
        start(http_port=taken)
    with caplog.at_level(logging.WARNING, "penstock"):
        second = start(http_port=taken, any_http_port=True)
    assert second.http_url not in (None, first.http_url)
    assert f"port={taken} http={second.http_url}" in caplog.text
    with urllib.request.urlopen(f"{second.http_url}/health") as answer:
        assert answer.status == 200


def test_call_over_the_limit_is_refused_and_the_stream_goes_on(
    node: Any, start: Start, reach: Reach, make_write: Make
) -> None:
    # What a request has besides its rows may be large too, so far more than the limit is sent.
    remote = reach(start(ServerSettings(request_bytes_max=100_000, call_bytes_max=100_000)))

    with pytest.raises(LimitError, match="send smaller batches"):
        remote.tables.write(make_write(2_000_000))
    assert remote.tables.write(make_write(10)).rows == 10
    assert len(node.batches) == 1


def test_streams_over_the_limit_are_refused_and_the_others_served(node: Any, start: Start, reach: Reach) -> None:
    server = start(ServerSettings(peer_streams_max=2))
    greedy, modest = reach(server), reach(server)
    node.hold.clear()
    held = [threading.Thread(target=greedy.catalog.list_databases) for _ in range(2)]
    for thread in held:
        thread.start()
    wait_until(lambda: len(node.principals) == 2)

    with pytest.raises(OverloadedError, match="too many open streams"):
        greedy.catalog.create_database("a")
    modest.catalog.create_database("b")

    node.hold.set()
    for thread in held:
        thread.join()
    assert node.databases == ["b", "default"]


def test_bytes_over_the_limit_are_refused(start: Start, reach: Reach, make_write: Make) -> None:
    remote = reach(start(ServerSettings(peer_memory_bytes_max=100_000)))

    with pytest.raises(OverloadedError, match="in flight"):
        remote.tables.write(make_write(50_000))
    assert remote.tables.write(make_write(1)).rows == 1


def test_long_poll_wakes_with_the_first_change(start: Start, reach: Reach, make_write: Make, node: Any) -> None:
    server = start(ServerSettings(wait_slice_ms=60_000))
    follower, writer = reach(server), reach(server)
    pages: list[Any] = []
    pull = PullChanges(1, 0, {BUCKET: (0, None)}, wait_ms=20_000)
    thread = threading.Thread(target=lambda: pages.extend(follower.changes.pull(pull)))
    thread.start()
    wait_until(lambda: len(node.rules.arguments("changes.pull")) == 1)

    writer.tables.write(make_write(2))
    thread.join(10)

    assert [page.batch.num_rows for page in pages] == [2]


def test_waits_over_the_limit_are_refused(node: Any, start: Start, reach: Reach) -> None:
    server = start(ServerSettings(waits_max=1))
    remote = reach(server)
    pull = PullChanges(1, 0, {BUCKET: (0, None)}, wait_ms=20_000)
    thread = threading.Thread(target=pull_until_closed, args=(remote, pull))
    thread.start()
    wait_until(lambda: len(node.rules.arguments("changes.pull")) == 1)

    with pytest.raises(OverloadedError, match="waits"):
        reach(server).changes.pull(pull)

    remote.close()
    thread.join(10)
    assert not thread.is_alive()


def test_wait_of_a_client_that_went_away_ends_soon(node: Any, start: Start, reach: Reach) -> None:
    server = start(ServerSettings(wait_slice_ms=20))
    remote = reach(server)
    pull = PullChanges(1, 0, {BUCKET: (0, None)}, wait_ms=30_000)
    thread = threading.Thread(target=pull_until_closed, args=(remote, pull))
    thread.start()
    wait_until(lambda: server.admission.counts()["calls"] == 1)

    remote.close()

    thread.join(10)
    wait_until(lambda: server.admission.counts() == {"streams": 0, "calls": 0, "bytes": 0})


def test_call_that_takes_too_long_times_out_and_the_next_one_works(node: Any, start: Start, reach: Reach) -> None:
    remote = reach(start(), timeout_ms=200)
    node.hold.clear()

    with pytest.raises(TimedOutError, match="in time"):
        remote.catalog.list_databases()

    node.hold.set()
    assert remote.catalog.list_databases() == ["default"]


def test_calls_in_flight_finish_when_the_server_stops(node: Any, start: Start, reach: Reach) -> None:
    server = start()
    remote = reach(server)
    reach(server).catalog.list_databases()  # an idle stream stays open: it must not hold the server up
    answers: list[list[str]] = []
    node.hold.clear()
    thread = threading.Thread(target=lambda: answers.append(remote.catalog.list_databases()))
    thread.start()
    wait_until(lambda: len(node.principals) == 2)
    stopping = threading.Thread(target=server.close)
    stopping.start()
    wait_until(lambda: server.admission.closed)

    with pytest.raises(UnavailableError, match="stopping"):
        reach(server).catalog.list_databases()
    node.hold.set()
    thread.join(10)
    stopping.join(10)

    assert answers == [["default"]]
    assert node.closed
    assert not stopping.is_alive()
    with pytest.raises(UnavailableError):
        reach(server).catalog.list_databases()


def test_client_that_does_not_read_is_cut_off(node: Any, start: Start, reach: Reach) -> None:
    scanners = node.script([pa.record_batch({"id": list(range(200_000))})] * 60)
    server = start(ServerSettings(stall_ms=200))
    client = flight.FlightClient(server.url.replace("penstock", "grpc"))
    ticket = OPEN_SCANNER.encode_request(1, {"call": OpenScan(1, 0, BUCKET)}).to_pybytes()

    unread = client.do_get(flight.Ticket(ticket))
    wait_until(lambda: server.admission.counts()["streams"] == 1)
    wait_until(lambda: server.admission.counts()["streams"] == 0)

    assert reach(server).catalog.list_databases() == ["default"]
    with pytest.raises((flight.FlightError, pa.ArrowException, OSError)):
        unread.read_all()
    wait_until(lambda: not scanners)


def test_streams_held_without_a_call_are_cut_off(start: Start, reach: Reach) -> None:
    server = start(ServerSettings(stall_ms=40, idle_ms=100))
    remote = reach(server)
    remote.catalog.list_databases()

    wait_until(lambda: server.admission.counts()["streams"] == 0)

    with pytest.raises(UnavailableError):
        remote.catalog.list_databases()
    assert remote.catalog.list_databases() == ["default"]


def test_export_streams_a_whole_scan(node: Any, start: Start, make_write: Make) -> None:
    scanners = node.script([make_write(rows).batch for rows in (1, 2, 3)])
    client = flight.FlightClient(start().url.replace("penstock", "grpc"))
    ticket = OPEN_SCANNER.encode_request(1, {"call": OpenScan(1, 0, BUCKET)}).to_pybytes()

    table = client.do_get(flight.Ticket(ticket)).read_all()

    assert table.num_rows == 6
    wait_until(lambda: not scanners)


def test_health_and_metrics_are_told_over_http(start: Start, reach: Reach) -> None:
    server = start()
    reach(server).catalog.list_databases()

    health = json.load(urllib.request.urlopen(f"{server.http_url}/health", timeout=5))
    metrics = urllib.request.urlopen(f"{server.http_url}/metrics", timeout=5).read().decode()

    assert health == {"status": "ok"}
    assert 'penstock_call_milliseconds_count{call="list_databases"} 1.0' in metrics
    spent = next(
        line for line in metrics.splitlines() if line.startswith('penstock_call_milliseconds_sum{call="list_d')
    )
    assert 0 < float(spent.split()[-1]) < 10_000
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(f"{server.http_url}/secrets", timeout=5)
    caught.value.close()


def test_torn_streams_are_counted_and_ended_ones_are_not(start: Start, reach: Reach, make_write: Make) -> None:
    server = start()

    def torn() -> float:
        text = urllib.request.urlopen(f"{server.http_url}/metrics", timeout=5).read().decode()
        return float(
            next(line for line in text.splitlines() if line.startswith("penstock_streams_torn_total")).split()[1]
        )

    polite = reach(server)
    polite.tables.write(make_write(3))
    polite.close()
    wait_until(lambda: server.admission.counts()["streams"] == 0)
    assert torn() == 0

    client = flight.FlightClient(server.url.replace("penstock", "grpc"))
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
    writer.write_metadata(b"junk")
    reader.read_chunk()
    writer.close()
    wait_until(lambda: torn() == 1)


def test_requests_sent_ahead_are_answered_in_order_and_the_end_is_counted(
    node: Any, start: Start, make_write: Make
) -> None:
    client = flight.FlightClient(start().url.replace("penstock", "grpc"))
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
    for number in range(20):
        writer.write_metadata(WRITE.encode_request(number, {"call": make_write(number + 1)}))
    writer.write_metadata(encode_frame(FrameKind.END, {"calls": 20, "rows": 210}))

    results = [WRITE.decode_reply(number, reader.read_chunk().app_metadata) for number in range(20)]
    end = decode_frame(reader.read_chunk().app_metadata)
    writer.close()

    assert [result.rows for result in results] == [batch.num_rows for batch in node.batches] == list(range(1, 21))
    assert (end.kind, end.header) == (FrameKind.END, {"calls": 20, "rows": 210})


def test_end_that_counts_otherwise_is_refused(start: Start, make_write: Make) -> None:
    client = flight.FlightClient(start().url.replace("penstock", "grpc"))
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(CALL_STREAM))
    writer.write_metadata(WRITE.encode_request(1, {"call": make_write(3)}))
    writer.write_metadata(encode_frame(FrameKind.END, {"calls": 2, "rows": 6}))
    reader.read_chunk()

    with pytest.raises(InvalidError, match="part of it was lost calls=1 rows=3"):
        WRITE.decode_reply(2, reader.read_chunk().app_metadata)
    writer.close()
