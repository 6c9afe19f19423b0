"""The summary of a replay, each method on the same decisions: means over tasks and over domains, with intervals that
resample whole tasks.

    task-weighted   every task counts once, however many of its runs and decisions were replayed
    equal-domain    the mean of the domains' task-weighted means: every domain counts once

Compared are the decisions that every method has. Removal and its effect on the output are means over those that were
measured for every method, so that the two compare; the cost of a method is a mean over all of them. Unsafe rates among
changed requests pool decisions: a task in which nothing was changed has none to contribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.train.metrics import Bootstrap, Metric, draw_trajectories, interval, ratio_metric, ratios

Floats = NDArray[np.float64]

TASKS, DOMAINS, POOLED = "mean over tasks", "mean over domains of means over tasks", "changed requests, pooled"
NO_TIES = "none"


class MethodSummary(NamedTuple):
    """One method on the decisions of a comparison."""

    method: str
    title: str
    trained: str
    # Of the decisions that were measured for every method:
    removal: Metric
    """Part of the request that was removed; a request that was left alone counts 0."""
    removal_by_domain: Metric
    """The same, every domain counting once."""
    removed_tokens: Metric
    """Per decision."""
    harm: Metric
    """Nats per token of the recorded output; 0 if nothing was changed."""
    unsafe: Metric
    """Part of the decisions with harm above the tolerance."""
    unsafe_by_domain: Metric
    unsafe_of_changed: Metric
    """Part of the changed requests with harm above the tolerance."""
    abstained: Metric
    """Part of the decisions that were left as they were."""
    # Of all decisions:
    removal_of_all: Metric
    auxiliary_tokens: Metric
    """Tokens of the method's own model calls, in and out, per decision that it made."""
    net_removal: Metric
    """Part of the request that was removed, less auxiliary tokens."""
    milliseconds: float
    """Median time to rewrite one request, including model calls. If a method also runs at decisions in between, the
    mean over those counts for each of them."""
    invalid: int
    """Rewrites that broke the protocol; the request went on unchanged."""
    fell_back: int
    """These, and those that failed otherwise."""
    why_fell_back: Mapping[str, int]
    """Number of fall-backs by reason."""
    lost_task: int
    """Requests that went on without the task as the user put it."""
    claims_broken: int
    """Requests that went on without something that the method claims to keep."""

    def to_json(self) -> dict[str, Any]:
        """Without NaN, which JSON does not know."""
        return {name: value.to_json() if isinstance(value, Metric) else value for name, value in self._asdict().items()}


class Comparison(NamedTuple):
    """Methods side by side on the same decisions."""

    methods: list[MethodSummary]
    """In the order in which they appear."""
    decisions: int
    """Number of decisions that every method has."""
    runs: int
    tasks: int
    domains: int
    measured: int
    """Of these decisions: those that were measured for every method."""
    not_measured: Mapping[str, int]
    """Reasons why others were not measured, with the number of decisions; two rewrites of one decision may be at
    fault."""
    rows_left_out: Mapping[str, int]
    """Rows of decisions that not every method has, by title of the method."""

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "methods": [found.to_json() for found in self.methods]}

    @property
    def population(self) -> str:
        """Return which decisions the numbers cover, in sentences."""
        said = [
            f"Decisions that every method has: {self.decisions:,}, of {self.runs:,} runs; tasks: {self.tasks:,}.",
            f"Measured for every method: {self.measured:,} of them; removed, harm, unsafe and left alone are of these.",
        ]
        if self.not_measured:
            said.append(f"Why not the others: {_listed(self.not_measured)}.")
        if self.rows_left_out:
            said.append(f"Left out, as not every method has the decision: rows of {_listed(self.rows_left_out)}.")
        return " ".join(said)


def compare(rows: Sequence[Replayed], bootstrap: Bootstrap) -> Comparison:
    """Return every method on the decisions that all have."""
    methods: dict[str, dict[str, Replayed]] = {}
    for row in rows:
        methods.setdefault(row.method, {})[row.state_key] = row
    first = next(iter(methods.values()))
    common = [key for key in first if all(key in method for method in methods.values())]
    measured = [key for key in common if all(method[key].harm is not None for method in methods.values())]
    everything = _Decisions([first[key] for key in common], bootstrap)
    scored = _Decisions([first[key] for key in measured], bootstrap)
    return Comparison(
        methods=[
            _method([method[key] for key in common], everything, [method[key] for key in measured], scored)
            for method in methods.values()
            if common
        ],
        decisions=len(common),
        runs=len({first[key].run for key in common}),
        tasks=len({first[key].task for key in common}),
        domains=len({first[key].domain for key in common}),
        measured=len(measured),
        not_measured=_not_measured([[method[key] for method in methods.values()] for key in common]),
        rows_left_out={
            next(iter(method.values())).title: len(method) - len(common)
            for method in methods.values()
            if len(method) > len(common)
        },
    )


def by_domain(rows: Sequence[Replayed], bootstrap: Bootstrap) -> dict[str, Comparison]:
    """Return the same for each domain alone, of the decisions that every method has."""
    methods = len({row.method for row in rows})
    number = Counter(row.state_key for row in rows)
    shared = [row for row in rows if number[row.state_key] == methods]
    domains = sorted({row.domain for row in shared})
    return {domain: compare([row for row in shared if row.domain == domain], bootstrap) for domain in domains}


