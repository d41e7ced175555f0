"""`python -m penstock.server`: a server as a process, in the foreground."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from penstock.errors import PenstockError
from penstock.model.node.ports import FLIGHT_PORT, HTTP_PORT
from penstock.runtime.memory import keep_freed_memory
from penstock.server.log_lines import FORMATS, LEVELS, write_log
from penstock.server.serve import serve
from penstock.server.server import Server

LOOK_SECONDS: Final = 0.1


def run(server: Server, stop: threading.Event) -> int:
    """Say that the server is ready, serve until told to stop, then drain; return the exit code."""
    keep_freed_memory()
    sys.stdout.write(f"penstock ready url={server.url} http={server.http_url}\n")
    sys.stdout.flush()
    # Looked at again and again: a signal that comes just before the thread falls asleep, or to another thread, wakes
    # nobody. And without the event's lock, which whoever handles the signal takes.
    while not stop.is_set():
        time.sleep(LOOK_SECONDS)
    if not server.close():
        # A call that does not end holds a thread that would hold the process; its work is safe to lose.
        logging.shutdown()
        os._exit(0)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a server until SIGTERM or SIGINT; return the exit code."""
    options = _parser().parse_args(arguments)
    write_log(options.log_level, options.log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server = serve(
            options.data,
            host=options.host,
            port=options.port,
            http_port=HTTP_PORT if options.http_port is None else options.http_port,
            any_http_port=options.http_port is None,
            token_file=options.token_file,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            tls_ca=options.tls_ca,
            insecure=options.insecure,
            settings=dict(options.set),
            access_log=options.access_log,
            slow_call=options.slow_call,
        )
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        return 1
    return run(server, stop)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m penstock.server", description="Serve a data directory.")
    parser.add_argument("--data", required=True, help="the data directory; created if absent")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=FLIGHT_PORT, help="for calls; 0 takes a free one")
    parser.add_argument(
        "--http-port", type=int, help=f"for /metrics and /health; {HTTP_PORT}, or a free one where that is taken"
    )
    parser.add_argument("--token-file", help="lines of name:sha256hex; callers then need a token")
    parser.add_argument("--tls-cert", help="the server's certificate, PEM")
    parser.add_argument("--tls-key", help="its key, PEM")
    parser.add_argument("--tls-ca", help="who signs client certificates, PEM; callers then need one")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is worth a line")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="words, or JSON for a collector")
    parser.add_argument("--access-log", action="store_true", help="a line for each request")
    parser.add_argument("--slow-call", metavar="TIME", help="a warning for each call that takes as long: 1s, 500ms")
    parser.add_argument("--insecure", action="store_true", help="listen beyond loopback without asking who calls")
    parser.add_argument(
        "--set", action="append", default=[], type=_setting, metavar="NAME=VALUE", help="a setting, by dotted name"
    )
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("a setting is name=value")
    return name, value


if __name__ == "__main__":
    sys.exit(main())
