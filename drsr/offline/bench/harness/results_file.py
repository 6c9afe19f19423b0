"""The results file of whole tasks: one line per task, method and seed.

{"format": "drsr tasks results/3", "manifest": ..., "agent": ..., ...}
{"told": ["--tasks", "sandbox", ...], "versions": {"drsr": ...}}    one per command that asked for something else
{"task": ..., "method": ..., "reward": ..., "sent": [[input, output, cache read, ...], ...], ...}

A method that was fitted again has results of several versions. The version requested last counts, even if all its
results already existed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from drsr.errors import InputError
from drsr.offline.bench.harness.episode import Episode
from drsr.offline.bench.replay.journal import Journal, Json, Kind, read_journal


class Told(NamedTuple):
    """The options that a run was asked for."""

    told: tuple[str, ...]
    """The options of `drsr evaluate`, without secrets."""
    versions: Mapping[str, str]
    """Versions of the methods that it asked for."""


def _line(value: Json) -> Episode | Told:
    return Told(tuple(value["told"]), value["versions"]) if "told" in value else Episode.from_json(value)


RESULTS: Kind[Episode | Told] = Kind("drsr tasks results/3", "results of tasks", "drsr evaluate --tasks", _line)
NOT_RUN = "the version that was asked for last was not run yet: drsr evaluate --tasks with the same file does"
Key = tuple[str, str, str, int]
"""Task, method, its version, seed."""


class ResultsFile(Journal[Episode | Told]):
    """One run's results."""

    def __init__(self, path: Path, about: Json) -> None:
        super().__init__(path, RESULTS, about)
        self.episodes = _results(self.about, self.rows).episodes
        self._told = next((line for line in reversed(self.rows) if isinstance(line, Told)), None)
        self.append([])  # a task can take an hour: whoever else writes here learns it now

    def tell(self, told: Sequence[str], versions: Mapping[str, str]) -> None:
        """Record what this run was asked for; nothing is written if the previous run was asked for the same."""
        line = Told(tuple(told), dict(versions))
        if line != self._told:
            self.append([line._asdict()])
            self._told = line

    def done(self) -> set[Key]:
        return {key_of(episode) for episode in self.episodes}

    def add(self, episode: Episode) -> None:
        self.append([episode.to_json()])
        self.episodes.append(episode)

    def merge(self, paths: Sequence[Path]) -> int:
        """Take over the results that other files have and this one lacks, all or none; return their number."""
        there = {key_of(episode): episode for episode in self.episodes}
        new: dict[Key, Episode] = {}
        for path in paths:
            about, lines = read_journal(path, RESULTS)
            self.refuse_other(about, path, hint="only results of the same tasks, agent and settings can be merged")
            for episode in (line for line in lines if isinstance(line, Episode)):
                key = key_of(episode)
                if (there | new).get(key, episode) != episode:
                    raise InputError(
                        f"task {episode.task!r} with method {episode.method!r} was run twice, with different results",
                        where=str(path),
                        hint="give each machine its own part: --part 1/2 and --part 2/2",
                    )
                if key not in there:
                    new[key] = episode
        self.append([episode.to_json() for episode in new.values()])
        self.episodes += new.values()
        return len(new)


def key_of(episode: Episode) -> Key:
    return (episode.task, episode.method, episode.version, episode.seed)


class TaskResults(NamedTuple):
    """A file's results."""

    about: Json
    """Everything that the results depend on."""
    episodes: list[Episode]
    told: list[tuple[str, ...]]
    """Command lines of the runs that made it, in order; of identical ones the last."""
    versions: Mapping[str, str]
    """Version of each method that was asked for last."""

    @property
    def latest(self) -> list[Episode]:
        """Return the results without those of other versions of a method: the mean of two policies describes
        neither."""
        versions = {episode.method: episode.version for episode in self.episodes} | dict(self.versions)
        return [episode for episode in self.episodes if episode.version == versions[episode.method]]

    @property
    def not_run(self) -> dict[str, str]:
        """Return the titles of methods that have results, but none of the version asked for last, and what to do."""
        there = {episode.method for episode in self.latest}
        missing = dict.fromkeys(episode.title for episode in self.episodes if episode.method not in there)
        return dict.fromkeys(missing, NOT_RUN)


def read_results(path: Path) -> TaskResults:
    """Return what a file has, in the order in which it was run."""
    return _results(*read_journal(path, RESULTS))


def _results(about: Json, lines: Sequence[Episode | Told]) -> TaskResults:
    told = [line for line in lines if isinstance(line, Told)]
    last_first = dict.fromkeys(line.told for line in reversed(told))
    return TaskResults(
        about,
        [line for line in lines if isinstance(line, Episode)],
        list(reversed(last_first)),
        {method: version for line in told for method, version in line.versions.items()},
    )
