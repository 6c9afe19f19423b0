"""Summarise a run by method: reward, tokens by the paper's rules, and the change against the baseline.

    task-weighted   every task counts once, as in the paper's Full260
    equal-domain    the mean of the domains' means: every domain counts once, as in its Eval40

All methods are judged on the tasks and seeds that all of them have. If the endpoint refused the baseline from the start
there is no base for a percentage: such tasks count in rewards and totals, but not in changes and savings. If our
tokenizer cannot count what was removed, a task counts in everything except direct removal and savings. Intervals
resample whole tasks, the same ones for both. The change has the paper's sign: negative is a decrease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.harness.episode import OUT_OF_STEPS, Episode
from drsr.offline.bench.harness.manifest import Weighting
from drsr.offline.bench.harness.runs import BASELINE
from drsr.offline.bench.harness.shared_runs import Shared, shared_runs
from drsr.offline.bench.summarisers.token_accounting import Decomposition, Usage, change_percent, decompose
from drsr.offline.train.metrics import Bootstrap, Metric, draw_trajectories, interval, ratios

Floats = NDArray[np.float64]
_GROUPING: dict[Weighting, str] = {"tasks": "mean over tasks", "domains": "mean over domains of means over tasks"}


class Tokens(NamedTuple):
    """Per task, task-weighted means."""

    input: float
    cache_read: float
    """A part of the input."""
    cache_creation: float
    """A part of the input."""
    output: float
    auxiliary_input: float
    auxiliary_output: float

    @property
    def uncached(self) -> float:
        """The rest of the input."""
        return self.input - self.cache_read - self.cache_creation

    @property
    def total(self) -> float:
        """T: cache counts are parts of the input and are not added again."""
        return self.input + self.output + self.auxiliary_input + self.auxiliary_output


class MethodResult(NamedTuple):
    """One method on some tasks."""

    method: str
    title: str
    trained: str
    tasks: int
    compared: int
    """Of these: tasks that the change is of."""
    reward: Mapping[Weighting, Metric]
    total: Mapping[Weighting, Metric]
    """T: input and output of the acting model and of the method's own, per task."""
    change: Mapping[Weighting, Metric] | None
    """Change of T, in per cent; None if there is no baseline to compare with, or its endpoint refused everything."""
    tokens: Tokens
    direct: float | None
    """Tokens removed from requests, per task in which they can be counted; None if they can be counted in none."""
    decomposed: int
    """Number of the compared tasks in which the removed tokens can be counted."""
    decomposition: Decomposition | None
    """T of the baseline less T of the method, per task of these."""
    requests: float
    """Per task."""
    repeated_calls: float
    """Per task: what was fetched again."""
    failed: int
    """Tasks with reward 0."""
    out_of_steps: int
    invalid: int
    fell_back: int
    lost_task: int

    def to_json(self) -> dict[str, Any]:
        """Without NaN, which JSON does not know."""
        found = self._asdict()
        for name in ("reward", "total", "change"):
            if found[name] is not None:
                found[name] = {weighting: metric.to_json() for weighting, metric in found[name].items()}
        found["tokens"] = {**self.tokens._asdict(), "uncached": self.tokens.uncached, "total": self.tokens.total}
        found["decomposition"] = self.decomposition._asdict() if self.decomposition else None
        return found


class Summary(NamedTuple):
    """Everything that some episodes say."""

    methods: list[MethodResult]
    """In the order in which they appear, all on the runs that they share."""
    domains: dict[str, list[MethodResult]]
    """The same for each domain alone: parts of the same results, whatever a domain alone could have more of."""
    shared: Shared
    """Runs that all of this covers, and those left out."""


def summarise(episodes: Sequence[Episode], bootstrap: Bootstrap) -> Summary:
    shared = shared_runs(episodes)
    domains = sorted({episode.domain for episode in shared.episodes})
    return Summary(
        _summarise(shared.episodes, bootstrap),
        {domain: _summarise([one for one in shared.episodes if one.domain == domain], bootstrap) for domain in domains},
        shared,
    )


def _summarise(episodes: Sequence[Episode], bootstrap: Bootstrap) -> list[MethodResult]:
    grouped: dict[str, list[Episode]] = {}
    for episode in episodes:
        grouped.setdefault(episode.method, []).append(episode)
    base = grouped.get(BASELINE, [])
    return [_method(found, base, bootstrap) for found in grouped.values()]


def _method(episodes: Sequence[Episode], base: Sequence[Episode], bootstrap: Bootstrap) -> MethodResult:
    table = _Tasks(episodes, bootstrap)
    totals = table.values(lambda episode: episode.tokens.total)
    read = {episode.task for episode in base if episode.tokens.total}  # of what the endpoint refused is no percentage
    shared = {episode.task for episode in episodes} & read
    paired = _Tasks([episode for episode in episodes if episode.task in shared], bootstrap) if shared else None
    decomposed, decomposition = _decomposition(paired, [one for one in base if one.task in shared])
    return MethodResult(
        method=episodes[0].method,
        title=episodes[0].title,
        trained=episodes[0].trained,
        tasks=len(table.names),
        compared=len(paired.names) if paired else 0,
        reward=table.metrics("reward", table.values(lambda episode: episode.reward)),
        total=table.metrics("tokens", totals),
        change=paired.changes([one for one in base if one.task in shared]) if paired else None,
        tokens=_tokens(table),
        direct=_known_mean(table.values(_direct)),
        decomposed=decomposed,
        decomposition=decomposition,
        requests=table.mean(lambda episode: len(episode.sent)),
        repeated_calls=table.mean(lambda episode: episode.repeated_calls),
        failed=sum(episode.reward == 0 for episode in episodes),
        out_of_steps=sum(episode.ending == OUT_OF_STEPS for episode in episodes),
        invalid=sum(episode.invalid for episode in episodes),
        fell_back=sum(episode.fell_back for episode in episodes),
        lost_task=sum(episode.lost_task for episode in episodes),
    )


