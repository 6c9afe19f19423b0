"""Small files of object stores and servers, fetched ahead by several threads.

A request takes tens of milliseconds wherever the bytes are, so one file after another is mostly waiting. What is held
is bounded in files and bytes; a file that is larger, or of unknown size, is opened in its turn as before.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import BinaryIO, TypeVar

from drsr.offline.store.source_files import SourceFile

AT_ONCE = 16
"""Requests at the same time."""
_HELD_FILES, _HELD_BYTES = 64, 64 << 20
_LARGEST = 4 << 20

Other = TypeVar("Other")


def fetched_ahead(files: Iterable[tuple[SourceFile, Other]]) -> Iterator[tuple[SourceFile, Other]]:
    """Yield the same files in the same order; the bytes of small remote ones are already there when they are opened.

    A failure appears when the file is opened, as it would without this.
    """
    waiting: deque[tuple[SourceFile, Other, int]] = deque()
    held = 0
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="drsr-fetch") as threads:
        try:
            for file, other in files:
                size = _size_ahead(file)
                if size is not None:
                    file = replace(file, opener=partial(_opened, threads.submit(_bytes_of, file)))
                waiting.append((file, other, size or 0))
                held += size or 0
                while waiting and (len(waiting) >= _HELD_FILES or held > _HELD_BYTES):
                    ready, its_other, its_size = waiting.popleft()
                    held -= its_size
                    yield ready, its_other
            while waiting:
                ready, its_other, _ = waiting.popleft()
                yield ready, its_other
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _size_ahead(file: SourceFile) -> int | None:
    """Return the size of a file that is fetched ahead; None for any other."""
    if not file.in_parallel or file.refused or file.members or file.size is None or file.size > _LARGEST:
        return None
    return file.size


def _bytes_of(file: SourceFile) -> bytes:
    with file.open() as stream:
        return stream.read()


def _opened(fetched: Future[bytes]) -> BinaryIO:
    return io.BufferedReader(io.BytesIO(fetched.result()))