def _method(
    rows: Sequence[Replayed], everything: _Decisions, measured: Sequence[Replayed], scored: _Decisions
) -> MethodSummary:
    def of_measured(value: Callable[[Replayed], float]) -> Floats:
        return np.array([value(row) for row in measured], dtype=np.float64)

    def of_all(value: Callable[[Replayed], float]) -> Floats:
        return np.array([value(row) for row in rows], dtype=np.float64)

    removal, unsafe = of_measured(_removal), of_measured(lambda row: float(bool(row.unsafe)))
    sent = [row for row in rows if not row.fell_back]
    return MethodSummary(
        method=rows[0].method,
        title=rows[0].title,
        trained=rows[0].trained,
        removal=scored.task_mean("removal", removal),
        removal_by_domain=scored.domain_mean("removal", removal),
        removed_tokens=scored.task_mean("removed tokens", of_measured(lambda row: row.removed_tokens)),
        harm=scored.task_mean("harm", of_measured(_harm)),
        unsafe=scored.task_mean("unsafe rate", unsafe),
        unsafe_by_domain=scored.domain_mean("unsafe rate", unsafe),
        unsafe_of_changed=scored.pooled_mean("unsafe rate", unsafe, of_measured(lambda row: row.changed)),
        abstained=scored.task_mean("abstention", of_measured(lambda row: not row.changed)),
        removal_of_all=everything.task_mean("removal", of_all(_removal)),
        auxiliary_tokens=everything.task_mean("auxiliary tokens", of_all(_auxiliary)),
        net_removal=everything.task_mean(
            "net removal", of_all(lambda row: _removal(row) - _auxiliary(row) / row.request_tokens)
        ),
        milliseconds=1000 * float(np.median([row.seconds / row.requests for row in rows])),
        invalid=sum(row.violations > 0 for row in rows),
        fell_back=len(rows) - len(sent),
        why_fell_back=dict(Counter(row.why_fell_back for row in rows if row.fell_back)),
        lost_task=sum("task" in row.lost for row in sent),
        claims_broken=sum(bool(row.claims_broken) for row in sent),
    )


class _Decisions:
    """Some decisions, the same for every method, by run. Whole tasks are drawn once, for all methods and metrics."""

    def __init__(self, rows: Sequence[Replayed], bootstrap: Bootstrap) -> None:
        self._bootstrap = bootstrap
        runs = {row.run: row for row in rows}
        places = {run: place for place, run in enumerate(runs)}
        self._run = np.array([places[row.run] for row in rows], dtype=np.int64)
        self._count = self._by_run(np.ones(len(rows)))
        tasks = [row.task for row in runs.values()]
        runs_of_task = Counter(tasks)
        self._weight = np.array([1 / runs_of_task[task] for task in tasks])
        self._domain = np.array([row.domain for row in runs.values()])
        group = np.unique(np.array(tasks), return_inverse=True)[1].astype(np.int64)
        self._draws = draw_trajectories(group, bootstrap) if rows else np.zeros((0, 0))

    def task_mean(self, name: str, values: Floats) -> Metric:
        """Return the mean with every task counted once: the mean of its runs' means. `values` has one number per
        decision."""
        total = self._weight * self._means(values)
        found = ratio_metric(name, TASKS, NO_TIES, total, self._weight, self._draws, self._bootstrap)
        return found._replace(support=len(values))

    def pooled_mean(self, name: str, values: Floats, counted: Floats) -> Metric:
        """Return the mean over all decisions that count."""
        total, number = self._by_run(values * counted), self._by_run(counted)
        return ratio_metric(name, POOLED, NO_TIES, total, number, self._draws, self._bootstrap)

    def domain_mean(self, name: str, values: Floats) -> Metric:
        """Return the mean of the domains' task-weighted means. A draw without a domain's runs leaves it
        out."""
        if not len(values):
            return Metric(name, DOMAINS, NO_TIES, np.nan, np.nan, np.nan, 0, 0)
        run_means = self._means(values)
        drawn, means = [], []
        for domain in np.unique(self._domain):
            weight = self._weight * (self._domain == domain)
            drawn.append(ratios(self._draws @ (weight * run_means), self._draws @ weight))
            means.append(float(np.average(run_means, weights=weight)))
        low, high = interval(np.nanmean(np.array(drawn), axis=0), self._bootstrap) if len(drawn[0]) else (np.nan,) * 2
        return Metric(name, DOMAINS, NO_TIES, float(np.mean(means)), low, high, len(values), len(run_means))

    def _means(self, values: Floats) -> Floats:
        means: Floats = self._by_run(values) / self._count
        return means

    def _by_run(self, values: Floats) -> Floats:
        return np.bincount(self._run, weights=values).astype(np.float64)


def _not_measured(decisions: Sequence[Sequence[Replayed]]) -> dict[str, int]:
    """Return whether the request itself could not be read or a rewrite of it, and why."""
    found: Counter[str] = Counter()
    for rows in decisions:
        whole = next((row for row in rows if row.intact_nll is None), None)
        if whole is not None:
            found[f"the request, {_kind(whole)}"] += 1
        else:
            found.update(f"the rewrite by {row.title}, {_kind(row)}" for row in rows if row.harm is None)
    return dict(found)


def _kind(row: Replayed) -> str:
    return row.why_not_measured.partition(":")[0].replace("_", " ")


def _listed(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{what}: {number:,}" for what, number in counts.items())


def _removal(row: Replayed) -> float:
    return row.removed_tokens / row.request_tokens


def _auxiliary(row: Replayed) -> float:
    return (row.auxiliary_input_tokens + row.auxiliary_output_tokens) / row.requests


def _harm(row: Replayed) -> float:
    assert row.harm is not None
    return row.harm