def _tokens(table: _Tasks) -> Tokens:
    def acting(part: Callable[[Usage], int]) -> float:
        return table.mean(lambda episode: sum(map(part, episode.tokens.requests)))

    def auxiliary(part: Callable[[Usage], int]) -> float:
        return table.mean(lambda episode: sum(map(part, episode.tokens.auxiliary)))

    return Tokens(
        input=acting(lambda usage: usage.input_tokens),
        cache_read=acting(lambda usage: usage.cache_read_tokens),
        cache_creation=acting(lambda usage: usage.cache_creation_tokens),
        output=acting(lambda usage: usage.output_tokens),
        auxiliary_input=auxiliary(lambda usage: usage.input_tokens),
        auxiliary_output=auxiliary(lambda usage: usage.output_tokens),
    )


def _decomposition(paired: _Tasks | None, base: Sequence[Episode]) -> tuple[int, Decomposition | None]:
    """Return the number of tasks it covers, and how their totals differ."""
    direct = paired.values(_direct) if paired else np.empty(0)
    known = ~np.isnan(direct)
    if paired is None or not known.any():
        return 0, None
    before, after = paired.of(base, _total)[known], paired.values(_total)[known]
    return int(known.sum()), decompose(float(before.mean()), float(after.mean()), float(direct[known].mean()))


def _total(episode: Episode) -> float:
    return episode.tokens.total


def _direct(episode: Episode) -> float:
    """Return the direct removal; NaN if it cannot be counted."""
    found = episode.tokens.direct_removal
    return np.nan if found is None else found


def _known_mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


class _Tasks:
    """Episodes by task: of several seeds their mean."""

    def __init__(self, episodes: Sequence[Episode], bootstrap: Bootstrap) -> None:
        self._episodes = episodes
        self._bootstrap = bootstrap
        domains = {episode.task: episode.domain for episode in episodes}
        self.names = sorted(domains)
        self._domains = np.array([domains[name] for name in self.names])
        self._draws = draw_trajectories(np.arange(len(self.names), dtype=np.int64), bootstrap)

    def of(self, episodes: Sequence[Episode], value: Callable[[Episode], float]) -> Floats:
        """Return one number per task, in the order of their names."""
        found: dict[str, list[float]] = {name: [] for name in self.names}
        for episode in episodes:
            found[episode.task].append(value(episode))
        return np.array([np.mean(values) for values in found.values()])

    def values(self, value: Callable[[Episode], float]) -> Floats:
        return self.of(self._episodes, value)

    def mean(self, value: Callable[[Episode], float]) -> float:
        return float(self.values(value).mean())

    def metrics(self, name: str, values: Floats) -> dict[Weighting, Metric]:
        """Return a mean of tasks, by both weightings."""
        return {
            weighting: self._metric(name, weighting, self._mean(values, weighting), self._drawn(values, weighting))
            for weighting in _GROUPING
        }

    def changes(self, base: Sequence[Episode]) -> dict[Weighting, Metric]:
        """Return 100 (mean T / mean T of the baseline - 1), by both weightings."""
        mine, theirs = self.values(_total), self.of(base, _total)
        found: dict[Weighting, Metric] = {}
        for weighting in _GROUPING:
            change = change_percent(self._mean(mine, weighting), self._mean(theirs, weighting))
            drawn = 100 * (self._drawn(mine, weighting) / self._drawn(theirs, weighting) - 1)
            found[weighting] = self._metric("change of tokens, %", weighting, change, drawn)
        return found

    def _metric(self, name: str, weighting: Weighting, value: float, drawn: Floats) -> Metric:
        low, high = interval(drawn, self._bootstrap)
        return Metric(name, _GROUPING[weighting], "none", value, low, high, len(self._episodes), len(self.names))

    def _mean(self, values: Floats, weighting: Weighting) -> float:
        if weighting == "tasks":
            return float(values.mean())
        return float(np.mean([values[self._domains == domain].mean() for domain in np.unique(self._domains)]))

    def _drawn(self, values: Floats, weighting: Weighting) -> Floats:
        """Return the mean of every replicate. A replicate without a domain's tasks leaves that domain out."""
        weights = [np.ones_like(values)]
        if weighting == "domains":
            weights = [(self._domains == domain).astype(np.float64) for domain in np.unique(self._domains)]
        means = [ratios(self._draws @ (weight * values), self._draws @ weight) for weight in weights]
        drawn: Floats = np.nanmean(np.array(means), axis=0)
        return drawn
