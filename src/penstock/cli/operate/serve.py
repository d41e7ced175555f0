"""`penstock serve`: a server as a process, in the foreground."""

from __future__ import annotations

import signal
import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal.options import read_pairs
from penstock.cli.terminal.words import examples
from penstock.model.node.ports import FLIGHT_PORT, HTTP_PORT

_SECURITY = "Security"
_LOGGING = "Logging"


class LogLevel(StrEnum):
    """From what on the log has a line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


app = typer.Typer(rich_markup_mode="rich", add_completion=False)


@app.command(
    epilog=examples(
        "penstock serve --data ./data",
        "penstock serve --data ./data --port 0 --http-port 0",
        "penstock serve --data ./data --set kv.scanner.ttl=30s --set log.segment-bytes=16MB",
        "penstock serve --data ./data --access-log --log-format json --slow-call 1s",
        "penstock serve --data ./data --host 0.0.0.0 --token-file tokens --tls-cert server.pem --tls-key server.key",
    )
)
def serve(
    *,
    data: Annotated[Path, typer.Option(metavar="DIR", help="The data directory; created if absent.", file_okay=False)],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="For calls; 0 takes a free one.")] = FLIGHT_PORT,
    http_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help=f"For /metrics and /health; {HTTP_PORT}, or a free one where that is taken or for 0."
        ),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, by dotted name; may be repeated."),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="What is worth a line on stderr.", rich_help_panel=_LOGGING)
    ] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat, typer.Option(help="Words, or an object of JSON a line.", rich_help_panel=_LOGGING)
    ] = LogFormat.TEXT,
    access_log: Annotated[
        bool,
        typer.Option(
            "--access-log",
            help="A line for each request: caller, call, tables, milliseconds, bytes, result.",
            rich_help_panel=_LOGGING,
        ),
    ] = False,
    slow_call: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Warn of each call that takes as long: 1s, 500ms. Default: never.",
            rich_help_panel=_LOGGING,
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Lines of name:sha256hex; callers then need a token.", rich_help_panel=_SECURITY),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="The server's certificate, PEM.", rich_help_panel=_SECURITY)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.", rich_help_panel=_SECURITY)] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(help="Certificates to trust for clients, PEM; callers then need one.", rich_help_panel=_SECURITY),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Listen beyond loopback without tokens or client certificates.",
            rich_help_panel=_SECURITY,
        ),
    ] = False,
) -> None:
    """Serve a data directory to others.

    Says on stdout when it is ready and where. SIGTERM or Ctrl-C lets calls in flight end, then stops.
    Settings come from penstock.toml in the directory, then PENSTOCK_... variables, then --set.
    """
    # Here, not above: the help needs no engine.
    from penstock.server.__main__ import run  # noqa: PLC0415
    from penstock.server.log_lines import write_log  # noqa: PLC0415
    from penstock.server.serve import serve as start  # noqa: PLC0415

    settings = read_pairs(set or [], "--set")
    write_log(log_level.value, log_format.value)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = start(
        data,
        host=host,
        port=port,
        http_port=HTTP_PORT if http_port is None else http_port,
        any_http_port=http_port is None,
        token_file=token_file,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_ca=tls_ca,
        insecure=insecure,
        settings=settings,
        access_log=access_log,
        slow_call=slow_call,
    )
    raise typer.Exit(run(server, stop))
