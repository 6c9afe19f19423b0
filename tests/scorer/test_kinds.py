"""Scorers beside the paper's: the same seam, one safetensors file, and what a damaged file gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from drsr.errors import ScorerCorrupt, ScorerError
from drsr.policy.loading import load_policy
from drsr.policy.scripted import scripted_policy
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.linear import LinearScorer
from drsr.scorer.set_description import width
from drsr.scorer.stack import StackedScorer
from drsr.scorer.trees import Forest, TreeScorer
from drsr.scorer.weights import _tensors_sha256, read_scorer, scorer_bytes
from tests.policy.test_policy import BODY
from tests.scorer.test_ensemble import COLUMNS, DIRECT, FEATURES, MASKS, SAVINGS, make_ensemble

SEEDS = (11, 29, 47)
USED = np.array([0, 3, 7], dtype=np.int32)


def make_trees(columns: int = COLUMNS, layout: str = "layout") -> TreeScorer:
    """Two trees per member and head: a stump on one number, and a deeper one."""
    generator = np.random.default_rng(4)
    column: list[int] = []
    threshold, left, right, value, roots = [], [], [], [], []
    for _ in range(len(SEEDS) * 2):
        for nodes in (3, 5):
            start = len(column)
            roots.append(start)
            inner = {0: (1, 2)} if nodes == 3 else {0: (1, 2), 2: (3, 4)}
            for node in range(nodes):
                below = inner.get(node)
                column.append(int(generator.integers(0, width(len(USED)))) if below else -1)
                threshold.append(float(generator.normal(3, 2)) if below else 0.0)
                left.append(start + (below[0] if below else node))
                right.append(start + (below[1] if below else node))
                value.append(0.0 if below else float(generator.normal(0, 0.5)))
    forest = Forest(
        np.array(column, dtype=np.int32),
        np.array(threshold),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.array(value),
        np.array(roots, dtype=np.int32).reshape(len(SEEDS), 2, 2),
        generator.normal(size=(len(SEEDS), 2)),
    )
    return TreeScorer(layout, SEEDS, columns, USED, forest)


def make_linear() -> LinearScorer:
    generator, numbers = np.random.default_rng(6), width(len(USED))
    return LinearScorer(
        "layout",
        SEEDS,
        COLUMNS,
        USED,
        generator.normal(size=numbers),
        np.abs(generator.normal(size=numbers)),
        generator.normal(size=(len(SEEDS), 2, numbers)) / 10,
        generator.normal(size=(len(SEEDS), 2)),
    )


def make_stack() -> StackedScorer:
    return StackedScorer("layout", SEEDS, (make_trees(), make_linear(), make_ensemble()))


KINDS: list[Callable[[], FrozenScorer]] = [make_trees, make_linear, make_stack]


@pytest.mark.parametrize("make", KINDS)
def test_a_file_gives_the_same_scores_and_the_same_bytes(make: Callable[[], FrozenScorer]) -> None:
    scorer = make()
    again = read_scorer(scorer_bytes(scorer), "layout")
    assert type(again) is type(scorer)
    assert again.seeds == SEEDS
    for left, right in zip(
        again.score(FEATURES, SAVINGS, MASKS, DIRECT), scorer.score(FEATURES, SAVINGS, MASKS, DIRECT), strict=True
    ):
        np.testing.assert_array_equal(left, right)
    assert scorer_bytes(again) == scorer_bytes(scorer) == scorer_bytes(make())


@pytest.mark.parametrize("make", KINDS)
def test_a_set_scores_the_same_bits_whatever_else_is_asked(make: Callable[[], FrozenScorer]) -> None:
    scorer = make()
    everything = scorer.score(FEATURES, SAVINGS, MASKS, DIRECT)
    for number, (mask, saving) in enumerate(zip(MASKS, DIRECT, strict=True)):
        alone = scorer.score(FEATURES, SAVINGS, [mask], [saving])
        assert [column[0] for column in alone] == [column[number] for column in everything]


@pytest.mark.parametrize("make", [*KINDS, make_ensemble])
def test_the_ensemble_is_the_mean_of_its_members_alone(make: Callable[[], FrozenScorer]) -> None:
    scorer = make()
    members = [scorer.alone(number).score(FEATURES, SAVINGS, MASKS, DIRECT) for number in range(len(SEEDS))]
    scores = scorer.score(FEATURES, SAVINGS, MASKS, DIRECT)
    np.testing.assert_allclose(scores.unsafe_mean, np.mean([each.unsafe_mean for each in members], axis=0), rtol=1e-6)
    np.testing.assert_allclose(scores.unsafe_std, np.std([each.unsafe_mean for each in members], axis=0), rtol=1e-4)
    assert ((scores.unsafe_mean > 0) & (scores.unsafe_mean < 1)).all()


def test_trees_are_walked_as_a_person_would() -> None:
    scorer = make_trees()
    described = np.random.default_rng(8).normal(3, 3, (20, width(len(USED))))
    forest = scorer.forest
    found = forest.outputs(described)
    for member in range(len(SEEDS)):
        for head in range(2):
            for row, numbers in enumerate(described):
                total = forest.baseline[member, head]
                for node in forest.roots[member, head]:
                    while forest.column[node] >= 0:
                        goes_left = numbers[forest.column[node]] <= forest.threshold[node]
                        node = forest.left[node] if goes_left else forest.right[node]  # noqa: PLW2901
                    total += forest.value[node]
                assert found[member, head, row] == total


def test_columns_that_are_not_used_do_not_matter() -> None:
    scorer = make_trees()
    others = FEATURES.copy()
    others[:, np.setdiff1d(np.arange(COLUMNS), USED)] = 99.0
    left, right = (scorer.score(features, SAVINGS, MASKS, DIRECT) for features in (FEATURES, others))
    np.testing.assert_array_equal(left.unsafe_mean, right.unsafe_mean)


def rewritten(scorer: FrozenScorer, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """The scorer's file with something changed, and the hash inside it made right again."""
    data = scorer_bytes(scorer)
    tensors = dict(safetensors_numpy.load(data))
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header["__metadata__"]["drsr"])
    change(tensors, metadata)
    metadata["tensors_sha256"] = _tensors_sha256(tensors)
    return safetensors_numpy.save(tensors, {"drsr": json.dumps(metadata, sort_keys=True)})


