"""A server over a data directory, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.home.memory_budget import MemoryBudget
from penstock.engine.settings import Settings
from penstock.model.words.quantity import parse_duration_ms
from penstock.runtime.packages import needs_engine
from penstock.server.settings import ServerSettings

if TYPE_CHECKING:
    from penstock.server.server import Server


def serve(
    directory: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    http_port: int | None = 0,
    any_http_port: bool = False,
    token_file: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    tls_ca: str | Path | None = None,
    insecure: bool = False,
    settings: Settings | Mapping[str, Any] | None = None,
    access_log: bool = False,
    slow_call: str | timedelta | None = None,
) -> Server:
    """Open a data directory and serve it; port 0 takes a free one, no HTTP port means no HTTP.

    With `any_http_port` a free one will do where the HTTP port is taken. With `access_log` the logger
    `penstock.requests` gets a line for each request, else at its level debug only; a call that took `slow_call` or
    longer is a warning there.

    Raises:
        InvalidError: a setting or certificate does not fit, or callers would not be identified.
        DirectoryInUseError: another process holds the directory.
        UnavailableError: a port is taken.
        UnsupportedError: only the client is installed.
    """
    # Here, not above: the client comes without the packages that these need.
    with needs_engine("a server"):
        from penstock.engine.engine import Engine  # noqa: PLC0415
        from penstock.server.calls.request_log import RequestLog  # noqa: PLC0415
        from penstock.server.server import Listen, Server  # noqa: PLC0415
    slow_call_ms = None if slow_call is None else parse_duration_ms(slow_call)
    # Before the directory is touched: what cannot be listened on need not be opened.
    listen = Listen(
        host=host,
        port=port,
        http_port=http_port,
        any_http_port=any_http_port,
        token_file=token_file,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_ca=tls_ca,
        insecure=insecure,
    )
    known = (
        settings
        if isinstance(settings, Settings)
        else Settings.load(Path(directory) / "penstock.toml", overrides=settings)
    )
    engine = Engine.open(directory, known)
    try:
        budget = MemoryBudget.of(known)
        limits = ServerSettings(
            request_bytes_max=min(known.request_bytes_max, budget.requests // 8),
            call_bytes_max=min(known.call_bytes_max, budget.uploads),
            memory_bytes_max=budget.requests,
            peer_memory_bytes_max=min(256 << 20, budget.requests),
        )
        return Server(
            engine,
            listen,
            settings=limits,
            metrics=engine.metrics,
            on_page=engine.scan.read_ahead,
            on_gone=engine.scan.forsake,
            directory=directory,
            requests=RequestLog(engine, access_log=access_log, slow_call_ms=slow_call_ms),
        )
    except BaseException:
        engine.close()
        raise
