"""Every rule with good frames and with bad ones; and a rule that gets lost on the way is a failure, not a pass."""

from __future__ import annotations

import pandas as pd
import pytest

from drsr.errors import DrsrError, ExpectationFailed
from drsr.expectations.evaluation import Finding, evaluate
from drsr.expectations.judging import AFTER, DATASETS, require, verdict, whole
from drsr.expectations.library import gxe
from drsr.expectations.required import REQUIRED
from drsr.expectations.rules import Part, Rule, Suite
from drsr.expectations.suites import SUITES
from drsr.offline.verdicts import Severity, Verdict
from tests.expectations.bad_frames import BAD, Spoil, at
from tests.expectations.good_frames import good

RULES = [(dataset, rule) for dataset, rules in REQUIRED.items() for rule in rules]
SPOILT = [
    pytest.param(dataset, rule, spoil, id=f"{dataset}: {rule} {number}")
    for dataset, rules in BAD.items()
    for rule, spoils in rules.items()
    for number, spoil in enumerate(spoils)
]


def alone(dataset: str, rule: str) -> tuple[Suite, Part]:
    """A suite with nothing but this rule."""
    for part in SUITES[dataset].parts:
        for found in part.rules:
            if found.name == rule:
                lonely = part._replace(rules=(found,))
                return SUITES[dataset]._replace(parts=(lonely,)), lonely
    raise AssertionError(f"{dataset} has no rule {rule!r}")


def judged_alone(dataset: str, rule: str, frame: pd.DataFrame) -> Finding:
    suite, part = alone(dataset, rule)
    (finding,) = evaluate(suite, {part.name: frame}, {rule: REQUIRED[dataset][rule]})
    return finding


def test_every_dataset_has_a_suite_and_every_stage_datasets() -> None:
    assert tuple(SUITES) == tuple(REQUIRED) == DATASETS
    assert {dataset for names in AFTER.values() for dataset in whole(names)} == set(DATASETS)


def test_every_rule_has_a_bad_frame() -> None:
    assert [(dataset, rule) for dataset, rules in BAD.items() for rule, spoils in rules.items() if spoils] == RULES


@pytest.mark.parametrize("dataset", DATASETS)
def test_good_frames_keep_every_rule(dataset: str) -> None:
    findings = evaluate(SUITES[dataset], good()[dataset])
    assert [finding.rule for finding in findings] == list(REQUIRED[dataset])
    assert [finding for finding in findings if not finding.passed] == []


@pytest.mark.parametrize(("dataset", "rule", "spoil"), SPOILT)
def test_a_bad_frame_breaks_its_rule(dataset: str, rule: str, spoil: Spoil) -> None:
    _, part = alone(dataset, rule)
    finding = judged_alone(dataset, rule, spoil(good()[dataset][part.name]))
    assert not finding.passed
    assert "could not be judged" not in finding.detail


def test_the_offending_items_are_named() -> None:
    frame = good()["labels"]["sets"]
    finding = judged_alone("labels", "harm is finite", at("harm", float("nan"))(frame))
    assert finding.detail == "1 of 3 rows: trajectory runs/a, decision 8, labeler default, mask 1, harm nan"
    built_in = judged_alone("labels", "the harm tolerance is 0.020", at("harm_tolerance", 0.5, row=2)(frame))
    assert built_in.detail.startswith("1 of 3 rows: ")
    assert {"trajectory": "runs/b", "decision": 12, "mask": 5}.items() <= built_in.offending[0].items()
    pair = judged_alone("labels", "cardinality counts the set's members", at("cardinality", 3, row=2)(frame))
    assert {"trajectory": "runs/b", "decision": 12, "mask": 5}.items() <= pair.offending[0].items()


