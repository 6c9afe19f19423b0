"""The analyses against slow twins on frames whose harms follow a known rule."""

from __future__ import annotations

import csv
import io
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from drsr.errors import FrameError
from drsr.features.geometry import Geometry
from drsr.features.layout import Layout
from drsr.offline.bench.analyses.analysis import Analysis, Cell
from drsr.offline.bench.analyses.attention_cases import attention_cases
from drsr.offline.bench.analyses.interaction_properties import (
    HEAD_MASS,
    _Pairs,
    _steps_between,
    interaction_properties,
)
from drsr.offline.bench.analyses.layer_relations import layer_relations
from drsr.offline.bench.analyses.margin_sweep import MARGINS, margin_sweep
from drsr.offline.bench.analyses.non_compositionality import (
    non_compositionality,
    non_compositionality_by_domain,
    residuals,
)
from drsr.offline.bench.analyses.reconstruction import reconstruction, with_pairs
from drsr.offline.bench.analyses.risk_scores import beta_sensitivity, gate_curve, score_distributions
from drsr.offline.calibrate.operating_curve import operating_curve, uncertainty_sensitivity
from drsr.offline.calibrate.search import calibrate
from drsr.offline.label.harm import interactions
from drsr.offline.train.ablations import MISMATCH_SEED, mismatch_states, with_features
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap
from tests.offline.frames import make_frame, make_scored, make_test_frame, params

COLUMNS = (
    "structural_is_assistant_state",
    "structural_step_age",
    "attention_l04_h01_mass",
    "attention_l04_mean_mass",
    "attention_l04_mean_density",
    "hidden_l01_mean_cosine",
    "hidden_l01_distance",
    "projection_l08_block_01",
    "projection_l08_block_02",
)
GROUPS = ("structural",) * 2 + ("attention",) * 3 + ("hidden",) * 2 + ("projection",) * 2
QUICK = Bootstrap(replicates=50)
COSINE = COLUMNS.index("hidden_l01_mean_cosine")


def drawn(generator: np.random.Generator, count: int) -> NDArray[np.float32]:
    values = generator.normal(size=(count, len(COLUMNS))).astype(np.float32)
    values[:, 0] = generator.integers(0, 2, count)
    values[:, 1] = np.log1p(np.arange(count)[::-1] + 2)
    values[:, 4] = np.abs(values[:, 4])
    return values


