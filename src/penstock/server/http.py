"""`/metrics` for Prometheus and `/health` for whoever watches, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final

from penstock.errors import PermissionDeniedError
from penstock.runtime.metrics import Metrics
from penstock.runtime.prometheus_text import CONTENT_TYPE, prometheus_text
from penstock.server.http_door import HttpDoor

REQUESTS_MAX: Final = 16
REQUEST_SECONDS_MAX: Final = 5


class HttpServer(ThreadingHTTPServer):
    """Answers in daemon threads, few at a time."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self, host: str, port: int, metrics: Metrics, healthy: Callable[[], bool], door: HttpDoor | None = None
    ) -> None:
        self.metrics = metrics
        self.door = door or HttpDoor()
        self.healthy = healthy
        self._places = threading.BoundedSemaphore(REQUESTS_MAX)
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
        return f"{self.door.scheme}://{host}:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, or hang up if there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a client that broke off; it has its error already."""

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    timeout = REQUEST_SECONDS_MAX
    server_version = "penstock"
    sys_version = ""

    def setup(self) -> None:
        self.request.settimeout(self.timeout)
        self.request = self.server.door.secured(self.request)
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
            self.server.door.check(self.connection, self.headers.get("Authorization", ""))
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
