"""What every task took, on disk: one line per task, method and seed.

{"format": "drsr tasks results/2", "manifest": ..., "agent": ..., ...}
{"told": ["--tasks", "sandbox", "--limit", "4", ...]}      one per command that ran what follows it
{"task": ..., "method": ..., "reward": ..., "sent": [[input, output, cache read, ...], ...], ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from drsr.offline.evaluation.harness.episode import Episode
from drsr.offline.evaluation.journal import Journal, Json, Kind, read_journal


class Told(NamedTuple):
    """What a run was asked for."""

    told: tuple[str, ...]
    """The options of `drsr evaluate`, without secrets."""


def _line(value: Json) -> Episode | Told:
    return Told(tuple(value["told"])) if "told" in value else Episode.from_json(value)


RESULTS: Kind[Episode | Told] = Kind("drsr tasks results/2", "results of tasks", "drsr evaluate --tasks", _line)
Key = tuple[str, str, str, int]
"""Task, method, its version, seed."""


class ResultsFile(Journal[Episode | Told]):
    """One run's results."""

    def __init__(self, path: Path, about: Json) -> None:
        super().__init__(path, RESULTS, about)
        found = _results(self.about, self.rows)
        self.episodes, self._told = found.episodes, set(found.told)
        self.append([])  # a task can take an hour: whoever else writes here learns it now

    def tell(self, told: Sequence[str]) -> None:
        """Keep what this run was asked for; nothing is written where a run before was asked for the same."""
        if tuple(told) not in self._told:
            self.append([{"told": list(told)}])
            self._told.add(tuple(told))

    def done(self) -> set[Key]:
        return {key_of(episode) for episode in self.episodes}

    def add(self, episode: Episode) -> None:
        self.append([episode.to_json()])
        self.episodes.append(episode)


def key_of(episode: Episode) -> Key:
    return (episode.task, episode.method, episode.version, episode.seed)


class TaskResults(NamedTuple):
    """A file's results."""

    about: Json
    """What they depend on."""
    episodes: list[Episode]
    told: list[tuple[str, ...]]
    """What each of the runs that made it was asked for."""


def read_results(path: Path) -> TaskResults:
    """What a file has, in the order in which it was run."""
    return _results(*read_journal(path, RESULTS))


def _results(about: Json, lines: Sequence[Episode | Told]) -> TaskResults:
    return TaskResults(
        about,
        [line for line in lines if isinstance(line, Episode)],
        [line.told for line in lines if isinstance(line, Told)],
    )


def latest_fits(episodes: Sequence[Episode]) -> list[Episode]:
    """Without results of earlier fits of a method: the mean of two policies is no policy's."""
    latest = {episode.method: episode.version for episode in episodes}
    return [episode for episode in episodes if episode.version == latest[episode.method]]
