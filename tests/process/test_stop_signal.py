"""A server hears the signal to stop whatever its main thread does when that comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import signal, sys, threading, time
from penstock.server.__main__ import run
from penstock.server.serve import serve

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())


def send() -> None:
    # Once the main thread waits: the signal comes to this thread, and does not wake the other one.
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name not in ("wait", "run"):
        time.sleep(0.01)
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    threading.Event().wait()


server = serve(sys.argv[1])
threading.Thread(target=send, daemon=True).start()
sys.exit(run(server, stop))
"""


def test_signal_that_wakes_nobody_is_heard_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "data")]
    ended = subprocess.run(command, check=False, timeout=30, capture_output=True)

    assert (ended.returncode, ended.stderr) == (0, b"")
