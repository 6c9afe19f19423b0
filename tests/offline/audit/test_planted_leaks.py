"""Leaks and forgeries, planted one by one in a published policy: each is caught, by the check that should catch it.

Where the forger trains, calibrates and publishes again, every hash is in order and only the one check that computes
the truth again can see it.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from drsr.golden import read_golden
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.audit import future, labels, splits
from drsr.offline.feature_files import FeatureBlock, read_file, write_file
from drsr.offline.feature_views import get_view
from drsr.offline.ingest import ingest
from drsr.offline.policy_package import build_package
from drsr.offline.splits import assign_split, group_key
from drsr.offline.train import read_inputs
from drsr.offline.trajectories import Trajectory
from drsr.policy_description import CARD_FILE, LINEAGE_FILE
from drsr.policy_location import read_found
from drsr.scorer.ensemble import Ensemble, Normaliser, fit_normaliser
from tests.offline.audit.published import (
    ALL_BUT_RULES,
    WITHOUT_MODEL,
    PublishedPipeline,
    ask,
    audited,
    by_hand,
    failures,
    trained_again,
)
from tests.offline.chat_files import task_in_split, write_json
from tests.offline.small_pipeline import Pipeline


def test_an_untouched_release_passes(release: PublishedPipeline) -> None:
    audit = audited(release, ALL_BUT_RULES, sample=3)
    assert failures(audit) == {}
    assert audit.passed
    assert len(audit.verdicts) == len(audit.sections) == 9
    assert all(verdict.detail for verdict in audit.verdicts)


def test_a_future_token_in_a_feature(release: PublishedPipeline, tmp_path: Path) -> None:
    """One column of one state says how long the output will be. Everything is trained on it, and every hash fits."""
    pipeline = release.pipeline
    key, blob, decision, trajectory = ask(
        pipeline,
        "SELECT s.state_key, f.blob, s.decision_index, t.blob FROM decision_state s JOIN trajectory t ON "
        "t.id = s.trajectory_id JOIN state_features sf ON sf.state_id = s.id JOIN feature_file f ON f.id = sf.file_id "
        "WHERE t.split = 'train' ORDER BY s.state_key",
    )[0]
    run = Trajectory.from_json(pipeline.artifacts.get(trajectory))
    ahead = len(run.request["messages"][decision]["content"])
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    rows = read_file(pipeline.artifacts, view, blob)
    blocks = []
    for state in dict.fromkeys(rows.state_keys):
        mine = [number for number, found in enumerate(rows.state_keys) if found == state]
        matrix = rows.matrix[mine]
        if state == key:
            matrix[:, 3] += np.float32(1e-3 * ahead)
        blocks.append(FeatureBlock(state, rows.prefix_hashes[mine[0]], view.identity.layout_hash, matrix))
    leaking = write_file(pipeline.artifacts, view, blocks)
    by_hand(pipeline, "UPDATE feature_file SET blob = ? WHERE blob = ?", leaking, blob)
    forged = trained_again(pipeline, tmp_path / "forged")
    caught = failures(audited(forged, [future.CHECK], sample=None))
    assert caught == {"no future in a feature": f"state {key}"}
    assert failures(audited(forged)) == {}


def test_a_trajectory_in_two_splits(release: PublishedPipeline, tmp_path: Path) -> None:
    """A run of the training split, ingested once more under another name and a task of the test split."""
    pipeline = release.pipeline
    blob, name = ask(pipeline, "SELECT blob, external_id FROM trajectory WHERE split = 'train' ORDER BY id")[0]
    run = Trajectory.from_json(pipeline.artifacts.get(blob))
    again = {**run.request, "id": "somebody-else", "task": _other_test_task()}
    write_json(tmp_path / "more" / "copy.json", again)
    ingest(pipeline.catalog, pipeline.artifacts, str(tmp_path / "more"), source="more")
    caught = failures(audited(release))
    assert list(caught) == ["splits hold"]
    assert f"in train as runs/{name}" in caught["splits hold"]
    assert "in test as more/copy.json#somebody-else" in caught["splits hold"]


def test_a_run_whose_task_is_another_in_its_newer_version(release: PublishedPipeline) -> None:
    """It stays where it was, which is no fault; that another run of its new task is in the test split, is one."""
    pipeline = release.pipeline
    ((before,),) = ask(pipeline, "SELECT min(location) FROM source_file")
    moved = (before.partition("/runs/")[0], str(pipeline.folder))
    by_hand(pipeline, "UPDATE source_file SET location = replace(location, ?, ?)", *moved)
    first, second = sorted((pipeline.folder / "runs").glob("train-*.json"))[:2]
    ((task,),) = ask(pipeline, "SELECT task FROM trajectory WHERE split = 'test'")
    write_json(first, json.loads(first.read_text()) | {"task": _other_test_task()}, long_ago=False)
    ingest(pipeline.catalog, pipeline.artifacts, str(first.parent), source="runs")
    assert ask(pipeline, "SELECT count(*) FROM trajectory WHERE superseded_by IS NOT NULL") == [(1,)]
    assert failures(audited(release, [splits.CHECK])) == {}
    write_json(second, json.loads(second.read_text()) | {"task": task}, long_ago=False)
    ingest(pipeline.catalog, pipeline.artifacts, str(first.parent), source="runs")
    caught = failures(audited(release, [splits.CHECK]))
    assert f"in train as runs/{second.name}" in caught["splits hold"]
    assert caught["splits hold"].startswith("the same task is in ")


def _other_test_task() -> str:
    tasks = (f"copy-{number}" for number in itertools.count())
    return next(task for task in tasks if assign_split(group_key("", "", task)) == "test")


def test_a_trajectory_that_was_moved_to_another_split(release: PublishedPipeline) -> None:
    pipeline = release.pipeline
    ((name,),) = ask(pipeline, "SELECT external_id FROM trajectory WHERE split = 'test'")
    _move(pipeline, "test", "train")
    caught = failures(audited(release))
    assert f"trajectory runs/{name} is in train; the hash of its group assigns it to test" in caught["splits hold"]


def test_a_task_that_was_renamed_for_one_of_its_runs(release: PublishedPipeline) -> None:
    """The catalog's columns agree with each other; the run's own bytes do not agree with them."""
    pipeline = release.pipeline
    ((name, group),) = ask(pipeline, "SELECT external_id, group_key FROM trajectory WHERE split = 'test'")
    other = f"task:{task_in_split('validation')}-forged"
    by_hand(pipeline, "INSERT INTO split_group (group_key, split) VALUES (?, 'validation')", other)
    by_hand(pipeline, "UPDATE trajectory SET group_key = ?, split = 'validation' WHERE split = 'test'", other)
    caught = failures(audited(release))
    assert f"trajectory runs/{name} is filed as {other!r}; its own bytes say {group!r}" in caught["splits hold"]


def test_a_test_label_in_calibration(release: PublishedPipeline, tmp_path: Path) -> None:
    """A test run counts as validation while the policy is calibrated, and is put back afterwards."""
    pipeline = release.pipeline
    ((group,),) = ask(pipeline, "SELECT group_key FROM trajectory WHERE split = 'test'")
    states = ask(
        pipeline,
        "SELECT s.state_key FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id WHERE t.split = 'test'",
    )
    _move(pipeline, "test", "validation", group)
    forged = trained_again(pipeline, tmp_path / "forged")
    _move(pipeline, "validation", "test", group)
    caught = failures(audited(forged))
    assert caught.keys() == {"splits hold", "calibration repeated", "hash chain to the trajectories"}
    assert (
        f"{len(states)} states of the test split are among those that the policy was made from" in caught["splits hold"]
    )
    assert "shipped states is 8, searched again it is 6" in caught["calibration repeated"]
    assert (
        "of split validation are not those that the scorer was trained on" in caught["hash chain to the trajectories"]
    )


def test_a_test_label_in_calibration_that_stays_there(release: PublishedPipeline, tmp_path: Path) -> None:
    """Not put back, everything can be computed again and only the run's own bytes say where it belongs."""
    pipeline = release.pipeline
    _move(pipeline, "test", "validation")
    caught = failures(audited(trained_again(pipeline, tmp_path / "forged")))
    assert list(caught) == ["splits hold"]
    assert "is in validation; the hash of its group assigns it to test" in caught["splits hold"]


