"""How the lines of a server's log look: words for people, or an object of JSON for a collector."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final, TextIO

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
TEXT: Final = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and the facts of a request by their names."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        facts = getattr(record, "facts", None)
        if isinstance(facts, dict):
            line |= facts
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def write_log(level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Have this process write its log to stderr, from a level on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(TEXT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Of others' libraries, only what is worth knowing: their words at debug are no part of this log.
    logging.getLogger("penstock").setLevel(level.upper())
    if level in ("warning", "error"):
        logging.getLogger().setLevel(level.upper())
