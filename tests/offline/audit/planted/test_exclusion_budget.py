"""Bad states declared unmeasurable: more than a split's budget is a failure, without texts and without a language
model, and whatever is excluded is named."""

from __future__ import annotations

from drsr.offline.audit.exclusions import CHECK, allowed
from drsr.offline.audit.running import run_audit
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.verdicts import Verdict
from tests.offline.audit.published import ask, by_hand
from tests.offline.small_pipeline import Pipeline


def judged(pipeline: Pipeline) -> Verdict:
    (verdict,) = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order()), [CHECK]).verdicts
    return verdict


def _states(pipeline: Pipeline, split: str) -> list[tuple[int, str, int]]:
    return ask(
        pipeline,
        "SELECT s.id, s.state_key, m.labeler_id FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "JOIN state_measurement m ON m.state_id = s.id WHERE t.split = ? ORDER BY s.state_key",
        split,
    )


def _exclude_set(pipeline: Pipeline, state: int, labeler: int, mask: int) -> None:
    for table in ("interaction", "label"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ? AND mask = ?", state, mask)
    by_hand(pipeline, "INSERT INTO label_exclusion VALUES (?, ?, ?, 'out_of_memory', '')", state, labeler, mask)


def test_one_set_is_within_the_budget_and_named(pipeline: Pipeline) -> None:
    assert "every set has its label; the budget is 1% of a split's sets" in judged(pipeline).detail
    state, key, labeler = _states(pipeline, "validation")[0]
    _exclude_set(pipeline, state, labeler, 3)
    verdict = judged(pipeline)
    assert verdict.passed
    assert f"(state {key} of validation, deletion set 3: excluded as out_of_memory)" in verdict.detail


def test_more_sets_than_the_budget(pipeline: Pipeline) -> None:
    chosen = _states(pipeline, "validation")[:3]
    for state, _, labeler in chosen:
        _exclude_set(pipeline, state, labeler, 3)
    verdict = judged(pipeline)
    assert not verdict.passed
    assert verdict.detail.startswith("3 of ")
    assert " sets of validation were not measured (allowed 1): state " in verdict.detail
    for _, key, _ in chosen:
        assert f"state {key} of validation, deletion set 3: excluded as out_of_memory" in verdict.items


def test_a_whole_state(pipeline: Pipeline) -> None:
    state, key, _ = _states(pipeline, "test")[0]
    for table in ("interaction", "label"):
        by_hand(pipeline, f"DELETE FROM {table} WHERE state_id = ?", state)
    changes = "outcome = 'excluded', reason = 'out_of_memory', detail = '', intact_nll = NULL"
    by_hand(pipeline, f"UPDATE state_measurement SET {changes} WHERE state_id = ?", state)
    verdict = judged(pipeline)
    assert not verdict.passed
    assert f"state {key} of test, all " in verdict.detail


def test_the_budget() -> None:
    assert [allowed(sets) for sets in (0, 7, 199, 200, 10_000)] == [1, 1, 1, 2, 100]
