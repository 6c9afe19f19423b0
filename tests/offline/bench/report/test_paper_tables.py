"""The paper's tables hold together: means, totals and changes that it states follow from its own rows."""

from __future__ import annotations

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.offline.bench.comparators.registry import comparators
from drsr.offline.bench.report.paper_tables import (
    DOES_NOT_ADD_UP,
    OVERALL,
    analyses,
    eval40,
    eval40_ablations,
    eval40_totals,
    full260,
)
from drsr.offline.bench.summarisers.token_accounting import change_percent
from drsr.offline.evaluate.eval40 import EVAL40
from drsr.offline.train.ablations import ABLATIONS
from tests.offline.bench.slow_means import equal_domain_mean, task_weighted_mean

DOMAINS = ("code", "office", "security", "web")
METHODS = list(dict.fromkeys(row.method for row in eval40()))
ROUNDED = 0.0011
"""Means of numbers that are rounded to three digits, against a rounded mean: half a unit each, and a little."""


def of_eval40(method: str) -> dict[str, tuple[float, float]]:
    return {row.domain: (row.reward, row.tokens_millions) for row in eval40() if row.method == method}


def test_the_mean_reward_of_drsr_on_eval40_is_that_of_its_rows() -> None:
    rewards = {domain: of_eval40("drsr")[domain][0] for domain in DOMAINS}
    assert rewards == {"code": 0.856, "office": 0.788, "security": 0.700, "web": 0.833}
    assert round(equal_domain_mean(rewards), 3) == 0.794
    assert of_eval40("drsr")[OVERALL][0] == 0.794


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("column", [0, 1], ids=["reward", "tokens"])
def test_every_overall_of_eval40_is_the_mean_of_its_domains(method: str, column: int) -> None:
    rows = of_eval40(method)
    found = equal_domain_mean({domain: rows[domain][column] for domain in DOMAINS})
    assert found == pytest.approx(rows[OVERALL][column], abs=ROUNDED)


def test_totals_of_eval40_are_forty_times_the_mean() -> None:
    assert [row.method for row in eval40_totals()] == METHODS
    for row in eval40_totals():
        assert row.per_task_millions == of_eval40(row.method)[OVERALL][1]
        assert row.total_millions / len(EVAL40) == pytest.approx(row.per_task_millions, abs=ROUNDED)


def test_the_change_of_tokens_on_eval40() -> None:
    totals = {row.method: row.total_millions for row in eval40_totals()}
    assert change_percent(totals["drsr"], totals["baseline"]) == pytest.approx(-35.85, abs=0.01)


@pytest.mark.parametrize("variant", dict.fromkeys(row.variant for row in eval40_ablations()))
def test_tokens_of_the_ablations_add_up_and_caches_are_parts_of_input(variant: str) -> None:
    rows = {row.domain: row for row in eval40_ablations() if row.variant == variant}
    assert set(rows) == {*DOMAINS, OVERALL}
    for row in rows.values():
        assert row.input_millions + row.output_thousands / 1_000 == pytest.approx(row.tokens_millions, abs=ROUNDED)
        cached = row.cache_read_millions + row.cache_creation_millions
        assert cached == pytest.approx(row.input_millions, abs=ROUNDED)
    for name in ("reward", "tokens_millions", "input_millions", "cache_read_millions", "cache_creation_millions"):
        mean = equal_domain_mean({domain: getattr(rows[domain], name) for domain in DOMAINS})
        assert mean == pytest.approx(getattr(rows[OVERALL], name), abs=ROUNDED)
    direct = equal_domain_mean({domain: rows[domain].direct_thousands for domain in DOMAINS})
    assert direct == pytest.approx(rows[OVERALL].direct_thousands, abs=0.06)


@pytest.mark.parametrize("method", ["baseline", "structural_pruning", "drsr"])
@pytest.mark.parametrize("column", ["reward", "tokens_millions"])
def test_every_overall_of_full260_is_weighted_by_tasks(method: str, column: str) -> None:
    rows = {row.domain: row for row in full260() if row.method == method}
    tasks = {domain: rows[domain].tasks for domain in DOMAINS}
    assert tasks == {"code": 80, "office": 50, "security": 60, "web": 70}
    mean = task_weighted_mean({domain: getattr(rows[domain], column) for domain in DOMAINS}, tasks)
    adds_up = mean == pytest.approx(getattr(rows[OVERALL], column), abs=ROUNDED)
    assert adds_up == (f"full260/{method}/{column}" not in DOES_NOT_ADD_UP)


def test_changes_of_tokens_on_full260() -> None:
    """From rounded means, so to a tenth of a percent."""
    base = {row.domain: row.tokens_millions for row in full260() if row.method == "baseline"}
    for row in full260():
        if row.method == "drsr":
            assert row.change_percent == pytest.approx(change_percent(row.tokens_millions, base[row.domain]), abs=0.1)


def test_methods_and_variants_are_named_as_ours() -> None:
    registry = comparators(ScriptedTokenizer())
    assert set(METHODS) <= {*registry.available, *registry.not_available}
    assert {row.variant for row in eval40_ablations()} - {"drsr"} <= set(ABLATIONS)


def test_analyses() -> None:
    found = analyses()
    labels = [found[f"supervision.labels_cardinality_{size}"].value for size in (1, 2, 3, 4)]
    assert sum(labels) == 24_122
    assert found["supervision.states"].value == 3 * found["supervision.trajectories"].value
    assert found["singleton_aggregation.sum"].value == max(
        one.value for name, one in found.items() if name.startswith("singleton_aggregation.")
    )