def test_only_the_first_few_are_named() -> None:
    frame = pd.DataFrame({"fitted": ["scorer"] * 50, "key": [f"k{number}" for number in range(50)], "reads": [0] * 50})
    finding = judged_alone("splits", "whatever was fitted has read its split on record", frame)
    assert finding.detail.startswith("50 of 50 rows: ")
    assert finding.detail.endswith("; and 47 more")
    assert len(finding.offending) == 20


def test_a_rule_that_a_suite_lost_is_a_failure() -> None:
    suite = SUITES["trajectories"]
    trajectories, *others = suite.parts
    kept = tuple(rule for rule in trajectories.rules if rule.name != "a run is current once")
    findings = evaluate(suite._replace(parts=(trajectories._replace(rules=kept), *others)), good()["trajectories"])
    (broken,) = [finding for finding in findings if not finding.passed]
    assert broken.rule == "a run is current once"
    assert "was not evaluated" in broken.detail


def test_a_whole_part_that_is_lost_is_a_failure() -> None:
    suite = SUITES["trajectories"]
    findings = evaluate(suite._replace(parts=suite.parts[:-1]), good()["trajectories"])
    assert [finding.rule for finding in findings if not finding.passed] == ["no copy in disguise across splits"]


def test_a_rule_of_another_type_is_a_failure() -> None:
    suite = SUITES["trajectories"]
    trajectories, *others = suite.parts
    weaker = tuple(
        rule._replace(expectation=gxe.ExpectColumnToExist(column="split")) if "three splits" in rule.name else rule
        for rule in trajectories.rules
    )
    findings = evaluate(suite._replace(parts=(trajectories._replace(rules=weaker), *others)), good()["trajectories"])
    (broken,) = [finding for finding in findings if not finding.passed]
    assert broken.detail == "was evaluated as expect_column_to_exist, required is expect_column_values_to_be_in_set"


def test_a_rule_that_nobody_knows_or_that_comes_twice_is_a_failure() -> None:
    unknown = Rule("who is this", gxe.ExpectColumnToExist(column="x"), "")
    twice = Rule("twice", gxe.ExpectColumnToExist(column="x"), "")
    part = Part("rows", "One row per x.", (), (unknown, twice))
    again = part._replace(name="again", rules=(twice,))
    frame = pd.DataFrame({"x": [1]})
    required = {"twice": "expect_column_to_exist"}
    findings = evaluate(Suite("d", "", (part, again)), {"rows": frame, "again": frame}, required)
    assert [(finding.rule, finding.passed, finding.detail) for finding in findings] == [
        ("who is this", False, "is not on the list of required rules"),
        ("twice", False, "was evaluated 2 times"),
        ("twice", False, "was evaluated 2 times"),
    ]


@pytest.mark.parametrize("dataset", DATASETS)
def test_what_cannot_be_judged_is_a_failure(dataset: str) -> None:
    """Frames of other columns: whatever the library makes of that, it is no pass."""
    suite = SUITES[dataset]
    findings = evaluate(suite, {part.name: pd.DataFrame({"something": ["else"]}) for part in suite.parts})
    passed = {finding.expectation for finding in findings if finding.passed}
    assert passed == {"expect_table_row_count_to_be_between"}  # that one looks at rows, whatever is in them


def test_require_stops_and_says_what_to_do() -> None:
    frame = at("harm", float("nan"))(good()["labels"]["sets"])
    broken = verdict(judged_alone("labels", "harm is finite", frame))
    fine = Verdict("labels: there are labels", Severity.CRITICAL, True, "3 rows")
    require([fine])
    with pytest.raises(ExpectationFailed) as caught:
        require([fine, broken, broken])
    assert isinstance(caught.value, DrsrError)
    assert caught.value.verdicts == (broken, broken)
    shown = str(caught.value)
    for part in ("dataset labels", "'harm is finite'", "runs/a", "drsr label --labeler NAME", "and 1 more rules"):
        assert part in shown


def test_nothing_judged_is_no_pass() -> None:
    with pytest.raises(ExpectationFailed, match="nothing was judged"):
        require([])
