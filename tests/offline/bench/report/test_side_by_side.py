"""Tables beside the paper's: our side is counted by hand here, the paper's side is its reference data."""

from __future__ import annotations

from typing import Any

import numpy as np

from drsr.offline.bench.analyses.layer_relations import COSINE, MASS, OneRelation
from drsr.offline.bench.analyses.state_relations import Related
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.bench.report.side_by_side import COUNTERPARTS, BestRelation, chosen_values, data, representations
from drsr.offline.evaluate.ablation_study import Missing, Study
from drsr.offline.train.metrics import Metric
from drsr.offline.train.records import CalibrationRecord
from tests.offline.frames import make_frame, make_test_frame, params


def test_sets_are_counted_by_split_and_cardinality() -> None:
    frames = {"train": make_frame("train", 4), "validation": make_frame("validation", 2), "test": make_test_frame(2)}
    found = data(frames)
    assert found.columns == ("what", "train", "validation", "test", "all of these", "in the paper")
    rows = {str(row[0]): row[1:] for row in found.rows}
    assert rows["runs"] == (4, 2, 2, 8, 566)
    assert rows["states"] == (8, 4, 4, 16, 1698)
    pairs = [sum(int(mask).bit_count() == 2 for mask in frame.mask) for frame in frames.values()]
    assert rows["sets of 2 Blocks"] == (*pairs, sum(pairs), 9682)
    assert rows["labelled sets"][-1] == sum(int(str(rows[name][-1])) for name in rows if name.startswith("sets of "))
    assert "train 50%, validation 25%, test 25%; in the paper train 80%" in found.says


def record(**changes: Any) -> CalibrationRecord:
    numbers: dict[str, Any] = dict.fromkeys(CalibrationRecord._fields)
    numbers |= {"max_cardinality": 2, "uncertainty_coefficient": 0.5, "risk_threshold": 0.25, "removal_cap": 0.2}
    return CalibrationRecord(**numbers | {"states": 12, "tried": 80, "explanation": "Said."} | changes)


def test_what_was_chosen_stands_beside_what_the_paper_froze() -> None:
    rows = {str(row[0]): row[1:] for row in chosen_values(record(), params().calibrate).rows}
    assert rows["most Blocks at once, K"] == ("2, 3", "2", "2, 3", "3")
    assert rows["risk threshold, tau"] == (
        "80 policies in all",
        "0.25",
        "observed validation scores",
        "0.0740822",
    )
    nothing = {str(row[0]): row[1:] for row in chosen_values(record(risk_threshold=None), params().calibrate).rows}
    assert nothing["risk threshold, tau"][1] == "none: nothing was admissible"


def test_every_representation_of_the_paper_has_a_row_and_what_is_not_measured_says_why() -> None:
    names = {name.partition(".")[2] for name in analyses() if name.startswith("representation.")}
    assert set(COUNTERPARTS) == names
    study = Study("test", 1, 1, 1, 1, [], [], [], [], [Missing("structural-only", "too few")])
    single = {MASS: "no such column", COSINE: "none of these"}
    rows = {row[0]: row[1:] for row in representations(study, "one task only", single).rows}
    assert rows["full context"][0] == 0.6639
    assert rows["surface features"][2] == "too few"
    assert (rows["attention mass layer 20"][2], rows["combined layers 12 and 16"][2]) == tuple(single.values())
    assert np.isclose(float(str(rows["current state only"][0])), 0.5)
    related = ("matched state", "mismatched state", "full context")
    assert {rows[name][2] for name in related} == {"one task only"}


def test_matched_and_mismatched_states_are_of_the_same_blocks() -> None:
    """Not of the scorer whose candidates are exchanged with their states."""
    own, others, rest = (
        Metric("pair accuracy", "", "", value, value - 0.1, value + 0.1, 9, 3) for value in (0.7, 0.6, 0.5)
    )
    best = BestRelation(23, Related(own, others, rest, rest, rest))
    single = {MASS: OneRelation((20,), own), COSINE: OneRelation((12, 16), others)}
    found = representations(Study("test", 1, 1, 1, 1, [], [], [], [], []), best, single)
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows["attention mass layer 20"][2] == "0.700 [0.600, 0.800], layer 20"
    assert rows["combined layers 12 and 16"][2] == "0.600 [0.500, 0.700], layer 12 and 16"
    assert rows["surface features"][2] == "not judged: drsr report --ablations"
    assert rows["full context"][2] == "not stored: drsr featurize --view semantic"
    whole = BestRelation(23, best.found._replace(context=rest))
    again = representations(Study("test", 1, 1, 1, 1, [], [], [], [], []), whole, single)
    assert {row[0]: row[3] for row in again.rows}["full context"] == "0.500 [0.400, 0.600]"
    assert rows["matched state"] == (0.7092, "cosine of a Block with its own decision's state", "0.700 [0.600, 0.800]")
    assert rows["mismatched state"][2] == "0.600 [0.500, 0.700]"
    assert "the same Block" in str(rows["mismatched state"][1])
    assert "at layer 23, which is best in training" in found.says
