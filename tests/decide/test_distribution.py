"""A decision says how far its request lies from the training states, and older policies say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors import numpy as safetensors_numpy

from drsr import load_policy
from drsr.decide.distribution import (
    DISTRIBUTION_FILE,
    FARTHEST,
    DistributionNumbers,
    TrainingDistribution,
    read_distribution,
)
from drsr.decide.numbers import PolicyNumbers
from drsr.errors import PolicyCorrupt, PolicyMismatch
from drsr.features.light import light_layout
from drsr.policy.folder import MANIFEST_FILE, POLICY_FILE, manifest_bytes
from drsr.policy.policy import Policy
from drsr.receipts.receipt import explain
from tests.policy_wheels import BODY
from tests.seeded_policies import light_policy, plain_distribution, with_distribution

NAMES = light_layout().names


def drawn(seed: int, columns: int = 5) -> tuple[TrainingDistribution, NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    mixed = generator.normal(size=(columns, columns))
    found = TrainingDistribution(
        generator.normal(size=columns).astype(np.float32),
        generator.uniform(0.5, 2, columns).astype(np.float32),
        (mixed @ mixed.T + np.eye(columns)).astype(np.float32),
    )
    return found, (10 * generator.normal(size=(3, columns + 2))).astype(np.float32)


def slow_distance(found: TrainingDistribution, features: NDArray[np.float32]) -> float:
    """The definition, one number at a time."""
    total, count = 0.0, len(found.mean)
    for row in features:
        standard = [
            max(-FARTHEST, min(FARTHEST, (float(row[column]) - float(found.mean[column])) / float(found.scale[column])))
            for column in range(count)
        ]
        for one in range(count):
            for other in range(count):
                total += standard[one] * float(found.precision[one, other]) * standard[other]
    return total / count / len(features)


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_is_the_definition(seed: int) -> None:
    found, features = drawn(seed)
    distance = found.distance(features, 1.0)
    assert distance.value == pytest.approx(slow_distance(found, features), rel=1e-9)
    by_column = found.contributions(features).mean(axis=0)
    assert distance.columns[0] == NAMES[int(np.argmax(by_column))]
    assert distance.outside == (distance.value > 1.0)


def test_a_file_is_read_back_and_a_broken_one_refused() -> None:
    found, _ = drawn(1)
    again = read_distribution(found.data, 5, DISTRIBUTION_FILE)
    assert again.sha256 == found.sha256
    tensors = {"mean": found.mean, "scale": found.scale, "precision": found.precision}
    broken: list[dict[str, Any]] = [
        {**tensors, "more": found.mean},
        {"mean": found.mean, "scale": found.scale},
        {**tensors, "scale": found.scale[:3]},
        {**tensors, "scale": np.zeros(5, dtype=np.float32)},
        {**tensors, "mean": np.full(5, np.nan, dtype=np.float32)},
        {**tensors, "mean": found.mean.astype(np.float64)},
        {name: tensor[:0] for name, tensor in tensors.items()},
    ]
    for each in broken:
        with pytest.raises(PolicyCorrupt, match=DISTRIBUTION_FILE):
            read_distribution(safetensors_numpy.save(each), 5, DISTRIBUTION_FILE)
    for data, columns in ((b"", 5), (found.data[:40], 5), (found.data, 4)):  # the scorer has fewer columns
        with pytest.raises(PolicyCorrupt, match=DISTRIBUTION_FILE):
            read_distribution(data, columns, DISTRIBUTION_FILE)


def test_numbers_without_one_are_written_as_before() -> None:
    numbers = light_policy().numbers
    assert "distribution" not in numbers.to_json()
    known = with_distribution(light_policy(), limit=2.5).numbers
    written = known.to_json()
    assert PolicyNumbers.from_json(written) == known
    assert written["distribution"]["limit"] == 2.5
    for wrong in (None, {}, {**written["distribution"], "limit": -1.0}, {**written["distribution"], "states": 0}):
        with pytest.raises(PolicyCorrupt, match="distribution"):
            PolicyNumbers.from_json({**written, "distribution": wrong})


def test_a_decision_and_its_receipt_say_it() -> None:
    silent, far, near = light_policy(), with_distribution(light_policy(), 1e-6), with_distribution(light_policy(), 1e6)
    decisions = [policy.prune(request=BODY, session=None) for policy in (silent, far, near)]
    assert decisions[0].distance is None
    assert decisions[0].receipt["distance"] is None
    assert len({str(decision.request) for decision in decisions}) == 1, "the distance decides nothing"
    outside, inside = decisions[1].distance, decisions[2].distance
    assert outside is not None
    assert inside is not None
    assert (outside.outside, inside.outside) == (True, False)
    assert outside.value == inside.value > 0
    assert decisions[1].receipt["distance"] == {
        "distance": round(outside.value, 4),
        "limit": 0.0,
        "outside": True,
        "columns": list(outside.columns),
    }
    assert f"most by {outside.columns[0]}" in decisions[1].explain()
    assert "unlike" not in decisions[2].explain()
    earlier = {name: value for name, value in decisions[0].receipt.items() if name != "distance"}
    assert "unlike" not in explain(earlier)  # a receipt from before
    assert far.prune(request=7).distance is None  # nothing was read


def test_a_session_says_it_too() -> None:
    assert (found := with_distribution(light_policy(), 1e-6).prune(request=BODY)).session is not None
    assert found.distance is not None
    assert found.distance.outside


def test_a_folder_holds_it_and_another_is_refused(tmp_path: Path) -> None:
    policy = with_distribution(light_policy(), 3.0)
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert loaded.distribution is not None
    assert loaded.distribution.sha256 == plain_distribution().sha256
    assert loaded.identity == policy.identity != light_policy().identity
    files = {path.name: path.read_bytes() for path in (tmp_path / "policy").iterdir()}
    other = drawn(2)[0].data
    for number, data in enumerate((None, other)):
        changed = {name: content for name, content in files.items() if name not in (DISTRIBUTION_FILE, MANIFEST_FILE)}
        changed |= {} if data is None else {DISTRIBUTION_FILE: data}
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in {**changed, MANIFEST_FILE: manifest_bytes(changed)}.items():
            (folder / name).write_bytes(content)
        with pytest.raises(PolicyCorrupt, match=DISTRIBUTION_FILE):
            load_policy(folder)
    assert POLICY_FILE in files


def test_the_parts_of_a_policy_belong_together() -> None:
    policy = light_policy()
    named = replace(policy.numbers, distribution=DistributionNumbers("0" * 64, 1.0, 20))
    for numbers, distribution in ((named, None), (named, plain_distribution()), (policy.numbers, plain_distribution())):
        with pytest.raises(PolicyMismatch, match="distribution"):
            Policy(numbers, policy.frozen.scorer, policy.frozen.representation, distribution=distribution)
