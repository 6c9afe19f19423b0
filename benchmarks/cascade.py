"""Measure what a cascade of a light and a full policy would give: `python -m benchmarks.cascade`, on a measured corpus.

    DRSR_CATALOG_URL=... python -m benchmarks.cascade --second-columns structural attention

In a cascade the light policy chooses under two thresholds, a strict and a loose one. Where both choices are the same it
decides alone; only the other requests are read by the language model, and the full policy decides them.

Every state of train and validation is scored by members that never saw its task (as `drsr train --cross-fitted` leaves
it in the catalog, or does it now). K and beta are those that each policy's own calibration chooses; the two thresholds
and the full policy's own are chosen on four folds, within the limits of calibration, and judged on the fifth. The row
`perfect reader` has a full policy that knows what is unsafe: no language model could give more. The test split is not
read.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.calibrate.search import UNIT, OperatingPoint, calibrate_cross_fitted, source_weights
from drsr.offline.calibrate.selection_path import SelectionPath, selection_path
from drsr.offline.params import CalibrateParams, Params, load_params
from drsr.offline.store.place import opened
from drsr.offline.train.examples import TrainingFrame, some_states
from drsr.offline.train.learners.fit import deal_folds
from drsr.offline.train.metrics import Bootstrap, draw_trajectories
from drsr.offline.train.scored_sets import ScoredSets
from drsr.offline.train.stage import load_fold_scores, read_inputs, train
from drsr.tables import table

Ints = NDArray[np.int64]
Scored = ScoredSets[TrainingFrame]

MOST_READ = (0.0, 0.1, 0.25, 0.5, 1.0)
"""Parts of the states that the language model may read."""
STEPS = 80
"""Thresholds tried of each kind: quantiles of those at which a choice changes."""


class Chosen(NamedTuple):
    """The set that goes in each state (a row of the frame, or -1), and whether the language model had to read it."""

    row: Ints
    read: NDArray[np.bool_]


class Thresholds(NamedTuple):
    strict: float
    loose: float
    full: float


class Measured(NamedTuple):
    """A method on all states, each judged by thresholds that its fold had no part in."""

    name: str
    chosen: Chosen


def cascade(light: SelectionPath, full: SelectionPath, thresholds: Thresholds) -> Chosen:
    """Let the light policy decide where both thresholds give the same choice, and the full one elsewhere."""
    strict, loose = light.at(thresholds.strict), light.at(thresholds.loose)
    read = strict != loose
    return Chosen(np.where(read, full.at(thresholds.full), strict), read)


def best_thresholds(
    light: SelectionPath, full: SelectionPath, frame: TrainingFrame, params: CalibrateParams, most_read: float
) -> Thresholds | None:
    """Return the thresholds that remove most within the limits and read at most this share; None if there are none.

    On ties the share that is read is the smallest, and the thresholds are those tried first.
    """
    tried, of_full = steps(light), steps(full)
    choices, by_full = [light.at(each) for each in tried], np.stack([full.at(each) for each in of_full])
    outcome = Outcomes.of(frame, params)
    best, found = (-1.0, 0.0), None
    for strict, loose in combinations_with_replacement(range(len(tried)), 2):
        read = choices[strict] != choices[loose]
        part = float(read.mean())
        if part > most_read:
            continue
        rows = np.where(read, by_full, choices[strict]) if part else choices[strict][None]
        removed = np.where(outcome.admissible(rows, params), outcome.removed[rows].mean(axis=1), -1.0)
        tau = int(np.argmax(removed))
        if removed[tau] >= 0 and (float(removed[tau]), -part) > best:
            best, found = (float(removed[tau]), -part), Thresholds(tried[strict], tried[loose], of_full[tau])
    return found


class Outcomes(NamedTuple):
    """The consequences of choosing a row of the frame; the last entry, row -1, is abstention."""

    removed: NDArray[np.float64]
    """In whole units, so that equal choices tie."""
    unsafe: NDArray[np.float64]
    harm: NDArray[np.float64]
    weight: NDArray[np.float64]
    """Weight of the row's state among sources."""

    @classmethod
    def of(cls, frame: TrainingFrame, params: CalibrateParams) -> Outcomes:
        removed = np.rint(frame.direct_saving / frame.request_tokens[frame.state] / UNIT)
        weight = source_weights(frame, params)[frame.state]
        return cls(*(np.append(column, 0.0) for column in (removed, frame.unsafe, frame.harm, weight)))

    def admissible(self, rows: Ints, params: CalibrateParams) -> NDArray[np.bool_]:
        """Return which policies, each a row of choices by state, keep to the limits of calibration."""
        pruned, weight = (rows >= 0).sum(axis=1), self.weight[rows]
        some = np.maximum(pruned, 1)
        weighted = (self.unsafe[rows] * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1)
        rate = np.maximum(self.unsafe[rows].sum(axis=1) / some, weighted)
        harm = self.harm[rows].sum(axis=1) / some
        within: NDArray[np.bool_] = (pruned > 0) & (rate <= params.max_unsafe_rate) & (harm <= params.max_mean_harm)
        return within


