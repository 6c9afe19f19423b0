"""The same Block beside its own decision and others: on frames in which it is known what makes the harm."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from drsr.errors import FrameError
from drsr.features.geometry import Geometry
from drsr.features.layout import Layout
from drsr.offline.bench.analyses.analysis import Analysis, Cell
from drsr.offline.bench.analyses.grouped_means import GroupedMeans
from drsr.offline.bench.analyses.layer_relations import (
    COSINE,
    MASS,
    best_layer,
    best_two_layers,
    layer_relations,
)
from drsr.offline.bench.analyses.margin_sweep import MARGINS
from drsr.offline.bench.analyses.state_relations import (
    PARTNERS,
    best_in_training,
    layers_of,
    other_states,
    relation_margins,
    state_relations,
)
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap
from tests.offline.frames import HarmRule, make_frame, make_test_frame

SIZE = 6
QUICK = Bootstrap(replicates=200)
COLUMNS = (
    "structural_tokens",
    "hidden_l08_mean_cosine",
    *(f"projection_l08_block_{number:02d}" for number in range(1, SIZE + 1)),
    *(f"projection_l08_state_{number:02d}" for number in range(1, SIZE + 1)),
)
GROUPS = ("structural", "hidden", *("projection.block",) * SIZE, *("projection",) * SIZE)
BLOCK, STATE = slice(2, 2 + SIZE), slice(2 + SIZE, 2 + 2 * SIZE)


def drawn(generator: np.random.Generator, count: int, common: float) -> NDArray[np.float32]:
    """Directions of Blocks anywhere; of states too, or about one that all share. And the cosine of the two."""
    block, state = generator.normal(size=(count, SIZE)), generator.normal(size=SIZE)
    block[:, 0] += common  # so that not all Blocks are far from what the states share
    state[0] += common * 20
    block /= np.linalg.norm(block, axis=1)[:, None]
    state /= np.linalg.norm(state)
    cosine = (block @ state)[:, None]
    return np.hstack([cosine * 0, cosine, block, np.tile(state, (count, 1))]).astype(np.float32)


def by_relation(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
    """Harm is what a Block is to its own decision."""
    rows = list(members)
    return float((features[rows, BLOCK] * features[rows, STATE]).sum())


def by_block(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
    """Harm is what a Block is, whatever is decided."""
    return float(features[list(members), BLOCK.start].sum())


def frames(harm: HarmRule, common: float) -> tuple[ExampleFrame, ExampleFrame]:
    options = {"harm": harm, "noise": 0.0, "draw": lambda generator, count: drawn(generator, count, common)}
    return make_frame("train", 20, **options), make_test_frame(20, **options)


def number(value: Cell) -> float:
    return float(str(value).split()[0])


def bounds(value: Cell) -> tuple[float, float]:
    low, high = str(value).split("[")[1].rstrip("]").split(", ")
    return float(low), float(high)


def test_where_the_relation_makes_the_harm_other_states_lose_it() -> None:
    found = state_relations(*frames(by_relation, common=0.0), COLUMNS, 0.02, QUICK)
    ((layer, pairs, own, others, alone, lost, conditioned),) = found.rows
    assert (layer, number(own)) == (8, 1.0)
    assert int(str(pairs)) > 100
    assert abs(number(others) - 0.5) < 0.15
    assert abs(number(alone) - 0.5) < 0.2
    assert bounds(lost)[0] > 0.2
    assert bounds(conditioned)[0] > 0.2


def test_where_the_block_alone_makes_the_harm_other_states_order_as_well() -> None:
    """The control has no gap. Exchanging candidates has one all the same: it orders these Blocks by others' values."""
    train, test = frames(by_block, common=1.0)
    ((_, _, own, others, alone, lost, conditioned),) = state_relations(train, test, COLUMNS, 0.02, QUICK).rows
    assert min(number(own), number(others), number(alone)) > 0.9
    for gap in (lost, conditioned):
        assert abs(number(gap)) < 0.03
    exchanged = layer_relations(train, test, COLUMNS, GROUPS, 0.02, QUICK).rows[0]
    assert number(exchanged[3]) == number(own)
    assert number(exchanged[4]) < 0.7