def pair_rule(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
    """Single harms by one column, and every pair that looks the same way adds some: no third order."""
    alone = 0.05 * float(features[list(members), COSINE].sum())
    return alone + sum(0.02 * float(features[i, 7] * features[j, 7]) for i, j in combinations(members, 2))


@pytest.fixture(scope="module")
def frame() -> ExampleFrame:
    return make_test_frame(12, columns=len(COLUMNS), draw=drawn, harm=pair_rule, noise=0.0)


def harms_of(frame: ExampleFrame, state: int) -> dict[int, float]:
    rows = np.flatnonzero(frame.state == state)
    return {int(frame.mask[row]): float(frame.harm[row]) for row in rows}


def readable(found: Analysis) -> None:
    """A figure that is XML without a remote reference, and a table that survives CSV."""
    root = ElementTree.fromstring(found.figure)
    assert root.tag.endswith("svg")
    assert b"currentColor" in found.figure
    references = [value for node in root.iter() for name, value in node.attrib.items() if name.endswith("href")]
    assert all(value.startswith("#") for value in references)
    lines = list(csv.reader(io.StringIO(found.to_csv())))
    assert lines[0] == list(found.columns)
    assert len(lines) == len(found.rows) + 1
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.to_markdown().count("\n") == len(found.rows) + 2


def number(value: Cell) -> float:
    """Of a cell with an interval."""
    return float(str(value).split()[0])


def test_an_interaction_above_the_tolerance_need_not_turn_a_verdict() -> None:
    """0.5 against a sum of 0.4 is unsafe either way."""

    def harm(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
        return 0.2 * len(members) + 0.1 * (len(members) > 1)

    found = non_compositionality(make_test_frame(4, harm=harm, noise=0.0), QUICK)
    pairs = found.rows[1]
    assert pairs[5] == 1.0
    assert number(pairs[6]) == 0.0
    assert found.says.startswith("Labels of the test split.")


def test_residuals_are_those_of_the_label_stage(frame: ExampleFrame) -> None:
    found = residuals(frame)
    for row, (state, mask) in enumerate(zip(frame.state, frame.mask, strict=True)):
        harms = harms_of(frame, int(state))
        expected = interactions(harms)[int(mask)] if int(mask).bit_count() > 1 else 0.0
        assert found[row] == pytest.approx(expected, abs=1e-12)
    table = non_compositionality(frame, QUICK)
    readable(table)
    of_two = [abs(value) for state in range(len(frame.state_ids)) for value in _pairs(frame, state)]
    assert number(table.rows[0][2]) == 0
    assert table.rows[1][1] == len(of_two)
    assert number(table.rows[1][2]) == pytest.approx(np.mean(of_two), abs=0.0005)
    assert "[" in str(table.rows[1][2])  # drawn by trajectory


def _pairs(frame: ExampleFrame, state: int) -> list[float]:
    return [value for mask, value in interactions(harms_of(frame, state)).items() if mask.bit_count() == 2]


def test_domains_are_parts_of_the_whole(frame: ExampleFrame) -> None:
    domains = {run: "code" if run.endswith(("0", "1", "2")) else "web" for run in frame.trajectory_ids}
    found = non_compositionality_by_domain(frame, domains, QUICK)
    readable(found)
    whole = {row[0]: row for row in non_compositionality(frame, QUICK).rows}
    for size in (1, 2, 3, 4):
        parts = [row for row in found.rows if row[1] == size]
        assert [row[0] for row in parts] == ["code", "web"]
        assert sum(int(number(row[2])) for row in parts) == whole[size][1]
        mean = sum(number(row[2]) * number(row[3]) for row in parts) / number(whole[size][1])
        assert mean == pytest.approx(number(whole[size][2]), abs=0.0015)
    with pytest.raises(FrameError, match="not of several domains"):
        non_compositionality_by_domain(frame, dict.fromkeys(domains, "code"), QUICK)


def test_pair_terms_explain_what_has_no_third_order(frame: ExampleFrame) -> None:
    np.testing.assert_allclose(with_pairs(frame), frame.harm, atol=1e-6)
    found = reconstruction(frame, QUICK)
    readable(found)
    singles, pairs, reduction = found.rows
    assert number(singles[4]) > 0.01
    assert number(pairs[4]) == 0
    assert reduction[1:] == (singles[1], "100.0%", singles[3], "100.0%", "54.4%")


def test_margins_leave_fewer_pairs_and_a_perfect_prediction_orders_all(frame: ExampleFrame) -> None:
    found = margin_sweep(frame, {"perfect": frame.harm, "reversed": -frame.harm}, QUICK)
    readable(found)
    perfect = [row for row in found.rows if row[0] == "perfect"]
    assert [row[1] for row in perfect] == list(MARGINS)
    assert all(number(row[3]) == 1.0 for row in perfect)
    assert all(number(row[3]) == 0.0 for row in found.rows if row[0] == "reversed")
    counts = [int(str(row[2])) for row in perfect]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0]


def test_margins_are_of_sets_of_two_or_more_that_all_predictions_have(frame: ExampleFrame) -> None:
    """Right on single Blocks, wrong elsewhere, and missing in one state: nothing of that may count for or against."""
    single = frame.cardinality == 1
    alone = np.where(single, frame.harm, -frame.harm)
    gaps = np.where(frame.state == 0, np.nan, frame.harm)
    found = margin_sweep(frame, {"alone": alone, "gaps": gaps}, QUICK)
    assert {number(row[3]) for row in found.rows if row[0] == "alone"} == {0.0}
    assert {number(row[3]) for row in found.rows if row[0] == "gaps"} == {1.0}
    rows = np.flatnonzero(~single & (frame.state != 0))
    pairs = sum(
        frame.state[i] == frame.state[j] and frame.cardinality[i] == frame.cardinality[j]
        for i, j in combinations(rows, 2)
    )
    assert {row[2] for row in found.rows if row[1] == 0.0} == {pairs}
    assert f"On {len(rows):,} sets of two or more Blocks" in found.says
    assert "Who they are." in margin_sweep(frame, {"gaps": gaps}, QUICK, "Who they are.").says


def test_interactions_by_property_count_every_pair_once(frame: ExampleFrame) -> None:
    found = interaction_properties(frame, COLUMNS, QUICK)
    readable(found)
    pairs = sum(len(_pairs(frame, state)) for state in range(len(frame.state_ids)))
    for name in ("kinds", "semantic overlap", "head overlap", "Steps between"):
        assert sum(int(str(row[2])) for row in found.rows if row[0] == name) == pairs
    alike = {row[1]: number(row[4]) for row in found.rows if row[0] == "semantic overlap"}
    assert alike["high"] > alike["low"]  # by the rule, those that look the same way add harm


def test_steps_between_are_steps_and_no_difference_of_logarithms() -> None:
    """An old pair ten Steps apart is farther apart than a young one two Steps apart, though its logarithms are not."""
    old, young = (np.log1p(ages).astype(np.float32).astype(float) for ages in ([[200.0], [2.0]], [[190.0], [4.0]]))
    pairs = _Pairs(np.arange(2), np.zeros(2), old, young)
    assert _steps_between(pairs, 0).tolist() == [10.0, 2.0]
    assert abs(old - young)[0] < abs(old - young)[1]


def test_heads_are_compared_and_no_summaries_over_them(frame: ExampleFrame) -> None:
    """A layer's mean and maximum are no heads: whatever they are, the overlap of heads is the same."""
    found = interaction_properties(frame, COLUMNS, QUICK).rows
    summary, head = COLUMNS.index("attention_l04_mean_mass"), COLUMNS.index("attention_l04_h01_mass")
    for column, same in ((summary, True), (head, False)):
        features = frame.features.copy()
        features[:, ::2, column] *= -100
        changed = interaction_properties(with_features(frame, features), COLUMNS, QUICK).rows
        assert (changed == found) is same
    layout = Layout(Geometry(layers=4, heads=3, full_attention=(1, 2, 4)))
    heads = [name for name in layout.names if HEAD_MASS.fullmatch(name)]
    assert heads == [f"attention_l{layer:02d}_h{head:02d}_mass" for layer in (1, 2, 4) for head in (1, 2, 3)]


def test_the_column_that_makes_harm_orders_it_and_its_direction_comes_from_training(frame: ExampleFrame) -> None:
    train = make_frame("train", 12, columns=len(COLUMNS), draw=drawn, harm=pair_rule, noise=0.0)
    found = layer_relations(train, frame, COLUMNS, GROUPS, 0.02, QUICK)
    readable(found)
    cosine = next(row for row in found.rows if row[0] == "cosine with the decision state")
    assert number(cosine[3]) == 1.0
    exchanged = mismatch_states(frame, GROUPS, MISMATCH_SEED)
    assert number(cosine[4]) == pytest.approx(share_ordered(exchanged, COSINE), abs=0.0005)
    assert "[" in str(cosine[4])  # drawn by task
    turned = make_frame("train", 12, columns=len(COLUMNS), draw=drawn, harm=lambda f, m: -pair_rule(f, m), noise=0.0)
    against = layer_relations(turned, frame, COLUMNS, GROUPS, 0.02, QUICK)
    assert number(next(row for row in against.rows if row[0] == cosine[0])[3]) == 0.0


def share_ordered(frame: ExampleFrame, column: int) -> float:
    """Of the pairs of single Blocks whose harms differ by 0.02, those in which the larger value has the larger harm."""
    credit = []
    for state in range(len(frame.state_ids)):
        harms = harms_of(frame, state)
        for one, other in combinations(range(int(frame.candidate_counts[state])), 2):
            difference = harms[1 << one] - harms[1 << other]
            if abs(difference) >= 0.02:
                values = frame.features[state, one, column] - frame.features[state, other, column]
                credit.append(difference * values > 0)
    return float(np.mean(credit))


def test_scores_and_gate(frame: ExampleFrame) -> None:
    scored = make_scored(frame)
    found = score_distributions({"test": scored}, 0.0, 0.5)
    readable(found)
    safe = scored.unsafe_mean[~frame.unsafe]
    assert found.rows[0][:3] == ("test", "safe", len(safe))
    assert found.rows[0][5] == pytest.approx(np.median(safe))
    assert found.rows[0][-1] == pytest.approx(np.mean(safe <= 0.5))
    validation = make_scored(make_frame("validation", 12))
    searched = calibrate(validation, params().calibrate).table
    curve = operating_curve(searched, 3, 0.0)
    chosen, nothing = gate_curve(curve, 0.2), gate_curve(curve, None)
    readable(chosen)
    readable(nothing)
    assert "the threshold that was frozen" in chosen.says
    for one in (nothing, score_distributions({"test": scored}, 0.0, None)):
        assert "nothing admissible" in one.says
        assert "dashed" not in one.says
        assert b"stroke-dasharray" not in one.figure  # no line where nothing was chosen
    assert b"stroke-dasharray" in chosen.figure
    found = beta_sensitivity(uncertainty_sensitivity(searched, params().calibrate))
    readable(found)
    assert [row[:2] for row in found.rows] == [(k, beta) for k in (2, 3) for beta in (0.0, 0.25, 0.5, 1.0, 2.0)]


def test_attention_cases_hold_a_safe_and_an_unsafe_block(frame: ExampleFrame) -> None:
    nothing = np.zeros(len(frame.state_ids), dtype=np.int64)
    found = attention_cases(frame, COLUMNS, 0.02, nothing)
    readable(found)
    for case in (1, 2):
        assert {row[2] for row in found.rows if row[0] == case} == {"safe", "unsafe"}
    assert {row[3] for row in found.rows} == {"retained"}
    assert found.columns[-1] == "layer 4"
    harms = {row[4] for row in found.rows if row[0] == 2}
    second = int(frame.state[np.flatnonzero(np.isin(frame.harm, [number(harm) for harm in harms]))[0]])
    nothing[second] = 0b101  # where the policy selects something comes first
    first = [row for row in attention_cases(frame, COLUMNS, 0.02, nothing).rows if row[0] == 1]
    assert {row[4] for row in first} == harms
    assert [row[3] for row in first][:3] == ["selected", "retained", "selected"]


def test_figures_are_the_same_every_time(frame: ExampleFrame) -> None:
    assert non_compositionality(frame, QUICK).figure == non_compositionality(frame, QUICK).figure
