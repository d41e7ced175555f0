"""`/metrics` for Prometheus and `/health` for monitors, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

from penstock.errors import PermissionDeniedError
from penstock.runtime.clock import Clock, SystemClock
from penstock.runtime.metrics import Metrics
from penstock.runtime.prometheus_text import CONTENT_TYPE, prometheus_text
from penstock.server.access.http_authentication import HttpAuthentication

REQUESTS_MAX: Final = 16
REQUEST_MS_MAX: Final = 5_000
"""How long a client has for a whole request, not for each byte of it."""


class HttpServer(ThreadingHTTPServer):
    """Answers in daemon threads, few at a time.

    Slow clients keep no other out: a connection is cut when its time is over, and when all places are taken the
    one that has had its place for longest makes room for the next. A request takes a millisecond, so a client that
    asks at once is answered.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Metrics,
        healthy: Callable[[], bool],
        authentication: HttpAuthentication | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.metrics = metrics
        self.authentication = authentication or HttpAuthentication()
        self.healthy = healthy
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        # Guarded by the lock: connections being answered, oldest first, and since when.
        self._answering: dict[socket.socket, int] = {}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="penstock-http", daemon=True)
        self._thread.start()

    def server_bind(self) -> None:
        """Bind without looking the host's name up, which may take as long as a name server likes."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Return where it listens."""
        host = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"{self.authentication.scheme}://{host}:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; without a free place the one answered for longest gives up its own."""
        # A descriptor of our own: behind TLS the connection's socket is another object.
        guard = request.dup()
        with self._lock:
            for oldest in list(self._answering)[: max(0, len(self._answering) - REQUESTS_MAX + 1)]:
                self._cut(oldest)
            self._answering[guard] = self._clock.monotonic_ms()
        thread = threading.Thread(target=self._answer, args=(request, client_address, guard), daemon=True)
        thread.start()

    def service_actions(self) -> None:
        """Cut connections whose time is over; called several times a second."""
        with self._lock:
            due = self._clock.monotonic_ms() - REQUEST_MS_MAX
            for guard in [guard for guard, since in self._answering.items() if since <= due]:
                self._cut(guard)

    def _answer(self, request: Any, client_address: Any, guard: socket.socket) -> None:
        try:
            self.process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._answering.pop(guard, None)
                guard.close()

    def _cut(self, guard: socket.socket) -> None:
        del self._answering[guard]
        with suppress(OSError):
            guard.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a client that broke off; it has its error already."""

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    timeout = REQUEST_MS_MAX / 1_000
    server_version = "penstock"
    sys_version = ""

    def setup(self) -> None:
        self.request.settimeout(self.timeout)
        self.request = self.server.authentication.secured(self.request)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._tell_metrics()
        elif path == "/health":
            healthy = self.server.healthy()
            status = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
            self._reply(status, "application/json", json.dumps({"status": "ok" if healthy else "stopping"}))
        else:
            self._reply(HTTPStatus.NOT_FOUND, "text/plain", "there are /metrics and /health\n")

    def _tell_metrics(self) -> None:
        try:
            self.server.authentication.check(self.connection, self.headers.get("Authorization", ""))
        except PermissionDeniedError as error:
            self._reply(HTTPStatus.UNAUTHORIZED, "text/plain", f"{error}\n")
        else:
            self._reply(HTTPStatus.OK, CONTENT_TYPE, prometheus_text(self.server.metrics))

    def _reply(self, status: HTTPStatus, content_type: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a scrape is no event."""
