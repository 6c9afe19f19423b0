"""The two means of the paper, as obvious as they can be: what summaries and the paper's own tables are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drsr.offline.bench.summarisers.token_accounting import TaskTokens


def equal_domain_mean(values: Mapping[str, float]) -> float:
    """Every domain counts the same, as in Eval40."""
    return sum(values.values()) / len(values)


def task_weighted_mean(values: Mapping[str, float], tasks: Mapping[str, int]) -> float:
    """Every task counts the same, as in Full260."""
    assert values.keys() == tasks.keys()
    return sum(values[domain] * tasks[domain] for domain in values) / sum(tasks.values())


def mean_total(tasks: Sequence[TaskTokens]) -> float:
    """Mean T over tasks."""
    return sum(task.total for task in tasks) / len(tasks)