def steps(path: SelectionPath) -> list[float]:
    """Return thresholds from abstaining always to the loosest, in rising order."""
    observed = np.unique(path.threshold)
    tried = observed[np.unique(np.linspace(0, len(observed) - 1, STEPS).round().astype(int))] if len(observed) else []
    return [-np.inf, *map(float, tried)]


def removal(frame: TrainingFrame, row: Ints) -> NDArray[np.float64]:
    """Return the part of its request that goes in each state."""
    there = row >= 0
    return np.where(there, frame.direct_saving[row] / frame.request_tokens, 0.0)


def by_folds(light: Scored, full: Scored, params: CalibrateParams, folds: int, most_read: float) -> Chosen:
    """Choose on all folds but one, and decide that one; a fold for which nothing is admissible is left alone."""
    frame = light.frame
    fold = deal_folds(frame, folds)
    found = Chosen(np.full(len(fold), -1, dtype=np.int64), np.zeros(len(fold), dtype=bool))
    for number in range(folds):
        others = [some_scored(scored, fold != number) for scored in (light, full)]
        points = [calibrate_cross_fitted(each, params).chosen for each in others]
        if points[0] is None:
            continue
        learned, judged = (
            [_path(each, point or points[0], params) for each, point in zip(scored, points, strict=True)]
            for scored in (others, (light, full))
        )
        thresholds = best_thresholds(learned[0], learned[1], others[0].frame, params, most_read)
        if thresholds is not None:
            decided, mine = cascade(judged[0], judged[1], thresholds), fold == number
            found.row[mine], found.read[mine] = decided.row[mine], decided.read[mine]
    return found


def alone_by_folds(scored: Scored, params: CalibrateParams, folds: int, *, reads: bool) -> Chosen:
    """Decide each fold by the operating point that calibration chooses on the others."""
    fold = deal_folds(scored.frame, folds)
    row = np.full(len(fold), -1, dtype=np.int64)
    for number in range(folds):
        point = calibrate_cross_fitted(some_scored(scored, fold != number), params).chosen
        if point is not None:
            row[fold == number] = _path(scored, point, params).at(point.risk_threshold)[fold == number]
    return Chosen(row, np.full(len(fold), reads))


def _path(scored: Scored, point: OperatingPoint, params: CalibrateParams) -> SelectionPath:
    return selection_path(scored, point.max_cardinality, point.uncertainty_coefficient, params.removal_cap)


def some_scored(scored: Scored, kept: NDArray[np.bool_]) -> Scored:
    """Return the scores of some states."""
    rows = kept[scored.frame.state]
    scores = (scored.predicted_harm[rows], scored.unsafe_mean[rows], scored.unsafe_std[rows])
    return ScoredSets(some_states(TrainingFrame, scored.frame, kept), *scores)


def perfect_reader(scored: Scored) -> Scored:
    """Return the scores of a reader who knows the labels: the limit of what a better full policy could give."""
    nothing = np.zeros(len(scored.frame))
    return ScoredSets(scored.frame, scored.frame.harm, scored.frame.unsafe.astype(np.float64), nothing)