def _circle(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
    tensors["left"] = np.where(tensors["column"] >= 0, 0, tensors["left"]).astype(np.int32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_circle, "go in circles"),
        (lambda tensors, metadata: tensors.update(right=tensors["right"] + np.int32(900)), "leads nowhere"),
        (lambda tensors, metadata: tensors.update(column=tensors["column"] + np.int32(900)), "no description has"),
        (lambda tensors, metadata: tensors.update(value=tensors["value"] * np.float64(np.inf)), "not finite"),
        (lambda tensors, metadata: tensors.update(used=tensors["used"] + np.int32(900)), "layout does not have"),
        (lambda tensors, metadata: tensors.update(used=tensors["used"].astype(np.int64)), "is of type int64"),
        (lambda tensors, metadata: tensors.pop("roots"), "not a complete scorer"),
        (lambda tensors, metadata: tensors.update(roots=tensors["roots"][:2]), "each of 3 members"),
        (lambda tensors, metadata: metadata.pop("layout_columns"), "not a complete scorer"),
        (lambda tensors, metadata: metadata.update(kind="oracle"), "'oracle'"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_forest_is_refused(change: Callable[..., Any], said: str) -> None:
    with pytest.raises(ScorerCorrupt, match=said):
        read_scorer(rewritten(make_trees(), change), "layout")


def test_a_damaged_linear_scorer_is_refused() -> None:
    with pytest.raises(ScorerCorrupt, match="no weights for each"):
        read_scorer(rewritten(make_linear(), lambda t, m: t.update(weights=t["weights"][:1])), "layout")
    with pytest.raises(ScorerCorrupt, match="not finite"):
        read_scorer(rewritten(make_linear(), lambda t, m: t.update(mean=t["mean"] * np.inf)), "layout")


def test_an_infinite_output_is_an_error() -> None:
    scorer = make_trees()
    broken = replace(scorer, forest=scorer.forest._replace(value=np.full_like(scorer.forest.value, np.inf)))
    with pytest.raises(ScorerError, match="not finite"):
        broken.score(FEATURES, SAVINGS, MASKS, DIRECT)


def test_a_policy_of_trees_is_saved_and_loaded(tmp_path: Any) -> None:
    plain = scripted_policy()
    ensemble = plain.frozen.scorer
    assert isinstance(ensemble, FrozenScorer)
    trees = replace(make_trees(ensemble.columns, plain.numbers.layout_hash), seeds=plain.numbers.seeds)
    policy = scripted_policy(scorer=trees)
    policy.save(tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert again.identity == policy.identity != plain.identity
    assert again.prune(request=BODY).request == policy.prune(request=BODY).request
