"""What a replay says about each method: means over tasks and over domains, with intervals that resample whole tasks.

    task-weighted   every task counts once, however many of its runs and decisions were replayed
    equal-domain    the mean of the domains' task-weighted means: every domain counts once

Unsafe rates among changed requests pool decisions: a task in which nothing was changed has none to contribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.evaluation.replay import Replayed
from drsr.offline.metrics import Bootstrap, Metric, draw_trajectories, interval, ratio_metric

Floats = NDArray[np.float64]

TASKS, DOMAINS, POOLED = "mean over tasks", "mean over domains of means over tasks", "changed requests, pooled"
NO_TIES = "none"
_NO_DRAWS: Floats = np.zeros((0, 0))


class MethodSummary(NamedTuple):
    """One method on some decisions."""

    method: str
    title: str
    trained: str
    decisions: int
    measured: int
    """Decisions whose rewrite could be scored."""
    removal: Metric
    """Part of the request that was removed; a request that was left alone counts 0."""
    removal_by_domain: Metric
    """The same, every domain counting once."""
    harm: Metric
    """Nats per token of the recorded output; 0 where nothing was changed."""
    unsafe: Metric
    """Part of all decisions with harm above the tolerance."""
    unsafe_by_domain: Metric
    unsafe_of_changed: Metric
    """Part of the changed requests with harm above the tolerance."""
    abstained: Metric
    """Part of the decisions that were left as they were."""
    auxiliary_tokens: Metric
    """Of the method's own model calls, in and out, per decision that it was asked about."""
    net_removal: Metric
    """Part of the request that was removed, less auxiliary tokens."""
    milliseconds: float
    """Median time to rewrite one request, model calls included. Where a method is asked at decisions between, the mean
    over those counts for each of them."""
    invalid: int
    """Rewrites that broke the protocol; the request went on unchanged."""
    fell_back: int
    """These, and those that failed otherwise."""
    lost_task: int
    """Rewrites without the task as the user put it."""

    def to_json(self) -> dict[str, Any]:
        """Without NaN, which JSON does not know."""
        return {name: value.to_json() if isinstance(value, Metric) else value for name, value in self._asdict().items()}


def summarise(rows: Sequence[Replayed], bootstrap: Bootstrap) -> list[MethodSummary]:
    """One summary per method, in the order in which they appear."""
    methods = list(dict.fromkeys(row.method for row in rows))
    return [_method(name, [row for row in rows if row.method == name], bootstrap) for name in methods]


def by_domain(rows: Sequence[Replayed], bootstrap: Bootstrap) -> dict[str, list[MethodSummary]]:
    """The same for each domain alone."""
    domains = sorted({row.domain for row in rows})
    return {domain: summarise([row for row in rows if row.domain == domain], bootstrap) for domain in domains}


def _method(name: str, rows: Sequence[Replayed], bootstrap: Bootstrap) -> MethodSummary:
    measured = [row for row in rows if row.harm is not None]
    changed = [row for row in measured if row.changed]

    def tasks(label: str, value: Callable[[Replayed], float], of: Sequence[Replayed] = rows) -> Metric:
        return task_mean(label, of, value, bootstrap)

    return MethodSummary(
        method=name,
        title=rows[0].title,
        trained=rows[0].trained,
        decisions=len(rows),
        measured=len(measured),
        removal=tasks("removal", _removal),
        removal_by_domain=domain_mean("removal", rows, _removal, bootstrap),
        harm=tasks("harm", _harm, measured),
        unsafe=tasks("unsafe rate", _unsafe, measured),
        unsafe_by_domain=domain_mean("unsafe rate", measured, _unsafe, bootstrap),
        unsafe_of_changed=pooled_mean("unsafe rate", changed, _unsafe, bootstrap),
        abstained=tasks("abstention", lambda row: float(not row.changed)),
        auxiliary_tokens=tasks("auxiliary tokens", _auxiliary),
        net_removal=tasks("net removal", lambda row: _removal(row) - _auxiliary(row) / row.request_tokens),
        milliseconds=1000 * float(np.median([row.seconds / row.requests for row in rows])),
        invalid=sum(row.violations > 0 for row in rows),
        fell_back=sum(row.fell_back for row in rows),
        lost_task=sum("task" in row.lost for row in rows),
    )


def task_mean(name: str, rows: Sequence[Replayed], value: Callable[[Replayed], float], bootstrap: Bootstrap) -> Metric:
    """Every task once: the mean of its runs' means."""
    runs = _Runs(rows, value)
    draws = draw_trajectories(runs.task, bootstrap) if rows else _NO_DRAWS
    found = ratio_metric(name, TASKS, NO_TIES, runs.weight * runs.mean, runs.weight, draws, bootstrap)
    return found._replace(support=len(rows))


def pooled_mean(
    name: str, rows: Sequence[Replayed], value: Callable[[Replayed], float], bootstrap: Bootstrap
) -> Metric:
    """Every decision once."""
    runs = _Runs(rows, value)
    draws = draw_trajectories(runs.task, bootstrap) if rows else _NO_DRAWS
    return ratio_metric(name, POOLED, NO_TIES, runs.mean * runs.count, runs.count, draws, bootstrap)


def domain_mean(
    name: str, rows: Sequence[Replayed], value: Callable[[Replayed], float], bootstrap: Bootstrap
) -> Metric:
    """Every domain once: the mean of their task-weighted means. A draw without a domain's runs leaves it out."""
    if not rows:
        return Metric(name, DOMAINS, NO_TIES, np.nan, np.nan, np.nan, 0, 0)
    runs = _Runs(rows, value)
    draws = draw_trajectories(runs.task, bootstrap)
    drawn, means = [], []
    for domain in sorted(set(runs.domain)):
        weight = runs.weight * np.array([found == domain for found in runs.domain])
        number = draws @ weight
        drawn.append(
            np.divide(draws @ (weight * runs.mean), number, out=np.full(len(number), np.nan), where=number > 0)
        )
        means.append(float(np.average(runs.mean, weights=weight)))
    low, high = interval(np.nanmean(np.array(drawn), axis=0), bootstrap) if len(draws) else (np.nan, np.nan)
    return Metric(name, DOMAINS, NO_TIES, float(np.mean(means)), low, high, len(rows), len(runs.mean))


class _Runs:
    """Rows by run."""

    def __init__(self, rows: Iterable[Replayed], value: Callable[[Replayed], float]) -> None:
        grouped: dict[str, list[Replayed]] = {}
        for row in rows:
            grouped.setdefault(row.run, []).append(row)
        groups = list(grouped.values())
        runs_of_task = Counter(group[0].task for group in groups)
        self.mean: Floats = np.array([np.mean([value(row) for row in group]) for group in groups])
        self.count: Floats = np.array([len(group) for group in groups], dtype=np.float64)
        self.weight: Floats = np.array([1 / runs_of_task[group[0].task] for group in groups])
        self.domain = [group[0].domain for group in groups]
        self.task = np.unique(np.array([group[0].task for group in groups]), return_inverse=True)[1].astype(np.int64)


def _removal(row: Replayed) -> float:
    return row.removed_tokens / row.request_tokens


def _auxiliary(row: Replayed) -> float:
    return (row.auxiliary_input_tokens + row.auxiliary_output_tokens) / row.requests


def _harm(row: Replayed) -> float:
    assert row.harm is not None
    return row.harm


def _unsafe(row: Replayed) -> float:
    return float(bool(row.unsafe))
