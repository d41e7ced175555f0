"""A server: a node, its two listening ports, and their end."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from penstock.errors import InvalidError, NotFoundError, UnavailableError
from penstock.model.node.node import SharedNode
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.metrics import Metrics
from penstock.runtime.tasks import TaskGroup
from penstock.server.access.authentication import Authentication
from penstock.server.access.http_authentication import HttpAuthentication
from penstock.server.access.private_paths import PrivatePaths
from penstock.server.access.token_file import TokenFile, file_stamp
from penstock.server.calls.admission import Admission
from penstock.server.calls.connection_watch import ConnectionWatch
from penstock.server.calls.connections import address_of, cut_connections, received_bytes
from penstock.server.calls.dispatch import Dispatch
from penstock.server.calls.flight_service import FlightServer
from penstock.server.calls.handler import Handler, OnPage
from penstock.server.calls.request_log import RequestLog
from penstock.server.http import HttpServer
from penstock.server.settings import ServerSettings

SHUTDOWN_SECONDS_MAX: Final = 10
STRANGERS_MS: Final = 500
"""How often connections are looked at that have not got a call through."""

CERTIFICATES_MS: Final = 5_000
"""How often the files of certificates are looked at."""

_log = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where a server listens, and whom it lets in. Port 0 takes a free one; no HTTP port means no HTTP.

    With `any_http_port` a free one will do where the HTTP port is taken.
    """

    host: str = "127.0.0.1"
    port: int = 0
    http_port: int | None = 0
    any_http_port: bool = False
    token_file: str | Path | None = None
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    tls_ca: str | Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidError("tls needs a certificate and its key; give both")
        if self.tls_ca is not None and self.tls_cert is None:
            raise InvalidError("mutual tls needs the server's own certificate and key too")
        if not (self.token_file or self.tls_ca or self.insecure or _is_loopback(self.host)):
            raise InvalidError(
                "callers would not be identified: give a token file or a ca for client certificates, "
                "or say insecure to listen beyond loopback",
                host=self.host,
            )

    def tls(self) -> dict[str, Any]:
        """Return what Flight needs for TLS: nothing without a certificate."""
        if self.tls_cert is None or self.tls_key is None:
            return {}
        given: dict[str, Any] = {"tls_certificates": [(_read(self.tls_cert), _read(self.tls_key))]}
        if self.tls_ca is not None:
            given |= {"verify_client": True, "root_certificates": _read(self.tls_ca)}
        return given

    def http_authentication(self, tokens: TokenFile | None) -> HttpAuthentication:
        """Return the authentication of the HTTP port.

        Raises:
            InvalidError: certificate, key or CA cannot be used.
        """
        return HttpAuthentication(tokens, cert=self.tls_cert, key=self.tls_key, ca=self.tls_ca)

    def tls_stamp(self) -> list[tuple[int, int, int] | None]:
        """Return what changes when a certificate, its key or the CA is replaced."""
        return [file_stamp(path) for path in (self.tls_cert, self.tls_key, self.tls_ca) if path is not None]


