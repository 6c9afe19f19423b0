"""The train stage on a catalog: what it records, that it repeats nothing, goes on after a kill, and refuses early."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sqlalchemy import delete, select, update

from drsr.errors import (
    ArtifactCorrupt,
    DrsrError,
    FeaturesMissing,
    FeatureViewError,
    FrameError,
    LabelersMixed,
    OneClassOnly,
    OneTrajectoryOnly,
    SettingsError,
)
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead, StateFeatures
from drsr.offline.catalog.label_tables import Claim, Label
from drsr.offline.catalog.scorer_tables import TrainingRun
from drsr.offline.catalog.tables import Execution
from drsr.offline.ingest.splits import Split
from drsr.offline.store import claims
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS, FULL, find_ablation
from drsr.offline.train.evaluations import Evaluation
from drsr.offline.train.fitting import train_scorer
from drsr.offline.train.scored_sets import score_frame
from drsr.offline.train.stage import (
    Trained,
    TrainingInputs,
    find_trained,
    load_trained,
    read_inputs,
    train,
    training_key,
)
from drsr.scorer.ensemble import Ensemble
from drsr.scorer.weights import scorer_bytes
from tests.offline.logical_content import content_hash_of_catalog
from tests.offline.stored_examples import Rows
from tests.offline.stored_frames import GROUPS, fill, quick_params

PARAMS = quick_params().train


@pytest.fixture
def inputs(catalog: Catalog, artifacts: ArtifactStore) -> TrainingInputs:
    fill(catalog, artifacts)
    return read_inputs(catalog, artifacts, "default", "default", "train")


def rows(catalog: Catalog, table: Any) -> list[Any]:
    with catalog.reading() as connection:
        return list(connection.execute(select(table).order_by(table.id)).mappings())


def run_train(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, folder: Path, **options: Any
) -> list[Trained]:
    given = {"params": PARAMS} | options
    return train(catalog, artifacts, inputs, checkpoints=folder / "checkpoints", **given)


def test_a_scorer_is_recorded_with_all_that_it_was_made_from(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    seen: list[tuple[str, list[Evaluation]]] = []
    ((record, is_new),) = run_train(
        catalog, artifacts, inputs, tmp_path, progress=lambda ablation, some: seen.append((ablation.name, some))
    )
    assert is_new
    assert [(name, some[0].epoch) for name, some in seen] == [("full", 5), ("full", 10)]
    (row,) = rows(catalog, TrainingRun)
    assert (row["ablation"], row["seeds"], row["params"]["learning_rate"]) == ("full", [11, 29], 2e-3)
    assert (row["layout_hash"], row["run_key"]) == (inputs.train.layout_hash, training_key(inputs, PARAMS, FULL))
    assert (row["train_hash"], row["validation_hash"]) == (inputs.train_hash, inputs.validation_hash)
    assert (row["train_sets"], row["train_trajectories"]) == (len(inputs.train), 16)
    assert (row["validation_sets"], row["validation_trajectories"]) == (len(inputs.validation), 10)
    direct = train_scorer(inputs.train, inputs.validation, PARAMS, column_groups=GROUPS)
    assert artifacts.get(row["weights"]) == scorer_bytes(direct.ensemble)
    assert row["chosen_epochs"] == [chosen.epoch for chosen in direct.chosen]
    assert [member["unsafe_auroc"] for member in row["metrics"]["members"]] == [
        chosen.quality.unsafe_auroc for chosen in direct.chosen
    ]
    history = orjson.loads(artifacts.get(row["history"]))
    assert [(each["epoch"], each["seed"]) for each in history] == [(5, 11), (5, 29), (10, 11), (10, 29)]
    ensemble = load_trained(artifacts, record)
    np.testing.assert_array_equal(
        score_frame(ensemble, inputs.validation).unsafe_mean,
        score_frame(direct.ensemble, inputs.validation).unsafe_mean,
    )
    area = next(metric for metric in row["metrics"]["ensemble"] if metric["name"] == "unsafe AUROC")
    assert area["low"] <= area["value"] <= area["high"]
    assert list((tmp_path / "checkpoints").iterdir()) == []  # nothing is left of the run but its record and artifacts


def test_every_read_is_recorded_and_none_is_of_test(catalog: Catalog, inputs: TrainingInputs) -> None:
    reads = [(row["split"], row["purpose"]) for row in rows(catalog, SplitRead)]
    assert reads == [("train", "train"), ("validation", "train")]


def test_the_same_inputs_are_not_trained_twice(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    first = run_train(catalog, artifacts, inputs, tmp_path)
    again = read_inputs(catalog, artifacts, "default", "default", "train")
    with catalog.reading() as connection:
        before = content_hash_of_catalog(connection)
    second = run_train(
        catalog, artifacts, again, tmp_path, progress=lambda ablation, some: pytest.fail("trained again")
    )
    assert [result.is_new for result in (*first, *second)] == [True, False]
    assert first[0].record == second[0].record
    assert [row["stage"] for row in rows(catalog, Execution)] == ["train"]
    with catalog.reading() as connection:
        assert content_hash_of_catalog(connection) == before
    assert find_trained(catalog, artifacts, again, PARAMS) == first[0].record


def test_another_label_or_parameter_is_another_scorer(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    run_train(catalog, artifacts, inputs, tmp_path)
    assert find_trained(catalog, artifacts, inputs, replace(PARAMS, learning_rate=1e-3)) is None
    assert find_trained(catalog, artifacts, inputs, PARAMS, find_ablation("hidden-only")) is None
    with catalog.writing() as connection:
        one = connection.execute(select(Label.state_id, Label.mask).where(Label.harm < 0)).first()
        assert one is not None
        changed = update(Label).where(Label.state_id == one[0], Label.mask == one[1])
        connection.execute(changed.values(harm=Label.harm - 1e-9))
    after = read_inputs(catalog, artifacts, "default", "default", "train")
    assert find_trained(catalog, artifacts, after, PARAMS) is None
    (result,) = run_train(catalog, artifacts, after, tmp_path)
    assert result.is_new
    assert len(rows(catalog, TrainingRun)) == 2


def test_ablations_are_trained_each_once(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    short = replace(PARAMS, max_epochs=5, seeds=(11,))
    wanted = [*ABLATIONS.values()]
    results = run_train(catalog, artifacts, inputs, tmp_path, params=short, ablations=wanted)
    names = [name for name in ABLATIONS if name != "no-abstention"]  # which selects otherwise, and is the full scorer
    assert [result.record.ablation for result in results] == names
    assert len({result.record.weights for result in results}) == len(names)
    for result in results:
        scorer = load_trained(artifacts, result.record)
        assert isinstance(scorer, Ensemble)
        assert scorer.parts == find_ablation(result.record.ablation).parts
    again = run_train(catalog, artifacts, inputs, tmp_path, params=short, ablations=[find_ablation("no-abstention")])
    assert [(result.record.ablation, result.is_new) for result in again] == [("full", False)]


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_bits(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    longer = replace(PARAMS, max_epochs=20)

    def kill(ablation: object, evaluations: list[Evaluation]) -> None:
        if evaluations[0].epoch == 10:
            raise Killed

    with pytest.raises(Killed):
        run_train(catalog, artifacts, inputs, tmp_path, params=longer, progress=kill)
    assert rows(catalog, TrainingRun) == []
    assert [row["finished_at"] for row in rows(catalog, Execution)] == [None]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    epochs: list[int] = []
    (resumed,) = run_train(
        catalog,
        artifacts,
        inputs,
        tmp_path,
        params=longer,
        progress=lambda ablation, evaluations: epochs.append(evaluations[0].epoch),
    )
    assert epochs == [15, 20]
    whole = train_scorer(inputs.train, inputs.validation, longer, column_groups=GROUPS)
    assert artifacts.get(resumed.record.weights) == scorer_bytes(whole.ensemble)
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_two_workers_train_it_once(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter(range(10))
    monkeypatch.setattr(claims, "this_worker", lambda: f"host-{next(numbers)}/1/1")
    together, results = threading.Barrier(2), []

    def work() -> None:
        together.wait()
        results.extend(run_train(catalog, artifacts, inputs, tmp_path))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.is_new for result in results) == [False, True]
    assert results[0].record == results[1].record
    assert len(rows(catalog, TrainingRun)) == 1
    with catalog.reading() as connection:
        assert connection.execute(select(Claim.item)).all() == []


def test_lost_weights_are_made_again(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    (first,) = run_train(catalog, artifacts, inputs, tmp_path)
    weights = tmp_path / "artifacts" / first.record.weights[:2] / first.record.weights
    before = weights.read_bytes()
    weights.unlink()
    assert find_trained(catalog, artifacts, inputs, PARAMS) is None
    (again,) = run_train(catalog, artifacts, inputs, tmp_path)
    assert weights.read_bytes() == before
    assert len(rows(catalog, TrainingRun)) == 1
    weights.unlink()
    with catalog.writing() as connection:  # as if another machine, which computes other bits, had trained it
        connection.execute(update(TrainingRun).values(weights="0" * 64))
    with pytest.raises(ArtifactCorrupt, match="training again gave others"):
        run_train(catalog, artifacts, inputs, tmp_path)
    assert again.record == first.record


def only_safe(split: Split, given: Rows) -> Rows:
    labels = [label._replace(harm=-0.01, unsafe=False) for label in given.labels]
    return given._replace(labels=labels) if split == "validation" else given


def only_unsafe(split: Split, given: Rows) -> Rows:
    labels = [label._replace(harm=0.5, unsafe=True) for label in given.labels]
    return given._replace(labels=labels) if split == "train" else given


def one_trajectory(split: Split, given: Rows) -> Rows:
    if split == "test":
        return given
    first = given.states[0].trajectory_id
    states = [state for state in given.states if state.trajectory_id == first]
    kept = {state.state_id for state in states}
    return Rows(states, [label for label in given.labels if label.state_id in kept], given.features)


def another_tolerance(split: Split, given: Rows) -> Rows:
    labels = [label._replace(unsafe=label.harm > 0.01) for label in given.labels]
    return given._replace(labels=labels) if split == "train" else given


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (only_safe, OneClassOnly),
        (only_unsafe, OneClassOnly),
        (one_trajectory, OneTrajectoryOnly),
        (another_tolerance, LabelersMixed),
    ],
)
def test_examples_that_nothing_may_be_fitted_on(
    catalog: Catalog, artifacts: ArtifactStore, spoil: Any, error: type[DrsrError]
) -> None:
    fill(catalog, artifacts, spoil)
    with pytest.raises(error):
        read_inputs(catalog, artifacts, "default", "default", "train")
    assert rows(catalog, TrainingRun) == []
    assert rows(catalog, Execution) == []


def test_a_labelled_state_without_features(catalog: Catalog, artifacts: ArtifactStore) -> None:
    fill(catalog, artifacts)
    with catalog.writing() as connection:
        one = connection.execute(select(StateFeatures.state_id)).scalars().first()
        connection.execute(delete(StateFeatures).where(StateFeatures.state_id == one))
    with pytest.raises(FeaturesMissing, match="drsr featurize"):
        read_inputs(catalog, artifacts, "default", "default", "train")


def test_names_that_are_not_there(catalog: Catalog, artifacts: ArtifactStore) -> None:
    fill(catalog, artifacts)
    with pytest.raises(FrameError, match="no labeler is called 'other'"):
        read_inputs(catalog, artifacts, "default", "other", "train")
    with pytest.raises(FeatureViewError, match="no feature view is called 'other'"):
        read_inputs(catalog, artifacts, "other", "default", "train")


def test_a_configuration_that_cannot_be_is_refused_before_any_is_fitted(
    catalog: Catalog, artifacts: ArtifactStore, inputs: TrainingInputs, tmp_path: Path
) -> None:
    """The last of three configurations has no column to use: the first two are not trained either."""
    without = TrainingInputs(
        inputs.train, inputs.validation, inputs.view_id, inputs.labeler_id, ("structural",) * len(GROUPS)
    )
    for name in ("hidden-only", "mismatched-state"):
        wanted = [FULL, find_ablation("no-pair-pooling"), find_ablation(name)]
        with pytest.raises(SettingsError, match="layout has no"):
            run_train(
                catalog,
                artifacts,
                without,
                tmp_path,
                ablations=wanted,
                progress=lambda ablation, some: pytest.fail("something was fitted"),
            )
    assert rows(catalog, Execution) == []