def test_against_one_pair_after_another() -> None:
    train, test = frames(by_relation, common=0.3)
    (layer,) = layers_of(train, test, COLUMNS, 0.02)
    found = layer.at(0.02, GroupedMeans(test, QUICK))
    mean = train.features[:, 0, STATE].mean(axis=0)
    partners = other_states(test)
    expected: dict[str, list[float]] = {"own": [], "others": [], "alone": []}
    for state in range(len(test.state_ids)):
        harms = {int(test.mask[row]): test.harm[row] for row in np.flatnonzero(test.state == state)}
        for one, other in combinations(range(int(test.candidate_counts[state])), 2):
            gap = harms[1 << one] - harms[1 << other]
            if abs(gap) < 0.02:
                continue
            difference = test.features[state, one, BLOCK] - test.features[state, other, BLOCK]
            expected["own"].append(difference @ test.features[state, 0, STATE] * gap > 0)
            beside = [test.features[partner, 0, STATE] for partner in partners[state]]
            expected["others"].append(float(np.mean([difference @ vector * gap > 0 for vector in beside])))
            expected["alone"].append(difference @ mean * gap > 0)
    for kind, credits in expected.items():
        metric = getattr(found, kind)
        assert metric.support == len(credits)
        assert metric.value == pytest.approx(np.mean(credits))
    assert found.own_less_others.value == pytest.approx(found.own.value - found.others.value)
    assert found.own_less_alone.value == pytest.approx(found.own.value - found.alone.value)


def test_every_relation_has_the_direction_of_its_own_training_pairs() -> None:
    """So that a control is not worse than chance for being turned round."""
    train, test = frames(by_block, common=1.0)
    turned, _ = frames(lambda features, members: -by_block(features, members), common=1.0)
    for kind in (2, 3, 4):
        right = number(state_relations(train, test, COLUMNS, 0.02, QUICK).rows[0][kind])
        wrong = number(state_relations(turned, test, COLUMNS, 0.02, QUICK).rows[0][kind])
        assert wrong == pytest.approx(1 - right, abs=0.0011)


def test_margins_are_of_the_layer_that_is_best_in_training() -> None:
    train, test = frames(by_relation, common=0.0)
    names = [name.replace("l08", "l16") for name in COLUMNS if name.startswith("projection")]
    noise = np.random.default_rng(5)

    def wider(frame: ExampleFrame) -> ExampleFrame:
        more = noise.normal(size=(*frame.features.shape[:2], len(names))).astype(np.float32)
        return replace(frame, features=np.concatenate([more, frame.features], axis=2))

    train, test, columns = wider(train), wider(test), (*names, *COLUMNS)
    layers = layers_of(train, test, columns, 0.02)
    assert [one.layer for one in layers] == [16, 8]
    assert best_in_training(layers).layer == 8
    found = relation_margins(train, test, columns, 0.02, QUICK)
    assert "at layer 8," in found.says
    assert [row[0] for row in found.rows] == list(MARGINS)
    assert {number(row[2]) for row in found.rows} == {1.0}
    counts = [int(str(row[1])) for row in found.rows]
    assert counts == sorted(counts, reverse=True)
    by_layer = state_relations(train, test, columns, 0.02, QUICK)
    assert by_layer.rows[1][1:] == found.rows[MARGINS.index(0.02)][1:]
    for one in (found, by_layer):
        assert_drawn(one)


def assert_drawn(found: Analysis) -> None:
    assert found.figure.startswith(b"<svg")
    assert found.to_csv().count("\n") == len(found.rows) + 1