def shown(frame: TrainingFrame, methods: Sequence[Measured], bootstrap: Bootstrap) -> str:
    """Return the table; intervals of the difference in removal to the first method are drawn by task."""
    _, group = np.unique(np.array(frame.group_ids), return_inverse=True)
    drawn = draw_trajectories(group.astype(np.int64), bootstrap)
    first, cells = removal(frame, methods[0].chosen.row), []
    for name, chosen in methods:
        rows = chosen.row[chosen.row >= 0]
        gained = removal(frame, chosen.row) - first
        replicates = (drawn @ gained) / drawn.sum(axis=1)
        low, high = np.quantile(replicates, (0.025, 0.975)) if len(replicates) else (np.nan, np.nan)
        cells.append(
            (
                name,
                f"{chosen.read.mean():.1%}",
                f"{len(rows) / len(chosen.row):.1%}",
                f"{removal(frame, chosen.row).mean():.2%}",
                f"{gained.mean():+.2%} [{low:+.2%}, {high:+.2%}]",
                f"{frame.unsafe[rows].mean():.1%}" if len(rows) else "none",
                f"{frame.harm[rows].mean():.4f}" if len(rows) else "none",
            )
        )
    headers = ("decides", "read", "pruned", "removed", "more than light alone", "unsafe of pruned", "mean harm")
    tasks = len(set(frame.group_ids))
    return f"{len(frame.state_ids)} states of {tasks} tasks, by folds of tasks\n" + table(headers, cells)


def scored_by_folds(view: str, params: Params) -> Scored:
    """Return the scores of train and validation by folds; the scorer is trained unless it is in the catalog."""
    with opened() as (settings, catalog, artifacts):
        inputs = read_inputs(catalog, artifacts, view, "default", "calibrate")
        work = Path(settings.artifact_root).parent / "checkpoints"
        [trained] = train(catalog, artifacts, inputs, params.train, checkpoints=work, workers=1)
        found = load_fold_scores(artifacts, trained.record, inputs.train, inputs.validation)
    assert found is not None  # `folds` is set
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=Path, default=Path("policies", "params-light.yaml"))
    parser.add_argument("--light-scorer", default="linear")
    parser.add_argument("--second-view", default="default", help="`light` for a second opinion without language model")
    parser.add_argument("--second-scorer", default="linear")
    parser.add_argument("--second-columns", nargs="*", default=[], help="groups of columns (default: all)")
    parser.add_argument("--seeds", type=int, nargs="*", help="of the members (default: those of the parameters)")
    options = parser.parse_args()
    params = load_params(options.params)
    seeds = tuple(options.seeds or params.train.seeds)

    def own(scorer: str, columns: Sequence[str]) -> Params:
        return replace(params, train=replace(params.train, scorer=scorer, column_groups=tuple(columns), seeds=seeds))

    light = scored_by_folds("light", own(options.light_scorer, ()))
    full = scored_by_folds(options.second_view, own(options.second_scorer, options.second_columns))
    name = "full" if options.second_view != "light" else "second light"
    print(shown(light.frame, measured(light, full, params, name), Bootstrap()))
    return 0


def measured(
    light: Scored, full: Scored, params: Params, name: str = "full", most_read: Sequence[float] = MOST_READ
) -> list[Measured]:
    """Return both policies alone, the cascade for every part that may be read, and the cascade with a perfect
    reader."""
    if light.frame.state_ids != full.frame.state_ids or not np.array_equal(light.frame.mask, full.frame.mask):
        raise ValueError("the light and the full policy were not labelled and scored on the same states")
    limits, folds = params.calibrate, params.train.folds
    found = [
        Measured("light alone", alone_by_folds(light, limits, folds, reads=False)),
        Measured(f"{name} alone", alone_by_folds(full, limits, folds, reads=True)),
    ]
    for method, reader in (("cascade", full), ("perfect reader", perfect_reader(full))):
        for part in most_read:
            if part or reader is full:
                chosen = by_folds(light, reader, limits, folds, part)
                found.append(Measured(f"{method}, at most {part:.0%} read", chosen))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
