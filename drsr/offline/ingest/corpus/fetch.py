"""Fetch a corpus into a folder, each file verified before it gets its name."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from drsr.errors import InputError
from drsr.offline.ingest.corpus.origins import Mirror, Origin, Stopped, Unavailable, cannot_write
from drsr.offline.ingest.corpus.table import Corpus, CorpusFile

try:
    import fcntl
except ImportError:  # Windows: whoever fetches twice at once downloads twice
    fcntl = None  # type: ignore[assignment]

DOWNLOADS = 8
"""Files that are under way at once."""
_PARTIAL = ".partial"
_LOCK = ".fetch.lock"
Presence = Literal["here", "missing", "altered"]


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that could not be had as the table describes it."""

    file: CorpusFile
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch."""

    corpus: str
    folder: Path
    files: int
    kept: int
    """Files that were there already."""
    fetched: int
    bytes: int
    """Bytes of the files that were fetched."""
    refused: tuple[Refused, ...]
    """In the order of the table."""

    def to_json(self) -> dict[str, Any]:
        return {
            "corpus": self.corpus,
            "folder": str(self.folder),
            "files": self.files,
            "kept": self.kept,
            "fetched": self.fetched,
            "bytes": self.bytes,
            "refused": [
                {"reason": found.reason, "detail": found.detail, **named(found.file)} for found in self.refused
            ],
        }


def named(file: CorpusFile) -> dict[str, str]:
    """Return what a file is called and where it was published."""
    return {"file": file.local, "repository": file.repository, "commit": file.commit, "path": file.path}


def default_folder(name: str) -> Path:
    """Return where a corpus is fetched to, below the working directory."""
    return Path("var") / "corpora" / name


def fetch_corpus(
    corpus: Corpus,
    folder: Path,
    origin: Origin,
    *,
    sources: Sequence[str] = (),
    progress: Callable[[int, int, int], None] = lambda files, total, size: None,
) -> Fetched:
    """Put every file of these sources, by default of all, below `folder`. Files that are present are kept.

    What cannot be had is named in `refused`, and nothing of it remains. `progress` is called with the files done, all
    files, and the bytes fetched. Raises InputError or SourceUnreachable where no further file can be had either.
    """
    files = corpus.of_sources(sources)
    if isinstance(origin, Mirror) and origin.folder.resolve() == folder.resolve():
        raise InputError("the mirror and the folder to fetch to are the same", where=str(folder))
    refused: dict[str, Refused] = {}
    done = kept = size = 0
    with _alone_in(folder) as partial:
        for file, outcome in _outcomes(files, folder, partial, origin):
            done += 1
            if isinstance(outcome, Refused):
                refused[file.local] = outcome
            else:
                kept += not outcome
                size += file.bytes if outcome else 0
            progress(done, len(files), size)
    listed = tuple(refused[file.local] for file in files if file.local in refused)
    return Fetched(corpus.name, folder, len(files), kept, len(files) - kept - len(listed), size, listed)


def presence(file: CorpusFile, folder: Path) -> Presence:
    """Say whether a file is below the folder with the bytes its row asks for. Raises InputError if it is unreadable."""
    path = folder / file.local
    try:
        if not os.path.lexists(path):
            return "missing"
        if not path.is_file() or path.stat().st_size != file.bytes:
            return "altered"
        with path.open("rb") as stream:
            return "here" if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256 else "altered"
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def require_whole(corpus: Corpus, folder: Path) -> None:
    """Refuse a folder in which a file of the corpus is missing or altered. Raises InputError that names the first."""
    wrong = [(file, found) for file in corpus.files if (found := presence(file, folder)) != "here"]
    if wrong:
        (file, found), more = wrong[0], f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        hint = f"drsr corpus fetch {corpus.name} --to {folder}; drsr corpus check {corpus.name} --to {folder} lists all"
        raise InputError(f"{file.local} is {found}{more}: {file.origin}", where=str(folder), hint=hint)


@contextmanager
def _alone_in(folder: Path) -> Iterator[Path]:
    """Give a folder for unfinished files. What a killed fetch left there is removed; a second fetch is refused."""
    partial = folder / _PARTIAL
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("wb")
    except OSError as error:
        raise cannot_write(folder, error) from None
    with lock:  # closing it lets go of it, and so does the end of the process, however it ended
        if fcntl is not None:
            try:
                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                hint = "wait until it is done, or name another folder with --to"
                raise InputError("another fetch is filling this folder", where=str(folder), hint=hint) from None
        _remove(partial)
        partial.mkdir()
        try:
            yield partial
        finally:
            _remove(partial)


def _remove(partial: Path) -> None:
    if partial.exists():
        shutil.rmtree(partial)


def _outcomes(
    files: Sequence[CorpusFile], folder: Path, partial: Path, origin: Origin
) -> Iterator[tuple[CorpusFile, bool | Refused]]:
    """Yield every finished file, and whether it was fetched; False if it was present."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="fetch")
    try:
        under_way: dict[Future[bool | Refused], CorpusFile] = {
            pool.submit(_settle, file, folder, partial / str(number), origin, stop): file
            for number, file in enumerate(files)
        }
        for future in as_completed(under_way):
            yield under_way[future], future.result()
    finally:  # also where one failed, or the person at the terminal has had enough
        stop.set()
        pool.shutdown(cancel_futures=True)


def _settle(file: CorpusFile, folder: Path, partial: Path, origin: Origin, stop: threading.Event) -> bool | Refused:
    if stop.is_set():
        raise Stopped
    found = presence(file, folder)
    if found == "here":
        return False
    target = folder / file.local
    try:
        if found == "altered":
            target.unlink()  # whatever comes of it, it must not be taken for a file of the corpus
        origin.bring(file, partial, stop)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, target)
    except Unavailable as trouble:
        partial.unlink(missing_ok=True)
        return Refused(file, trouble.reason, trouble.detail)
    except OSError as error:
        raise cannot_write(target, error) from None
    return True