def test_other_states_are_of_other_tasks_each_as_likely_as_the_next() -> None:
    frame = make_test_frame(6, trials=2)  # three tasks of two runs with two states each
    partners = other_states(frame)
    assert partners.shape == (12, PARTNERS)
    assert (frame.state_group[partners] != frame.state_group[:, None]).all()
    assert (other_states(frame) == partners).all()
    many = make_test_frame(120)
    often = np.bincount(other_states(many).ravel(), minlength=240)
    assert often.min() > 0
    assert often.max() < 4 * PARTNERS


def test_what_cannot_be_compared_is_said() -> None:
    train, test = frames(by_relation, common=0.0)
    with pytest.raises(FrameError, match="no projected directions"):
        state_relations(train, test, COLUMNS[: STATE.start], 0.02, QUICK)
    with pytest.raises(FrameError, match="only one task"):
        state_relations(train, replace(test, group_ids=("t",) * len(test.group_ids)), COLUMNS, 0.02, QUICK)


def test_whole_directions_also_tell_the_whole_context() -> None:
    """The same numbers under the names of the view `semantic`, and beside them a context that makes the harm."""
    names = [name.replace("projection_", "semantic_") for name in COLUMNS]
    names += [f"semantic_l08_context_{number:04d}" for number in range(1, SIZE + 1)]
    context = np.random.default_rng(8).normal(size=SIZE)

    def with_context(frame: ExampleFrame) -> ExampleFrame:
        tiled = np.broadcast_to(context.astype(np.float32), (*frame.features.shape[:2], SIZE))
        return replace(frame, features=np.concatenate([frame.features, tiled], axis=2))

    def by_context(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
        return float((features[list(members), BLOCK] @ context).sum())

    train, test = (with_context(frame) for frame in frames(by_context, common=0.0))
    found = state_relations(train, test, names, 0.02, QUICK)
    assert found.columns[-1] == "whole context"
    assert number(found.rows[0][-1]) == 1.0
    assert number(found.rows[0][2]) < 0.9
    assert "whole hidden states" in found.says
    projected = state_relations(*frames(by_context, common=0.0), COLUMNS, 0.02, QUICK)
    assert projected.rows[0] == found.rows[0][:-1]
    assert "projections" in projected.says
    assert_drawn(found)
    assert "whole context" in relation_margins(train, test, names, 0.02, QUICK).columns


def test_one_layer_and_two_layers_are_chosen_and_turned_in_training() -> None:
    """Harm is the second layer less the fourth: one of them orders some pairs, both together all."""
    columns = [f"hidden_l{layer:02d}_mean_cosine" for layer in (1, 2, 3, 4)] + ["attention_l02_mean_mass"]

    def harm(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
        return float((features[list(members), 1] - features[list(members), 3]).sum())

    options = {"harm": harm, "noise": 0.0, "columns": len(columns)}
    train, test = make_frame("train", 40, **options), make_test_frame(40, **options)
    one = best_layer(train, test, columns, COSINE, 0.02, QUICK)
    two = best_two_layers(train, test, columns, COSINE, 0.02, QUICK)
    assert one.layers in ((2,), (4,))
    assert two.layers == (2, 4)
    assert one.accuracy.value < two.accuracy.value
    assert two.accuracy.value > 0.95
    assert best_layer(train, test, columns, MASS, 0.02, QUICK).layers == (2,)
    alone = best_two_layers(train, test, columns[:1], COSINE, 0.02, QUICK)
    assert alone.layers == (1,)
    with pytest.raises(FrameError, match="hold no attention mass"):
        best_layer(train, test, columns[:4], MASS, 0.02, QUICK)


def test_the_columns_of_a_real_layout() -> None:
    layout = Layout(Geometry(layers=4, heads=2, full_attention=(1, 2, 3, 4)))
    options = {"columns": len(layout.names)}
    layers = layers_of(make_frame("train", 4, **options), make_test_frame(4, **options), layout.names, 0.02)
    assert [one.layer for one in layers] == [1, 2, 3, 4]
