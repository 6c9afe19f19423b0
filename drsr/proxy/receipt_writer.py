"""Receipts of the proxy's decisions, appended by a separate thread, so that a slow disk delays no request."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from drsr.policy.answer import Decision
from drsr.proxy.worker_pool import WorkerPool
from drsr.receipts.receipt_file import ReceiptFile, append_line

QUEUE = 1_000
"""Receipts that may wait for the disk. Further ones are dropped, and counted."""

_log = logging.getLogger("drsr.proxy")


class ReceiptWriter:
    """Every line is a receipt as `drsr explain` reads it, with a field `proxy` about what became of the request."""

    def __init__(self, path: Path, *, keep_text: bool, counted: Callable[[str], None] = lambda outcome: None) -> None:
        """`counted` is called with `written`, `failed` or `dropped` for each, from any thread. Raise ReceiptError if
        the file cannot be written."""
        ReceiptFile(path, keep_text=keep_text).check_writable()
        self._path = path
        self._keep_text = keep_text
        self._counted = counted
        self._pool = WorkerPool("drsr-receipts", workers=1, queue=QUEUE)

    def record(self, decision: Decision) -> dict[str, Any]:
        """Queue for writing the data of a decision that its receipt is built from."""
        return decision.receipt_with_text() if self._keep_text else decision.receipt

    def write(self, receipt: dict[str, Any], proxy: dict[str, Any]) -> None:
        """Append it, soon. Never raises: a full disk must not stop an agent."""
        if self._pool.submit(partial(self._append, {**receipt, "proxy": proxy})) is None:
            self._failed(receipt, "dropped", "too many wait for the disk")

    def close(self) -> None:
        """Waits until all are written."""
        self._pool.close(finish=True)

    def _append(self, receipt: dict[str, Any]) -> None:
        try:
            append_line(
                self._path,
                json.dumps(receipt, ensure_ascii=False, separators=(",", ":")).encode(),
                private=self._keep_text,
            )
        except Exception as error:  # its text could quote the request
            self._failed(receipt, "failed", type(error).__name__)
        else:
            self._counted("written")

    def _failed(self, receipt: dict[str, Any], outcome: str, why: str) -> None:
        self._counted(outcome)
        _log.warning("the receipt of decision %s was not kept: %s", receipt["id"], why)