def _move(pipeline: Pipeline, here: str, there: str, group: str | None = None) -> None:
    for table in ("split_group", "trajectory"):
        which = "group_key = ?" if group else "split = ?"
        by_hand(pipeline, f"UPDATE {table} SET split = ? WHERE {which}", there, group or here)


def test_a_changed_label(release: PublishedPipeline, tmp_path: Path) -> None:
    """Harm, measurement and verdict are changed together, before training. Only measuring again can see it."""
    pipeline = release.pipeline
    state_id, key = _labelled(pipeline, "train")
    by_hand(
        pipeline,
        "UPDATE label SET harm = harm + 0.5, deleted_nll = deleted_nll + 0.5, unsafe = 1 "
        "WHERE state_id = ? AND mask = 3",
        state_id,
    )
    forged = trained_again(pipeline, tmp_path / "forged")
    caught = failures(audited(forged, [labels.CHECK], sample=None))
    assert list(caught) == ["labels remeasured"]
    assert caught["labels remeasured"].startswith(f"state {key}, deletion set 3: recorded +")
    assert failures(audited(forged)) == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            "harm = harm + 0.5, deleted_nll = deleted_nll + 0.5, unsafe = 1",
            "link labels is not the one that the policy",
        ),
        ("harm = harm + 0.5, unsafe = 1", "its harm or verdict does not follow from its NLLs"),
    ],
)
def test_a_label_that_was_changed_after_publishing(release: PublishedPipeline, change: str, says: str) -> None:
    """The chain sees it in every state, without a sample."""
    state_id, _ = _labelled(release.pipeline, "train")
    by_hand(release.pipeline, f"UPDATE label SET {change} WHERE state_id = ? AND mask = 3", state_id)
    caught = failures(audited(release))
    assert says in caught["hash chain to the trajectories"]