class Server:
    """A node behind its ports, from the moment it is made. A context manager; closes the node with itself."""

    def __init__(
        self,
        node: SharedNode,
        listen: Listen,
        *,
        settings: ServerSettings | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        on_page: OnPage | None = None,
        on_gone: OnPage | None = None,
        directory: str | Path | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        """Serve a node; `on_page` is told of each scanner whose page is sent and that has more to give.

        `on_gone` is told of scanners that were opened on a stream which broke.

        Errors that name files in `directory` are sent without the way to it.
        """
        self.node = node
        self._settings = settings or ServerSettings()
        self._closing = threading.Lock()
        self._closed = False
        clock, metrics = clock or SystemClock(), metrics or Metrics()
        self.admission = Admission(self._settings, clock)
        handler = Handler(
            Dispatch(node),
            self._settings,
            self.admission,
            clock,
            metrics,
            on_page=on_page,
            on_gone=on_gone,
            private=PrivatePaths(directory),
            requests=requests or RequestLog(node),
        )
        self._tokens = None if listen.token_file is None else TokenFile(listen.token_file, clock)
        self._handler, self._metrics = handler, metrics
        self._tls_stamp = listen.tls_stamp()
        http_authentication = listen.http_authentication(self._tokens)
        self._flight = self._listen(listen)
        self._relisten = replace(listen, port=self.port)
        scheme = "penstock" if listen.tls_cert is None else "penstock+tls"
        self.url = f"{scheme}://{_bracketed(listen.host)}:{self.port}"
        self._http = self._listen_http(listen, metrics, http_authentication)
        self._tasks = TaskGroup(clock, workers=1)
        self._watch = ConnectionWatch(self._settings, clock)
        self._tasks.every("cut-overdue", max(1, self._settings.stall_ms // 4), self._cut_overdue)
        self._tasks.every("cut-strangers", STRANGERS_MS, self._cut_strangers)
        if listen.tls_cert is not None:
            self._tasks.every("certificates", CERTIFICATES_MS, self.renew_certificates)
        self._gauges = {name: metrics.gauge(f"penstock_server_{name}") for name in self.admission.counts()}
        self._tasks.every("gauges", 1_000, self._set_gauges)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Server({self.url}{', closed' if self._closed else ''})"

    @property
    def port(self) -> int:
        """Return the port on which calls come in."""
        return int(self._flight.port)

    @property
    def http_url(self) -> str | None:
        """Return where metrics and health are, None without HTTP."""
        return None if self._http is None else self._http.url

    def close(self) -> bool:
        """Refuse new calls, wait for those in flight up to the deadline, then close the node; idempotent.

        Return whether every call ended by itself.
        """
        with self._closing:
            if self._closed:
                return True
            self._closed = True
            drained = self.admission.close(self._settings.drain_ms)
            if not drained:
                _log.warning("calls were cut off at the deadline drain_ms=%d", self._settings.drain_ms)
            stopped = self._stop_flight()
            self._tasks.close()
            if self._http is not None:
                self._http.close()
            self.node.close()
            return drained and stopped

    def renew_certificates(self) -> None:
        """Listen with the certificates that the files hold now, if they changed; clients reconnect by themselves.

        Flight takes its certificates when it begins to listen, so it begins again, on the same port. Files that
        do not belong together, as while they are being replaced one by one, are looked at again later.
        """
        with self._closing:
            stamp = self._relisten.tls_stamp()
            if self._closed or stamp == self._tls_stamp:
                return
            try:
                authentication = self._relisten.http_authentication(self._tokens)
            except InvalidError as error:
                _log.warning("certificates changed and cannot be used; the old ones stay in use error=%s", error)
                return
            self._tls_stamp = stamp
            if self._http is not None:
                self._http.authentication = authentication
            self._stop_flight()
            self._flight = self._listen(self._relisten)
        _log.info("certificates changed and were read again")

    def _stop_flight(self) -> bool:
        # Flight's own shutdown waits for streams that clients keep open, so these are cut meanwhile.
        port = self.port
        stopping = threading.Thread(target=self._flight.shutdown, name="penstock-shutdown", daemon=True)
        stopping.start()
        for _ in range(SHUTDOWN_SECONDS_MAX * 20):
            cut_connections(port)
            stopping.join(0.05)
            if not stopping.is_alive():
                return True
        return False

    def _listen(self, listen: Listen) -> FlightServer:
        _check_free(listen.host, listen.port)
        scheme = "grpc" if listen.tls_cert is None else "grpc+tls"
        try:
            return FlightServer(
                f"{scheme}://{_bracketed(listen.host)}:{listen.port}",
                self._handler,
                admission=self.admission,
                settings=self._settings,
                metrics=self._metrics,
                authentication=None if self._tokens is None else Authentication(self._tokens),
                database=self.node.catalog.database_id(),
                **listen.tls(),
            )
        except (pa.ArrowException, OSError) as error:
            raise UnavailableError(
                "the server cannot listen; check host, port and certificates", host=listen.host, port=listen.port
            ) from error

    def _listen_http(self, listen: Listen, metrics: Metrics, authentication: HttpAuthentication) -> HttpServer | None:
        if listen.http_port is None:
            return None
        for port in (listen.http_port, 0) if listen.any_http_port else (listen.http_port,):
            try:
                found = HttpServer(listen.host, port, metrics, lambda: not self.admission.closed, authentication)
            except OSError as error:
                cause = error
                continue
            if port != listen.http_port:
                _log.warning(
                    "the usual http port is taken, so http has another port=%d http=%s", listen.http_port, found.url
                )
            return found
        self._stop_flight()
        raise UnavailableError("the http port is taken; choose another", port=listen.http_port) from cause

    def _cut_overdue(self) -> None:
        peers = {address_of(peer) for peer in self.admission.overdue()}
        cut = cut_connections(self.port, peers) if peers else 0
        if cut:
            _log.warning("connections were cut: replies unread, or streams held idle connections=%d", cut)

    def _cut_strangers(self) -> None:
        arrivals = self.admission.arrivals()
        received = received_bytes(self.port)
        known = {address_of(peer): count for peer, count in arrivals.items()}
        cut = cut_connections(self.port, self._watch.look(received, known))
        self.admission.forget(peer for peer in arrivals if address_of(peer) not in received)
        if cut:
            _log.warning("connections were cut: no call came whole in time connections=%d", cut)

    def _set_gauges(self) -> None:
        for name, count in self.admission.counts().items():
            self._gauges[name].set(count)


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _check_free(host: str, port: int) -> None:
    # gRPC shares a port with any other process that asks for it; two servers would then take turns.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as error:
            raise UnavailableError(
                "the server cannot listen there; choose another host or port",
                host=host,
                port=port,
                cause=error.strerror,
            ) from error


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFoundError("a tls file cannot be read", path=str(path), cause=error.strerror) from error
