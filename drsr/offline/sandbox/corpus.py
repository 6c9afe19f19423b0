"""All task families together: the corpus as a stream of trajectories, and the file that is committed.

The file is gzipped JSONL, one object per line:

    {"drsr_sandbox": 1, "id": ..., "task": "domain/family/instance", "domain": ..., "reward": ..., "request": {...}}

`request` is an OpenAI chat request body with the whole conversation: `messages` and `tools`.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from drsr.errors import InputError
from drsr.files import write_atomically
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.sandbox.code import config_move, crash, failing_test, rename, version_conflict
from drsr.offline.sandbox.family import Family
from drsr.offline.sandbox.office import duplicate_customer, expenses, meeting, open_balance, reorder
from drsr.offline.sandbox.recorder import Task, record
from drsr.offline.sandbox.security import (
    brute_force,
    leaked_secret,
    stolen_session,
    tampered_file,
    vulnerable_package,
)
from drsr.offline.sandbox.web import booking, broken_link, order, price_compare, support_ticket

SEED = 551
COUNT = 48
"""The committed corpus: two or three instances of each of the twenty families. The seed is one with which the split
by hash gives validation and test six trajectories each, of all four domains."""
FORMAT_VERSION = 1
SAMPLE_NUMBER, SAMPLE_STEPS = 36, 6
"""The decision that is bundled as an example: which trajectory, after how many Steps. Its candidates are evidence,
noise, and two Blocks with the same fact."""

Json = dict[str, Any]

# One family of each domain in turn, so that the first trajectories of a corpus are balanced, however few are taken.
FAMILIES: tuple[Family, ...] = tuple(
    module.FAMILY
    for module in (
        failing_test, open_balance, brute_force, order,
        crash, meeting, leaked_secret, booking,
        rename, reorder, tampered_file, support_ticket,
        config_move, expenses, vulnerable_package, price_compare,
        version_conflict, duplicate_customer, stolen_session, broken_link,
    )
)  # fmt: skip


class Written(NamedTuple):
    """A corpus that was written."""

    trajectories: int
    sha256: str
    """Of the uncompressed JSONL."""
    bytes: int
    """Of the uncompressed JSONL."""


class Difference(NamedTuple):
    """The first place in which two corpora differ."""

    line: int
    """Counted from 1."""
    recorded: str | None
    """Newly recorded JSON line; None if recording ended before."""
    committed: str | None
    """Line of the file; None if it ended before."""


def corpus_tasks(seed: int = SEED, count: int = COUNT) -> list[Task]:
    """Return the tasks of a corpus, in order."""
    return [Task(FAMILIES[n % len(FAMILIES)], seed, n // len(FAMILIES)) for n in range(count)]


def record_corpus(seed: int = SEED, count: int = COUNT) -> Iterator[Trajectory]:
    """Record the corpus, one trajectory after the other."""
    for number, task in enumerate(corpus_tasks(seed, count)):
        yield record(task, number)


def to_line(trajectory: Trajectory) -> bytes:
    """Return one line of the corpus file, without its newline."""
    return orjson.dumps(
        {
            "drsr_sandbox": FORMAT_VERSION,
            "id": trajectory.external_id,
            "task": trajectory.task,
            "domain": trajectory.domain,
            "reward": trajectory.reward,
            "request": trajectory.request,
        }
    )


def write_corpus(trajectories: Iterable[Trajectory], path: Path) -> Written:
    """Write the corpus file; the same trajectories give the same bytes. An interrupted run leaves an old file alone."""
    lines = [to_line(trajectory) + b"\n" for trajectory in trajectories]
    data = b"".join(lines)
    if not path.parent.is_dir():  # before anything is made: a mistyped place stays as it is
        raise InputError("cannot be written: no such folder", where=str(path))
    try:
        # No time stamp and no file name in the header: both would make the bytes differ from run to run.
        write_atomically(path, gzip.compress(data, compresslevel=9, mtime=0))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None
    return Written(len(lines), hashlib.sha256(data).hexdigest(), len(data))


def write_sample(path: Path, request_path: Path, output_path: Path) -> None:
    """Write the bundled decision of the corpus file at `path`: the request, and the message that came next."""
    request = orjson.loads(read_lines(path)[SAMPLE_NUMBER])["request"]
    messages = request["messages"]
    cut = [place for place, message in enumerate(messages) if message["role"] == "assistant"][SAMPLE_STEPS]
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    request_path.write_bytes(orjson.dumps({"messages": messages[:cut], "tools": request["tools"]}, option=option))
    output_path.write_bytes(orjson.dumps(messages[cut], option=option))


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a corpus file."""
    try:
        return gzip.decompress(path.read_bytes()).splitlines()
    except FileNotFoundError:
        raise InputError("no such file", where=str(path), hint="record it with `drsr sandbox record`") from None
    except (OSError, EOFError) as error:
        raise InputError(f"not a gzipped corpus: {error}", where=str(path)) from None


def compare_corpus(trajectories: Iterable[Trajectory], path: Path) -> Difference | None:
    """Return the first line in which a file differs from these trajectories; None if they agree."""
    committed = read_lines(path)
    recorded = 0
    for recorded, trajectory in enumerate(trajectories, start=1):
        line = to_line(trajectory)
        there = committed[recorded - 1] if recorded <= len(committed) else None
        if line != there:
            return Difference(recorded, line.decode(), None if there is None else there.decode())
    if recorded < len(committed):
        return Difference(recorded + 1, None, committed[recorded].decode())
    return None