def _labelled(pipeline: Pipeline, split: str) -> tuple[int, str]:
    state_id, key = ask(
        pipeline,
        "SELECT s.id, s.state_key FROM decision_state s JOIN trajectory t ON t.id = s.trajectory_id "
        "WHERE t.split = ? ORDER BY s.state_key",
        split,
    )[0]
    return state_id, key


def test_a_row_that_no_frame_can_be_made_of(release: PublishedPipeline) -> None:
    """A safe set is called unsafe. What needs the frames says so; what does not, is checked all the same."""
    state_id, key = _labelled(release.pipeline, "train")
    by_hand(release.pipeline, "UPDATE label SET harm = -1.0, unsafe = 1 WHERE state_id = ? AND mask = 3", state_id)
    caught = failures(audited(release, [*WITHOUT_MODEL, labels.CHECK], sample=None))
    unable = {"hash chain to the trajectories", "normaliser refitted", "calibration repeated"}
    assert caught.keys() == {*unable, "labels remeasured"}
    for name in unable:
        assert caught[name].startswith("could not be checked: ")
        assert key in caught[name]
    assert caught["labels remeasured"].startswith(f"state {key}, deletion set 3: recorded -1.000000 unsafe")


def test_a_swapped_weight_file_in_the_wheel(release: PublishedPipeline) -> None:
    """The forger builds the wheel anew: manifest, RECORD and archive are in order, the weights are others."""
    swapped = _other_weights(load_shipped(release))
    forge(release, scorer=swapped)
    caught = failures(audited(release))
    assert "scorer.safetensors in drsr_policy-" in caught["weight files"]
    assert "has SHA-256" in caught["weight files"]
    assert "hash chain to the trajectories" in caught


def test_a_swapped_weight_file_in_the_store(release: PublishedPipeline) -> None:
    ((weights,),) = ask(release.pipeline, "SELECT weights FROM training_run")
    root = release.pipeline.folder / "artifacts"
    elsewhere = ArtifactStore(str(release.pipeline.folder / "elsewhere"))
    other = elsewhere.put(b"other weights")
    swapped = release.pipeline.folder / "elsewhere" / other[:2] / other
    (root / weights[:2] / weights).write_bytes(swapped.read_bytes())
    caught = failures(audited(release))
    assert f"the stored weights: artifact {weights} has another hash" in caught["weight files"]


def test_a_wheel_with_a_flipped_byte(release: PublishedPipeline) -> None:
    data = bytearray(release.wheel.read_bytes())
    place = data.index(b"normaliser.mean")
    data[place + 2_000] ^= 1
    release.wheel.write_bytes(bytes(data))
    audit = audited(release)
    caught = failures(audit)
    assert "drsr_policy-" in caught["weight files"]
    assert (
        "the policy's files are not as listed" in caught["weight files"] or "cannot be read" in caught["weight files"]
    )
    assert "could not be checked" in caught["calibration repeated"]
    assert "not readable" in audit.about


def test_other_stored_evaluations(release: PublishedPipeline) -> None:
    ((history,),) = ask(release.pipeline, "SELECT history FROM training_run")
    (release.pipeline.folder / "artifacts" / history[:2] / history).unlink()
    assert failures(audited(release)) == {
        "weight files": f"the stored evaluations: artifact {history} is missing",
    }


def test_another_threshold_in_the_wheel(release: PublishedPipeline) -> None:
    numbers = read_found(str(release.wheel)).numbers
    assert numbers.risk_threshold is not None
    forge(release, risk_threshold=numbers.risk_threshold + 0.1)
    caught = failures(audited(release))
    assert f"shipped risk_threshold is {numbers.risk_threshold + 0.1}" in caught["calibration repeated"]
    assert "the wheel has SHA-256" in caught["hash chain to the trajectories"]


