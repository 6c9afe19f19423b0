"""Files that are not the ones that were made: weights, wheels, trajectories, lists. Each is caught by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from drsr.decide.distribution import DistributionNumbers, TrainingDistribution
from drsr.offline.audit.checks import normaliser
from drsr.offline.publish.candidate import distribution_of
from drsr.offline.publish.subject import Order, Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train import distribution
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.location import read_found
from drsr.scorer.ensemble import Ensemble
from tests.offline.audit.forging import forge, load_shipped
from tests.offline.audit.published import (
    PublishedPipeline,
    ask,
    audited,
    by_hand,
    failures,
)
from tests.seeded_policies import plain_distribution


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
    caught = failures(audited(release))
    assert caught.keys() == {"weight files", "scorer judged again"}
    assert caught["weight files"] == f"the stored evaluations: artifact {history} is missing"


def test_another_threshold_in_the_wheel(release: PublishedPipeline) -> None:
    numbers = read_found(str(release.wheel)).numbers
    assert numbers.risk_threshold is not None
    forge(release, risk_threshold=numbers.risk_threshold + 0.1)
    caught = failures(audited(release))
    assert f"shipped risk_threshold is {numbers.risk_threshold + 0.1}" in caught["calibration repeated"]
    assert "the wheel has SHA-256" in caught["hash chain to the trajectories"]


def test_a_distribution_that_the_frames_do_not_give(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forger raises the limit, so that no request is ever called unlike the training states; or makes it all up."""

    def caught(found: TrainingDistribution, numbers: DistributionNumbers) -> dict[str, str]:
        forge(release, known=found, distribution=replace(numbers, sha256=found.sha256))
        return failures(audited(release, [normaliser.CHECK]))

    made_up = plain_distribution()
    assert "too few states" in caught(made_up, DistributionNumbers("", 1.0, 20))["normaliser refitted"]
    monkeypatch.setattr(distribution, "FEWEST_STATES", 2)  # the small pipeline has no twenty
    monkeypatch.setattr(distribution, "FOLDS", 2)
    pipeline = release.pipeline
    fitted = distribution_of(Subject(pipeline.catalog, pipeline.artifacts, Order(policy=str(release.wheel))).traced)
    assert fitted is not None
    found, numbers = fitted
    assert caught(found, numbers) == {}
    wide = caught(found, replace(numbers, limit=1_000.0))
    assert f"its limit is {numbers.limit:g}" in wide["normaliser refitted"]
    assert "comes out differently" in caught(plain_distribution(len(found.mean)), numbers)["normaliser refitted"]


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


def _other_weights(scorer: Ensemble) -> Ensemble:
    name = sorted(scorer.parameters)[0]
    return replace(scorer, parameters={**scorer.parameters, name: scorer.parameters[name] + np.float32(0.01)})


def _version(release: PublishedPipeline) -> str:
    return read_found(str(release.wheel)).numbers.version
