"""Our data, calibration and representations next to the paper's, a table each.

In the paper: "Offline supervision and benchmark task counts", "Set-level supervision by deletion cardinality",
"Validation search space and frozen deployment values", "History granularity and relational representations".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from drsr.errors import FrameError
from drsr.offline.bench.analyses.analysis import Analysis, Cell, Section
from drsr.offline.bench.analyses.grouped_means import GroupedMeans
from drsr.offline.bench.analyses.layer_relations import COSINE, MASS, OneRelation, best_layer, best_two_layers
from drsr.offline.bench.analyses.state_relations import Related, best_in_training, layers_of
from drsr.offline.bench.report.inputs import ReportInputs
from drsr.offline.bench.report.paper_tables import SOURCE, analyses, calibration, supervision
from drsr.offline.evaluate.ablation_study import Study
from drsr.offline.evaluate.cells import cell
from drsr.offline.params import CalibrateParams
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.records import CalibrationRecord

PAPERS_SPLIT = {"train": 0.8, "validation": 0.1, "test": 0.1}
"""The paper's split of its trajectories."""


def side_by_side(given: ReportInputs) -> Section:
    return Section(
        "Data and calibration beside the paper's",
        [
            data(given.frames),
            chosen_values(given.calibrated.record, given.params.calibrate),
            representations(given.evaluated.study, best_relation(given), single_relations(given)),
        ],
        {},
    )


def data(frames: Mapping[str, ExampleFrame]) -> Analysis:
    """Return runs, states and labelled sets, by split and by how many Blocks a set deletes."""
    theirs = supervision()
    runs = {split: len(set(frame.trajectory_ids)) for split, frame in frames.items()}

    def row(name: str, count: Callable[[ExampleFrame], int], paper: int) -> tuple[Cell, ...]:
        counts = [count(frame) for frame in frames.values()]
        return (name, *counts, sum(counts), paper)

    rows = [
        row("runs", lambda frame: len(set(frame.trajectory_ids)), theirs.trajectories),
        row("states", lambda frame: len(frame.state_ids), theirs.states),
        row("labelled sets", len, sum(theirs.labels.values())),
    ]
    for size, paper in theirs.labels.items():
        name = f"sets of {size} {'Block' if size == 1 else 'Blocks'}"
        rows.append(row(name, lambda frame, size=size: int(np.sum(frame.cardinality == size)), paper))  # type: ignore[misc]
    shares = ", ".join(f"{split} {runs[split] / sum(runs.values()):.0%}" for split in frames)
    papers = ", ".join(f"{split} {share:.0%}" for split, share in PAPERS_SPLIT.items())
    return Analysis(
        "supervision",
        "What was measured",
        f"Labelled deletion sets of the splits that this report reads; the last column is {SOURCE}. Runs by split here "
        f"{shares}; in the paper {papers}. In both, all states of a run are in one split.",
        ("what", *frames, "all of these", "in the paper"),
        tuple(rows),
        b"",
    )


def chosen_values(record: CalibrationRecord, params: CalibrateParams) -> Analysis:
    """Return what calibration tried and chose."""
    theirs = calibration()

    def joined(values: tuple[float, ...]) -> str:
        return ", ".join(f"{value:g}" for value in values)

    nothing = "none: nothing was admissible"
    ours: dict[str, tuple[str, str, str]] = {
        "max_cardinality": ("most Blocks at once, K", joined(params.max_cardinalities), str(record.max_cardinality)),
        "uncertainty_coefficient": (
            "weight of disagreement, beta",
            joined(params.uncertainty_coefficients),
            f"{record.uncertainty_coefficient:g}",
        ),
        "risk_threshold": (
            "risk threshold, tau",
            f"{record.tried:,} policies in all",
            nothing if record.risk_threshold is None else f"{record.risk_threshold:.6g}",
        ),
        "max_unsafe_rate": ("unsafe rate of selected sets, at most", "", f"{params.max_unsafe_rate:g}"),
        "max_mean_harm": ("mean harm of selected sets, at most", "", f"{params.max_mean_harm:g}"),
        "removal_cap": ("part of a request removed, at most", "", f"{record.removal_cap:g}"),
    }
    return Analysis(
        "calibration",
        "What calibration tried and chose",
        f"On {record.states:,} validation states. {record.explanation} The last two columns are {SOURCE}. In both, the "
        "two latest Steps are protected, and if no set is safe enough nothing is removed.",
        ("value", "tried here", "chosen or set here", "tried in the paper", "frozen in the paper"),
        tuple((*found, theirs[name].tried, f"{theirs[name].frozen:.6g}") for name, found in ours.items()),
        b"",
    )