def test_a_normaliser_that_saw_the_validation_split(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained with means and scales of both splits. The hashes are those of what was trained."""
    pipeline = release.pipeline
    by_hand(pipeline, "DELETE FROM policy_release")
    by_hand(pipeline, "DELETE FROM calibration_run")
    by_hand(pipeline, "DELETE FROM training_run")
    other = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "train").validation

    def leaking(candidates: np.ndarray, used: np.ndarray | None = None) -> Normaliser:
        return fit_normaliser(np.concatenate([candidates, other.features[other.present]]), used)

    monkeypatch.setattr("drsr.offline.training.fit_normaliser", leaking)
    audit = audited(trained_again(pipeline, tmp_path / "forged"))
    caught = failures(audit)
    assert list(caught) == ["normaliser refitted"]
    assert "column " in caught["normaliser refitted"]
    assert "fits the training and validation splits together" in audit.failures[0].detail


def test_a_read_of_the_test_split_to_calibrate(release: PublishedPipeline) -> None:
    by_hand(
        release.pipeline,
        "INSERT INTO split_read (view_id, labeler_id, split, purpose, states, labels, excluded, code_version, read_at) "
        "SELECT view_id, labeler_id, 'test', 'calibrate', 2, 14, 0, code_version, read_at FROM split_read LIMIT 1",
    )
    caught = failures(audited(release))
    assert list(caught) == ["split reads"]
    assert caught["split reads"].startswith("the test split was read to calibrate on 20")


def test_a_calibration_that_nobody_read_labels_for(release: PublishedPipeline) -> None:
    by_hand(release.pipeline, "DELETE FROM split_read WHERE purpose = 'calibrate'")
    caught = failures(audited(release))
    assert list(caught) == ["split reads"]
    assert "labels of validation to calibrate is recorded before" in caught["split reads"]


def test_a_trajectory_whose_bytes_are_others(release: PublishedPipeline) -> None:
    one, other = [blob for (blob,) in ask(release.pipeline, "SELECT blob FROM trajectory WHERE split = 'train'")][:2]
    by_hand(release.pipeline, "UPDATE trajectory SET blob = ? WHERE blob = ?", other, one)
    caught = failures(audited(release))
    assert "is not the one that was ingested" in caught["hash chain to the trajectories"]


def test_a_policy_of_another_catalog(release: PublishedPipeline) -> None:
    by_hand(release.pipeline, "DELETE FROM policy_release")
    assert failures(audited(release)) == {
        "hash chain to the trajectories": f"this catalog has not published a version {_version(release)}"
    }
    by_hand(release.pipeline, "UPDATE calibration_run SET calibration_key = ?", "0" * 64)
    caught = failures(audited(release))
    assert "is not in this catalog" in caught["hash chain to the trajectories"]
    assert "could not be checked" in caught["normaliser refitted"]


def test_states_that_the_wheel_does_not_name(release: PublishedPipeline) -> None:
    """The list of states that the lineage points to is another one."""
    ((states,),) = ask(release.pipeline, "SELECT states FROM policy_release")
    keys = orjson.loads(release.pipeline.artifacts.get(states))
    shorter = release.pipeline.artifacts.put(orjson.dumps(keys[1:]))
    lineage = orjson.loads(read_found(str(release.wheel)).others[LINEAGE_FILE]) | {"states": shorter}
    forge(release, lineage=orjson.dumps(lineage))
    caught = failures(audited(release))
    assert "link states (splits) is not the one" in caught["hash chain to the trajectories"]
    assert "the policy names other states" in caught["hash chain to the trajectories"]


def load_shipped(release: PublishedPipeline) -> Ensemble:
    return read_found(str(release.wheel)).scorer


def forge(
    release: PublishedPipeline, *, scorer: Ensemble | None = None, lineage: bytes | None = None, **numbers: float
) -> None:
    """Build the wheel anew with other contents, every hash inside it in order."""
    files = read_found(str(release.wheel))
    package = build_package(
        replace(files.numbers, **numbers),  # type: ignore[arg-type]
        scorer or files.scorer,
        read_golden(files, str(release.wheel)),
        lineage or files.others[LINEAGE_FILE],
        files.others[CARD_FILE].decode(),
    )
    release.wheel.write_bytes(package.data)


def _other_weights(scorer: Ensemble) -> Ensemble:
    name = sorted(scorer.parameters)[0]
    return replace(scorer, parameters={**scorer.parameters, name: scorer.parameters[name] + np.float32(0.01)})


def _version(release: PublishedPipeline) -> str:
    return read_found(str(release.wheel)).numbers.version
