"""Expectations of a catalog that went through the real stages: all kept; what is planted in it is caught by name."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import insert, select

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import ExpectationFailed
from drsr.expectations.__main__ import main
from drsr.expectations.judging import DATASETS, judge, present, require
from drsr.expectations.required import REQUIRED
from drsr.offline.audit.release import gated_order
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.featurize.files import FeatureBlock, read_file, write_file
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.shared_subjects import SharedSubject, subjects_on_two_sides
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept
from drsr.offline.verdicts import Verdict
from drsr.request.view import Caps
from tests.offline.small_pipeline import Pipeline, add_runs, publish_quickly

BEFORE_PUBLISHING = DATASETS[:-1]


def rule_of(verdict: Verdict) -> str:
    return verdict.check.partition(": ")[2]


def broken(catalog: Catalog, artifacts: ArtifactStore, *datasets: str) -> set[str]:
    """The rules that are broken."""
    return {rule_of(verdict) for verdict in judge(catalog, artifacts, datasets) if not verdict.passed}


def test_a_part_of_a_dataset_is_judged_alone(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own rules, and without the work of reading the others: `subjects` opens every stored run."""
    opened: list[Catalog] = []

    def subjects(catalog: Catalog, artifacts: ArtifactStore, kept: Kept | None) -> list[SharedSubject]:
        opened.append(catalog)
        return subjects_on_two_sides(catalog, artifacts, kept)

    monkeypatch.setattr("drsr.expectations.frames.splits.subjects_on_two_sides", subjects)
    kept = judge(pipeline.catalog, pipeline.artifacts, ["splits.reads", "splits.fits"])
    assert {(rule_of(verdict), verdict.passed) for verdict in kept} == {
        ("test split never read by train or calibrate", True),
        ("whatever was fitted has read its split on record", True),
    }
    plant(pipeline, "DELETE FROM split_read")
    fits = {"whatever was fitted has read its split on record"}
    assert broken(pipeline.catalog, pipeline.artifacts, "splits.fits") == fits
    assert broken(pipeline.catalog, pipeline.artifacts, "splits.places") == set()
    assert opened == []
    assert broken(pipeline.catalog, pipeline.artifacts, "splits", "splits.places") == fits
    assert opened == [pipeline.catalog]


def test_everything_is_kept_also_after_publishing(pipeline: Pipeline, tmp_path: Path) -> None:
    assert present(pipeline.catalog) == BEFORE_PUBLISHING
    assert broken(pipeline.catalog, pipeline.artifacts, "policy") == {"there is a release"}
    publish_quickly(pipeline, gated_order(tmp_path / "index"))
    assert present(pipeline.catalog) == DATASETS
    verdicts = judge(pipeline.catalog, pipeline.artifacts, docs=tmp_path / "docs")
    require(verdicts)
    assert {tuple(verdict.check.split(": ", 1)) for verdict in verdicts} == {
        (dataset, rule) for dataset, rules in REQUIRED.items() for rule in rules
    }
    assert (tmp_path / "docs" / "index.html").is_file()
    # A policy that was made of a test trajectory, and one whose numbers are others than the catalog's.
    plant(pipeline, "UPDATE calibration_run SET risk_threshold = risk_threshold + 0.001")
    plant(
        pipeline,
        "UPDATE trajectory SET split = 'test' WHERE id = (SELECT min(id) FROM trajectory WHERE split = 'train')",
    )
    assert broken(pipeline.catalog, pipeline.artifacts, "policy") == {
        "the policy's numbers are those of its calibration",
        "a policy is made of train and validation only",
    }


