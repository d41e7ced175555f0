"""The way to the server, one for each process: a reused Python worker goes on with its connection.

While the server is away calls are tried again, and every ten seconds a line says so: a job that waits
in silence looks like one that hangs.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import time
from collections.abc import Callable
from typing import Final

from pyspark import TaskContext

from penstock.client.link.link import Link
from penstock.client.link.retry import Retry
from penstock.client.remote.node import RemoteNode
from penstock.spark.session.options import Options

_log = logging.getLogger("penstock.spark")

PLAN_RETRY_MS: Final = 30_000
"""How long planning a batch read or write waits for the server: a person is watching."""

SAY_EVERY_SECONDS: Final = 10.0
_NEW_WAIT_SECONDS: Final = 5.0
_links: dict[tuple[object, ...], Link] = {}


class ServerWait:
    """Sleeps between tries, and says every ten seconds that it does."""

    def __init__(
        self,
        url: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._url = url
        self._monotonic = monotonic
        self._sleep = sleep
        self._since = self._said = 0.0
        self._last = -math.inf

    def __call__(self, seconds: float) -> None:
        """Sleep; calls that follow soon after each other are one wait."""
        now = self._monotonic()
        if now - self._last > _NEW_WAIT_SECONDS:
            self._since = self._said = now
        elif now - self._said >= SAY_EVERY_SECONDS:
            self._said = now
            _log.warning("waiting for the server, trying again url=%s seconds=%d", self._url, now - self._since)
        self._sleep(seconds)
        self._last = self._monotonic()


def link_for(options: Options) -> Link:
    """Return this process's way to the server, for tasks and streams: it waits up to `retryTimeout`."""
    retry_ms = options.duration_ms("retry_timeout")
    assert retry_ms is not None, "it has a default"
    return _link(options, retry_ms)


def planning_link(options: Options) -> Link:
    """Return this process's way to the server, for planning: it gives up after 30 seconds."""
    retry_ms = options.duration_ms("retry_timeout")
    assert retry_ms is not None, "it has a default"
    return _link(options, min(PLAN_RETRY_MS, retry_ms))


def impatient_link(options: Options) -> Link:
    """Return this process's way to the server, for a first look: it tries once."""
    return _link(options, 0)


def _link(options: Options, retry_ms: int) -> Link:
    url, token, tls = options.url, options.get("token"), options.tls
    # A forked worker must not use its parent's connection.
    key = (os.getpid(), url, token, tuple(sorted((tls or {}).items())), retry_ms, options.database)
    link = _links.get(key)
    if link is None or link.closed:
        retry = Retry(deadline_ms=retry_ms, pause=ServerWait(url), tell_every=math.inf, reading_times=1)
        # A session outlives servers: a planner asks whichever there is, and a plan is for the one that answered.
        anyone = options.database is None
        node = RemoteNode(url, token=token, tls=tls, database=options.database, any_database=anyone)
        link = Link(node, url, retry, distant=True)
        _links[key] = link
        _spare_the_collector()
    return link


def _spare_the_collector() -> None:
    """Let a Python worker look only at what is made from now on when it collects garbage, as it does after every task.

    What is loaded by now stays for as long as the worker lives. To look at all of it again took longer than
    many a task.
    """
    if TaskContext.get() is not None:
        gc.freeze()
