"""Whoever has no texts trains, calibrates, publishes and audits all the same, and ends with the same policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import FrameError
from drsr.offline.audit.release import gated_order
from drsr.offline.audit.report import page
from drsr.offline.audit.running import CHECKS, Audit, run_audit
from drsr.offline.bench.replay.recorded_runs import runs_of
from drsr.offline.commands.audit import text
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze.stage import freeze, freezing_rule
from drsr.offline.ingest.absent_texts import absent_texts
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.publish.lineage import before_the_journal, read_lineage
from drsr.offline.publish.stage import publish
from drsr.offline.publish.subject import Order, Subject
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.location import read_found
from drsr.request.view import caps_for
from tests.offline.logical_content import logical_rows
from tests.offline.small_pipeline import RUNS, Pipeline, fit, quick_params
from tests.offline.without_texts import exported, import_again, imported_from, read_runs

MEASURED = (
    *("trajectory", "split_group", "decision_state", "candidate", "frozen_trajectory"),
    *("labeler", "state_measurement", "label", "interaction", "feature_view", "state_features"),
)
"""Tables whose rows an import makes as the stages themselves would."""


@pytest.fixture
def bare(pipeline: Pipeline, tmp_path: Path) -> Iterator[Pipeline]:
    found, _ = imported_from(pipeline, tmp_path / "bare")
    yield found
    found.catalog.close()


def rows(pipeline: Pipeline) -> dict[str, list[str]]:
    with pipeline.catalog.reading() as connection:
        return logical_rows(connection)


def audited(pipeline: Pipeline) -> Audit:
    return run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order(sample=1)), CHECKS)


def test_rows_are_those_of_a_catalog_that_read_the_runs(pipeline: Pipeline, bare: Pipeline) -> None:
    here, there = rows(bare), rows(pipeline)
    assert {name: here[name] for name in MEASURED} == {name: there[name] for name in MEASURED}
    assert here["trajectory_file"] == here["source_file"] == []
    with bare.catalog.reading() as connection:
        absent = absent_texts(connection)
    assert (absent.runs, absent.of, absent.sources) == (sum(RUNS.values()), sum(RUNS.values()), ("runs",))
    again = import_again(bare, exported(pipeline, bare.folder / "exports"))
    assert again.runs is not None
    assert (again.runs.taken, again.runs.states, again.labels.taken) == (0, 0, 0)
    assert rows(bare) == here


def test_the_same_policy_comes_out_and_its_audit_says_what_it_could_not_see(
    pipeline: Pipeline, bare: Pipeline, tmp_path: Path
) -> None:
    """Then the texts come: nothing is duplicated, and the audit is whole."""
    calibration = fit(bare.catalog, bare.artifacts, bare.folder, quick_params())
    assert calibration.calibration_key == pipeline.calibration.calibration_key
    wheels = [
        publish(of.catalog, of.artifacts, made, gated_order(tmp_path / f"index {number}", version="1"))
        for number, (of, made) in enumerate([(pipeline, pipeline.calibration), (bare, calibration)])
    ]
    # The same policy by another way: all but the event of the journal is the same.
    whole_links, bare_links = (read_lineage(read_found(str(made.wheel)).others[LINEAGE_FILE])[0] for made in wheels)
    assert before_the_journal(whole_links)[:-1] == before_the_journal(bare_links)[:-1]
    assert wheels[0].record.identity == wheels[1].record.identity
    said = {gate.check: gate.detail for gate in wheels[1].gates}
    assert "not without texts: tasks and words of 8 of 8 runs" in said["splits hold"]
    assert said["expectations of the data"].endswith("6 of them not without the texts of 8 of 8 runs")
    assert not any("not without" in gate.detail for gate in wheels[0].gates)

    found = audited(bare)
    assert found.passed
    waiting = [verdict.check for verdict in found.in_part]
    assert waiting == [
        "hash chain to the trajectories",
        "splits hold",
        "states frozen again",
        "no future in a feature",
        "labels remeasured",
        "trajectories: no near-duplicates across splits",
        "trajectories: no copy in disguise across splits",
        "states: a state is a decision that a model made behind its request",
        "states: Recent2 is never a candidate",
        "states: no sentence is the next output of several tasks",
        "splits: no subject on two sides of a split",
    ]
    not_trained, first, *_ = text(found, None).splitlines()
    assert not_trained.startswith("the scorer was NOT trained again")
    assert first == ("11 verdicts could not be computed without texts (8 of 8 runs are here without their texts):")
    assert found.to_json()["without_texts"][-1] == "  complete them: drsr ingest the runs of runs, then audit again"

    assert "11 verdicts could not be computed without texts" in page(found)

    before = rows(bare)
    summary = read_runs(bare, pipeline)
    assert (summary.added, summary.superseded, summary.unchanged) == (0, 0, 8)
    after = rows(bare)
    assert {name: after[name] for name in MEASURED} == {name: before[name] for name in MEASURED}
    assert len(after["trajectory_file"]) == len(after["source_file"]) == sum(RUNS.values())
    whole = audited(bare)
    assert whole.passed
    assert whole.in_part == ()
    assert whole.without_texts == ()
    assert "verdicts could not be computed" not in text(whole, None)


def test_what_needs_a_text_has_nothing_to_do(bare: Pipeline) -> None:
    loaded = load_backbone(bare.backbone)
    assert isinstance(loaded, FrozenLM)
    caps = caps_for(loaded.window)
    before = rows(bare)
    assert freeze(bare.catalog, bare.artifacts, loaded.tokenizer, caps).frozen == 0
    scorer = TargetNll(loaded)
    again = label_run(scorer, "float32", caps, labeler="another")
    assert label(bare.catalog, bare.artifacts, scorer, again).labelled == 0
    anew = featurize_run(loaded, "float32", caps, view="another")
    assert materialize(bare.catalog, bare.artifacts, loaded, anew).states == 0
    after = rows(bare)
    assert {name: after[name] for name in ("decision_state", "label")} == {
        name: before[name] for name in ("decision_state", "label")
    }
    with pytest.raises(FrameError, match="8 of 8 runs are here without their texts"):
        runs_of(bare.catalog, "test", 1, freezing_rule(loaded.tokenizer, caps))
