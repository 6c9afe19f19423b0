"""The proxy's log: one line per request on standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from drsr.proxy.http.exchange import Exchange

NAME = "drsr.proxy"


class TextLines(logging.Formatter):
    """`2026-11-16 12:00:00  POST /v1/messages  200  ...`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S")


class JsonLines(logging.Formatter):
    """One object per line; those about a request have all that is known of it."""

    def format(self, record: logging.LogRecord) -> str:
        about: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        exchange = getattr(record, "exchange", None)
        if isinstance(exchange, Exchange):
            return json.dumps({**about, **exchange.to_json()})
        return json.dumps({**about, "message": record.getMessage()})


def log_to_stderr(*, as_json: bool, quiet: bool) -> None:
    """Set the log up for this process. `quiet` leaves only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    for name in ("drsr", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("drsr").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for name in ("httpcore", "httpx"):  # in detail they log headers
        logging.getLogger(name).setLevel(logging.WARNING)
