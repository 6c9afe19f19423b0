"""Receipts in a file: one JSON record per line, appended whole, by any number of processes at once.

policy = load_policy(folder, receipts=ReceiptFile("receipts.jsonl"))
record = find_receipt(Path("receipts.jsonl"), "3f2a")       # by the beginning of the decision's id
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.errors import ReceiptError
from drsr.receipts.receipt import FORMAT

if TYPE_CHECKING:
    from drsr.policy.answer import Decision

try:
    import fcntl
except ImportError:  # not on Windows; there, one process per file
    fcntl = None  # type: ignore[assignment]


class ReceiptFile:
    """Append the receipt of every decision passed to it."""

    def __init__(self, path: str | os.PathLike[str], *, keep_text: bool = False) -> None:
        """`keep_text` writes the request before and after into each receipt: what `drsr restore` needs, and a copy of
        everything that the agent said and saw."""
        self.path = Path(path)
        self.keep_text = keep_text

    def check_writable(self) -> None:
        """Raise ReceiptError if the file can be neither appended to nor created. Leaves an empty file."""
        try:
            os.close(_opened(self.path, private=self.keep_text))
        except OSError as error:
            raise ReceiptError(
                f"receipts cannot be written there: {error.strerror}", where=str(self.path), hint="name another file"
            ) from None

    def __call__(self, decision: Decision) -> None:
        append_line(self.path, self._line(decision), private=self.keep_text)

    def _line(self, decision: Decision) -> bytes:
        if not self.keep_text:
            return _encoded(decision.receipt)
        try:
            return _encoded(decision.receipt_with_text())
        except (TypeError, ValueError, RecursionError) as error:  # what was handed in is not JSON
            return _encoded({**decision.receipt, "text_not_kept": type(error).__name__})


def _encoded(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def append_line(path: Path, line: bytes, *, private: bool = False) -> None:
    """Append one line, whole or not at all. A `private` one is not written where others could read it."""
    descriptor = _opened(path, private=private)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # released when the file is closed
        size = os.fstat(descriptor).st_size
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BaseException:  # a full disk: leave no half of a line
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _opened(path: Path, *, private: bool) -> int:
    """Open a file to append to. With text, receipts hold whatever the agent has seen: then OSError for a link, and for
    a file that was there before and that others can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = os.open(path, flags | (getattr(os, "O_NOFOLLOW", 0) if private else 0), 0o600)
    if private and os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
        os.close(descriptor)
        raise PermissionError(errno.EACCES, "it would hold text, and others can read it (chmod 600)")
    return descriptor


def read_receipts(path: Path) -> Iterator[dict[str, Any]]:
    """Return every record, oldest first. Raise ReceiptError naming the first line that is not a record."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _record(line, f"{path}:{number}")
    except OSError as error:
        raise ReceiptError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            hint="name the file that receipts were written to with --receipts",
        ) from None


def find_receipt(path: Path, decision_id: str) -> dict[str, Any]:
    """Return the record whose id begins like this."""
    found = [record for record in read_receipts(path) if record["id"].startswith(decision_id)]
    ids = sorted({record["id"] for record in found})
    if not ids:
        raise ReceiptError(f"no decision {decision_id!r}", where=str(path), hint="every line's field `id` is one")
    if len(ids) > 1:
        raise ReceiptError(f"{len(ids)} decisions begin with {decision_id!r}", where=str(path), hint=", ".join(ids[:4]))
    return found[-1]


def _record(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ReceiptError(f"not JSON: {error}", where=where) from None
    if not isinstance(record, dict) or record.get("format") != FORMAT or not isinstance(record.get("id"), str):
        raise ReceiptError(f"not a receipt of format {FORMAT}", where=where)
    return record
