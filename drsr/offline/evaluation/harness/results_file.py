"""What every task took, on disk: JSON lines, one per task, method and seed, appended whole; a run can be killed.

    {"format": "drsr tasks results/1", "manifest": ..., "agent": ..., ...}
    {"task": ..., "method": ..., "reward": ..., "sent": [[input, output, cache read, ...], ...], ...}

The first line says what the others depend on; what depends on something else is refused, never mixed in. A killed run
leaves the beginning of the file that it would have written: run again, it becomes the same file, byte for byte.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import ArtifactCorrupt, InputError
from drsr.offline.evaluation.harness.episode import Episode

FORMAT = "drsr tasks results/1"
Json = dict[str, Any]
Key = tuple[str, str, str, int]
"""Task, method, its version, seed."""


class ResultsFile:
    """One run's results. Opening it reads what is there and cuts off a line that was not written to its end."""

    def __init__(self, path: Path, about: Json) -> None:
        self.path = path
        self.about = {"format": FORMAT, **about}
        self.episodes: list[Episode] = []
        found, self.episodes, complete = _read(path) if path.exists() else (None, [], 0)
        if found is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            _append(path, self.about)
            return
        for name in sorted(self.about.keys() | found.keys()):
            if found.get(name) != self.about.get(name):
                raise InputError(
                    f"was made with {name} {found.get(name)!r}, this run has {self.about.get(name)!r}",
                    where=str(path),
                    hint="name another file with --output, or remove this one",
                )
        if complete < path.stat().st_size:
            os.truncate(path, complete)

    def done(self) -> set[Key]:
        return {key_of(episode) for episode in self.episodes}

    def add(self, episode: Episode) -> None:
        _append(self.path, episode.to_json())
        self.episodes.append(episode)


def key_of(episode: Episode) -> Key:
    return (episode.task, episode.method, episode.version, episode.seed)


class TaskResults(NamedTuple):
    """A file's results."""

    about: Json
    """What they depend on."""
    episodes: list[Episode]


def read_results(path: Path) -> TaskResults:
    """What a file has, in the order in which it was run."""
    about, episodes, _ = _read(path) if path.exists() else (None, [], 0)
    if about is None:
        raise InputError("there are no results here", where=str(path), hint="drsr evaluate --tasks makes them")
    return TaskResults(about, episodes)


def latest_fits(episodes: Sequence[Episode]) -> list[Episode]:
    """Without results of earlier fits of a method: the mean of two policies is no policy's."""
    latest = {episode.method: episode.version for episode in episodes}
    return [episode for episode in episodes if episode.version == latest[episode.method]]


def _read(path: Path) -> tuple[Json | None, list[Episode], int]:
    """Header, results, and how many bytes hold complete lines; no header where not even that was finished."""
    data = path.read_bytes()
    complete = data.rfind(b"\n") + 1
    lines = data[:complete].splitlines()
    if not lines and _begins_header(data):
        return None, [], 0
    try:
        about: Json = json.loads(lines[0])
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
        return about, [Episode.from_json(json.loads(line)) for line in lines[1:]], complete
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ArtifactCorrupt(
            f"holds no results of tasks: {error}", where=str(path), hint="remove it and run again"
        ) from None


def _begins_header(data: bytes) -> bool:
    """Whether these bytes are a header that was not written to its end."""
    start = json.dumps({"format": FORMAT}).encode()[:-1]
    return data.startswith(start) or start.startswith(data)


def _append(path: Path, value: Json) -> None:
    with path.open("ab") as file:
        file.write(json.dumps(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
