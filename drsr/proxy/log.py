"""The proxy's log: one line per request on standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from drsr.proxy.http.exchange import Exchange

LINES_PER_SECOND = 100
"""Lines of one kind; a proxy that is used by hundreds of agents writes fewer."""
KINDS = 1_000
"""Kinds of lines that are counted apart."""


class TextLines(logging.Formatter):
    """`2026-11-16 12:00:00  POST /v1/messages  200  ...`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        left_out = getattr(record, "left_out", 0)
        return super().format(record) + (f"  ({left_out:,} more like this were left out)" if left_out else "")


class JsonLines(logging.Formatter):
    """One object per line; those about a request carry all that is known of it."""

    def format(self, record: logging.LogRecord) -> str:
        about: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if left_out := getattr(record, "left_out", 0):
            about["left_out"] = left_out
        exchange = getattr(record, "exchange", None)
        if isinstance(exchange, Exchange):
            return json.dumps({**about, **exchange.to_json()})
        return json.dumps({**about, "message": record.getMessage()})


class AtMost(logging.Filter):
    """Let at most that many records of one kind through per second, and say afterwards how many were held back: a
    client that makes the proxy complain must not be able to fill the disk."""

    def __init__(self, per_second: int = LINES_PER_SECOND) -> None:
        super().__init__()
        self._per_second = per_second
        self._seen: dict[tuple[str, str], tuple[int, int]] = {}
        """For each kind the second in which it was last seen, and how often in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind, second = (record.name, str(record.msg)[:200]), int(record.created)
        last, count = self._seen.get(kind, (second, 0))
        left_out = max(count - self._per_second, 0) if last != second else 0
        if len(self._seen) >= KINDS:
            self._seen.clear()
        self._seen[kind] = (second, count + 1 if last == second else 1)
        if left_out:
            record.left_out = left_out
        return left_out > 0 or self._seen[kind][1] <= self._per_second


def log_to_stderr(*, as_json: bool, quiet: bool) -> None:
    """Set the log up for this process. `quiet` leaves only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    handler.addFilter(AtMost())
    for name in ("drsr", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("drsr").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for name in ("httpcore", "httpx"):  # in detail they log headers
        logging.getLogger(name).setLevel(logging.WARNING)


def without_text(error: BaseException) -> str:
    """`ValueError in drsr.proxy.decider, line 120`: an exception's text could quote the request, its class and place do
    not."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f" in {trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"