class _Counterpart(NamedTuple):
    """The columns here that come nearest to a representation of the paper's."""

    what: str
    scorer: str | None = None
    """The configuration of the study that it is, if one is."""
    relation: Literal["own", "others", "context"] | None = None
    """Or which cosine of a Block with a decision state it is, if one is."""
    single: str | None = None
    """Alternatively the row of `single_relations`."""


COUNTERPARTS = {
    "current_state_only": _Counterpart("0.5 by definition: the state is the same for all Blocks of a state"),
    "surface_features": _Counterpart("a scorer of structural features only", "structural-only"),
    "matched_state": _Counterpart("cosine of a Block with its own decision's state", relation="own"),
    "mismatched_state": _Counterpart("cosine of the same Block with states of other tasks", relation="others"),
    "full_context": _Counterpart("cosine of a Block with the mean over the whole context", relation="context"),
    "attention_mass_layer_20": _Counterpart("attention mass at one layer", single=MASS),
    "combined_layers_12_and_16": _Counterpart("cosines with the own state at two layers, added", single=COSINE),
}
NO_CONTEXT = "not stored: drsr featurize --view semantic"


class BestRelation(NamedTuple):
    """The cosine with the own state at the layer that is best in training, and with other states there."""

    layer: int
    found: Related


def best_relation(given: ReportInputs) -> BestRelation | str:
    """Or why it cannot be had."""
    gap = given.params.train.meaningful_gap
    try:
        best = best_in_training(layers_of(*given.directions, gap))
    except FrameError as error:
        return error.what
    return BestRelation(best.layer, best.at(gap, GroupedMeans(given.directions.judged, given.bootstrap)))


def single_relations(given: ReportInputs) -> dict[str, OneRelation | str]:
    """Attention mass at its best layer of training, cosines at its best two; or why one cannot be had."""
    about = (given.frames["train"], given.frames[given.judged], given.columns)
    found: dict[str, OneRelation | str] = {}
    for relation, best in ((MASS, best_layer), (COSINE, best_two_layers)):
        try:
            found[relation] = best(*about, relation, given.params.train.meaningful_gap, given.bootstrap)
        except FrameError as error:
            found[relation] = error.what
    return found


def representations(study: Study, relation: BestRelation | str, single: Mapping[str, OneRelation | str]) -> Analysis:
    """Pair accuracies of the paper's representations, and of what comes nearest here."""
    found = {row.name: cell(row.metrics.state_pairs) for row in study.scorers}
    missing = {row.name: row.why for row in study.missing}

    def here(one: _Counterpart) -> str:
        if one.relation is not None:
            if isinstance(relation, str):
                return relation
            metric = getattr(relation.found, one.relation)
            return NO_CONTEXT if metric is None else cell(metric)
        if one.single is not None:
            found_one = single[one.single]
            if isinstance(found_one, str):
                return found_one
            return f"{cell(found_one.accuracy)}, layer {' and '.join(map(str, found_one.layers))}"
        if one.scorer is None:
            return "-"
        return found.get(one.scorer) or missing.get(one.scorer, "not judged: drsr report --ablations")

    layer = "" if isinstance(relation, str) else f", at layer {relation.layer}, which is best in training"
    return Analysis(
        "representations",
        "Representations",
        "Share of pairs that are ordered rightly at a harm margin of 0.02. A cosine here orders single Blocks of one "
        f"state of the {study.split} split{layer}; so do attention mass and two cosines added, at the layers that are "
        "best in training. Layers and directions are all that is fitted. A scorer here is trained and orders sets of "
        f"one state and cardinality. The paper's are single relations, {SOURCE}.",
        ("in the paper", "pairs in the paper", "what comes nearest here", "pairs here"),
        tuple(
            (name.replace("_", " "), analyses()[f"representation.{name}"].value, one.what, here(one))
            for name, one in COUNTERPARTS.items()
        ),
        b"",
    )
