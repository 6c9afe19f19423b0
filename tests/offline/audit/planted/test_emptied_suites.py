"""Suites edited to be empty, together with the list of what they must hold; and a file that hides all other rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from drsr.errors import ArtifactCorrupt
from drsr.expectations.required import REQUIRED
from drsr.offline.audit.checks import data_rules
from drsr.offline.verdicts import Severity, Verdict
from tests.offline.audit.published import asked
from tests.offline.small_pipeline import Pipeline


def test_the_numbers_are_those_of_the_list() -> None:
    assert {dataset: len(rules) for dataset, rules in REQUIRED.items()} == data_rules.SHIPPED


class JudgeDouble:
    """Passes every required rule; of some datasets none, or breaks off there."""

    def __init__(self, emptied: str = "", damaged: str = "") -> None:
        self.emptied, self.damaged = emptied, damaged

    def __call__(self, catalog: Any, artifacts: Any, datasets: list[str], kept: Any = None) -> list[Verdict]:
        if self.damaged in datasets:
            raise ArtifactCorrupt("artifact 12 has another hash")
        return [
            Verdict(f"{dataset}: {rule}", Severity.MAJOR, True, "kept")
            for dataset in datasets
            if dataset != self.emptied
            for rule in REQUIRED[dataset]
        ]


def test_a_suite_that_was_emptied(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_rules, "find_judge", lambda: JudgeDouble(emptied="labels"))
    caught = asked(pipeline, data_rules.CHECK)
    assert caught == {"expectations of the data": "labels was judged by 0 rules, this version ships 22"}


def test_a_file_that_cannot_be_read_hides_no_other_rule(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_rules, "find_judge", lambda: JudgeDouble(damaged="features"))
    assert list(asked(pipeline, data_rules.CHECK)) == ["features: could be judged"]
    from drsr.offline.audit.running import run_audit
    from drsr.offline.publish.subject import Order, Subject

    found = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order()), [data_rules.CHECK]).verdicts
    counts = Counter(verdict.check.partition(":")[0] for verdict in found)
    others = {name: count for name, count in data_rules.SHIPPED.items() if name not in ("features", "policy")}
    assert counts == {**others, "features": 1}