def test_the_command(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in pipeline.settings.items():
        monkeypatch.setenv(name, value)
    assert main(["labels", "splits", "--docs", str(tmp_path / "docs")]) == 0
    assert "index.html" in capsys.readouterr().out
    plant(pipeline, "UPDATE label SET harm = harm + 1 WHERE state_id = 1 AND mask = 1")
    assert main(["labels", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["passed"] is False
    assert main([]) == 1
    printed = capsys.readouterr().out
    assert "BROKEN  labels: H(empty) = 0" in printed
    assert "not there yet, and not judged: policy" in printed
    assert main(["lables"]) == 2
    assert "'lables' is not a dataset" in capsys.readouterr().err


PLANTED = [
    ("trajectories", "a run is of a known protocol", "UPDATE trajectory SET protocol = 'grpc' WHERE id = 1"),
    (
        "states",
        "Recent2 is never a candidate",
        "UPDATE candidate SET step_index = 99 WHERE state_id = 1 AND position = 2",
    ),
    ("states", "every candidate of a state is recorded", "DELETE FROM candidate WHERE state_id = 1 AND position = 2"),
    (
        "labels",
        "7 or 15 sets per state less recorded exclusions",
        "DELETE FROM label WHERE state_id = 1 AND mask = 7",
    ),
    (
        "labels",
        "a set of one saves what was frozen with its candidate",
        "UPDATE label SET direct_saving = direct_saving + 1 WHERE state_id = 1 AND mask = 2",
    ),
    (
        "labels",
        "a set of one saves what was frozen with its candidate",
        "UPDATE candidate SET direct_saving = direct_saving + 1 WHERE state_id = 1 AND position = 2",
    ),
    (
        "features",
        "features are of the candidates that were frozen",
        "UPDATE candidate SET direct_saving = direct_saving + 1 WHERE state_id = 1 AND position = 2",
    ),
    (
        "features",
        "features are of the candidates that were frozen",
        "UPDATE state_features SET request_tokens = request_tokens + 1 WHERE state_id = 1",
    ),
    ("labels", "unsafe = 1[H > 0.020]", "UPDATE label SET unsafe = NOT unsafe WHERE state_id = 1 AND mask = 1"),
    (
        "labels",
        "H(empty) = 0: harm is measured against the intact history",
        "UPDATE label SET harm = harm - 0.00001 WHERE state_id = 1 AND mask = 1",
    ),
    (
        "labels",
        "a state is labelled or excluded for a known reason",
        "UPDATE state_measurement SET outcome = 'excluded', reason = 'garbage', intact_nll = NULL WHERE state_id = 1",
    ),
    (
        "labels",
        "the reason for an exclusion fits the next output",
        "UPDATE state_measurement SET outcome = 'excluded', reason = 'target_too_long' WHERE state_id = 1",
    ),
    ("states", "a state stays frozen", "UPDATE decision_state SET status = 'excluded' WHERE id = 1"),
    (
        "features",
        "a state has features or a known reason for none",
        "UPDATE state_features SET outcome = 'excluded', reason = '', file_id = NULL WHERE state_id = 1",
    ),
    (
        "states",
        "a state is a decision that a model made behind its request",
        "UPDATE decision_state SET decision_index = decision_index - 1 WHERE id = 1",
    ),
    ("labels", "harm is finite", "UPDATE label SET harm = 9e999 WHERE state_id = 1 AND mask = 1"),
    (
        "labels",
        "freezing is earlier than labelling",
        "UPDATE decision_state SET frozen_at = '2099-01-01 00:00:00' WHERE id = 1",
    ),
    (
        "features",
        "prefix hash of features = that of the state",
        f"UPDATE state_features SET prefix_hash = '{'0' * 64}' WHERE state_id = 1",
    ),
    (
        "features",
        "every column is tagged online",
        'UPDATE feature_view SET columns = replace(columns, \'"structural", "share", "online"\', '
        '\'"structural", "share", "label_only"\')',
    ),
    (
        "features",
        "feature columns = layout",
        "UPDATE feature_view SET columns = replace(columns, 'step_age', 'reward')",
    ),
    (
        "features",
        "one row of features per candidate",
        "UPDATE decision_state SET candidates = 4 WHERE id = 1",
    ),
    (
        "splits",
        "a trajectory is in its group's split",
        "UPDATE trajectory SET split = 'test' WHERE id = (SELECT min(id) FROM trajectory WHERE split = 'train')",
    ),
    (
        "splits",
        "all states and sets of a trajectory in its split",
        "UPDATE feature_file SET split = 'test' WHERE id = (SELECT min(id) FROM feature_file WHERE split = 'train')",
    ),
    (
        "splits",
        "a task in exactly one split",
        "UPDATE trajectory SET task = 'one' WHERE id IN (SELECT min(id) FROM trajectory GROUP BY split)",
    ),
    (
        "splits",
        "evaluation tasks disjoint from supervision",
        "UPDATE trajectory SET task = 'web/chart-generation-L2-025' "
        "WHERE id = (SELECT min(id) FROM trajectory WHERE split = 'train')",
    ),
    (
        "splits",
        "test split never read by train or calibrate",
        "UPDATE split_read SET split = 'test' WHERE purpose = 'calibrate' AND split = 'validation'",
    ),
    ("splits", "whatever was fitted has read its split on record", "DELETE FROM split_read"),
    (
        "splits",
        "whatever was fitted has read its split on record",
        "DELETE FROM split_read WHERE purpose = 'calibrate'",  # training has read validation, too
    ),
    ("calibration", "unsafe rate within its limit", "UPDATE calibration_run SET unsafe_rate = 0.95"),
    (
        "calibration",
        "the chosen policy is an admissible one of them",
        "UPDATE calibration_run SET risk_threshold = risk_threshold + 0.001",
    ),
]


@pytest.mark.parametrize(("dataset", "rule", "statement"), PLANTED, ids=[rule for _, rule, _ in PLANTED])
def test_what_is_planted_is_caught_by_name(pipeline: Pipeline, dataset: str, rule: str, statement: str) -> None:
    plant(pipeline, statement)
    verdicts = judge(pipeline.catalog, pipeline.artifacts, [dataset])
    assert rule in {rule_of(verdict) for verdict in verdicts if not verdict.passed}
    with pytest.raises(ExpectationFailed, match=f"dataset {dataset}"):
        require(verdicts)


def test_sets_without_a_measurement_are_nobody_else_s(pipeline: Pipeline) -> None:
    """They were filed under the last state, once."""
    plant(pipeline, "DELETE FROM state_measurement WHERE state_id = 1")
    plant(
        pipeline,
        "INSERT INTO label_exclusion SELECT state_id, labeler_id, mask, 'out_of_memory', '' FROM label "
        "WHERE state_id = 1 AND mask = 3",
    )
    (caught,) = [verdict for verdict in judge(pipeline.catalog, pipeline.artifacts, ["labels"]) if not verdict.passed]
    assert rule_of(caught) == "a set belongs to a state that was measured"
    assert "8 of 8 rows: trajectory runs/" in caught.detail


def test_labelers_that_measured_different_outputs_are_caught(pipeline: Pipeline) -> None:
    """With one labeler nobody can tell, and the verdict says so. Counts are compared wherever an output comes again."""
    output, count = (
        "one and the same next output over all sets of a state",
        "target token count equal over all sets of a state",
    )
    verdicts = {rule_of(verdict): verdict for verdict in judge(pipeline.catalog, pipeline.artifacts, ["labels"])}
    assert "rows, 0 of them compared with another: a labeler writes it down once" in verdicts[output].detail
    copy_labels(pipeline)
    verdicts = {rule_of(verdict): verdict for verdict in judge(pipeline.catalog, pipeline.artifacts, ["labels"])}
    assert all(verdict.passed for verdict in verdicts.values())
    assert re.search(r"([1-9]\d*) rows, \1 of them compared with another", verdicts[output].detail)
    plant(pipeline, "UPDATE state_measurement SET target_tokens = 99 WHERE state_id = 1 AND labeler_id = 2")
    assert broken(pipeline.catalog, pipeline.artifacts, "labels") == {count}
    plant(pipeline, "UPDATE state_measurement SET target_hash = '00' WHERE state_id = 1 AND labeler_id = 2")
    assert broken(pipeline.catalog, pipeline.artifacts, "labels") == {output}


def copy_labels(pipeline: Pipeline) -> None:
    """A second labeler that measured the same."""
    with pipeline.catalog.writing() as connection:
        labeler = connection.execute(select(Labeler.__table__)).one()._asdict()
        connection.execute(insert(Labeler).values(labeler | {"id": 2, "name": "other"}))
        for table in (StateMeasurement, Label):
            rows = [row._asdict() | {"labeler_id": 2} for row in connection.execute(select(table.__table__))]
            connection.execute(insert(table), rows)


def test_features_of_another_state_are_caught(pipeline: Pipeline) -> None:
    """Under this state's key and hash, in the file as in the catalog: as if it had been computed from other tokens."""

    def exchanged(blocks: list[FeatureBlock]) -> list[FeatureBlock]:
        others = [*blocks[1:], blocks[0]]
        assert all(len(block.matrix) == len(other.matrix) for block, other in zip(blocks, others, strict=True))
        return [block._replace(matrix=other.matrix) for block, other in zip(blocks, others, strict=True)]

    rewrite(pipeline, "train", exchanged)
    assert broken(pipeline.catalog, pipeline.artifacts, "features") == {
        "features are of the candidates that were frozen"
    }


def plant(pipeline: Pipeline, statement: str) -> None:
    """Change rows by hand, past everything by which the database itself keeps order."""
    pipeline.catalog.close()
    connection = sqlite3.connect(pipeline.folder / "catalog.sqlite")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    assert connection.execute(statement).rowcount > 0
    connection.commit()
    connection.close()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_label_among_the_features_is_caught(pipeline: Pipeline, split: str) -> None:
    """Feature files of a split are written again with a column that is a function of what was measured."""
    rule = "no column equals a label or is a monotone copy of one"
    verdicts = judge(pipeline.catalog, pipeline.artifacts, ["features"])
    require(verdicts)
    said = next(verdict.detail for verdict in verdicts if rule_of(verdict) == rule)
    assert re.search(r"compared with [1-9]\d* label columns over [1-9]\d rows", said)
    smuggle(pipeline, "structural_words", lambda harm: np.exp(-3 * harm), split)
    verdicts = judge(pipeline.catalog, pipeline.artifacts, ["features"])
    (caught,) = [verdict for verdict in verdicts if not verdict.passed]
    assert rule_of(caught) == rule
    assert "structural_words" in caught.detail


def test_labelled_states_that_no_file_holds_are_no_pass(pipeline: Pipeline) -> None:
    """Nothing is compared where there is much to compare."""
    plant(pipeline, "DELETE FROM interaction")
    plant(pipeline, "UPDATE label SET harm = 0, deleted_nll = 0, unsafe = 0")
    plant(pipeline, "UPDATE state_measurement SET intact_nll = 0, target_tokens = 1")
    assert broken(pipeline.catalog, pipeline.artifacts, "features") == {
        "no column equals a label or is a monotone copy of one"
    }


def smuggle(pipeline: Pipeline, column: str, hide: object, split: str) -> None:
    assert callable(hide)
    alone = select(DecisionState.state_key, Label.mask, Label.harm).join(Label, Label.state_id == DecisionState.id)
    with pipeline.catalog.reading() as connection:
        number = [found.name for found in get_view(connection, "default").columns].index(column)
        harms = {(key, mask): harm for key, mask, harm in connection.execute(alone)}

    def hidden(blocks: list[FeatureBlock]) -> list[FeatureBlock]:
        for block in blocks:
            block.matrix[:, number] = [hide(harms[block.state_key, 1 << row]) for row in range(len(block.matrix))]
        return blocks

    rewrite(pipeline, split, hidden)


def rewrite(pipeline: Pipeline, split: str, change: Callable[[list[FeatureBlock]], list[FeatureBlock]]) -> None:
    """Write the feature files of a split again, with other numbers."""
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
        files = connection.execute(select(FeatureFile.id, FeatureFile.blob).where(FeatureFile.split == split)).all()
    for file_id, blob in files:
        rows = read_file(pipeline.artifacts, view, blob)
        blocks = []
        for key in dict.fromkeys(rows.state_keys):
            mine = [place for place, found in enumerate(rows.state_keys) if found == key]
            blocks.append(FeatureBlock(key, rows.prefix_hashes[mine[0]], view.identity.layout_hash, rows.matrix[mine]))
        stored = write_file(pipeline.artifacts, view, change(blocks))
        plant(pipeline, f"UPDATE feature_file SET blob = '{stored}' WHERE id = {file_id}")


def test_on_both_databases(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    add_runs(catalog, artifacts, tmp_path, runs={"train": 3, "test": 1})
    freeze(catalog, artifacts, ScriptedTokenizer(), Caps(10_000, 1_000))
    assert present(catalog) == ("trajectories", "states", "splits")
    assert broken(catalog, artifacts, "trajectories", "states", "splits") == set()


def test_an_empty_catalog_breaks_what_must_be_there_and_nothing_else(
    catalog: Catalog, artifacts: ArtifactStore
) -> None:
    assert present(catalog) == ()
    assert broken(catalog, artifacts, *DATASETS) == {
        *("there are trajectories", "there are states", "there are labels", "there is a feature view"),
        *("there are features", "there is something to split", "there is a calibration", "there is a release"),
    }
