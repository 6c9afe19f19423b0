"""Nested folds: which kind of scorer to train, judged on tasks that neither its members nor its threshold saw.

The tasks of train and validation are dealt into folds. For every outer fold, K, beta and tau are searched on the other
folds under the limits of calibration, each of them scored by members that saw neither it nor the outer fold; members
fitted on all other folds then score the outer fold, and the point decides there. A scorer fitted without folds a and b
serves a inside b and b inside a, so n folds take n (n + 1) / 2 fits; an average of kinds that are compared anyway takes
none. The test split is not read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.errors import SettingsError
from drsr.offline.calibrate.search import OperatingPoint, calibrate_cross_fitted
from drsr.offline.calibrate.selection_path import selection_path
from drsr.offline.params import CalibrateParams, TrainParams
from drsr.offline.train.examples import ExampleFrame, TrainingFrame, some_states
from drsr.offline.train.learners.fit import AVERAGED, deal_folds, learner
from drsr.offline.train.learners.fold_scores import FoldScores
from drsr.offline.train.metrics import auroc, count_pairs, grouping
from drsr.offline.train.scored_sets import ScoredSets, member_scores

FOLDS = 5
REGULARISED = "network-regularised"
KINDS = ("network", REGULARISED, "linear", "trees", "stack")
"""Kinds of scorer to compare; the paper's network appears twice."""
CHOSEN = "chosen in each fold"
"""The row that takes, in every outer fold, the kind that removed most inside the other folds."""


class Kind(NamedTuple):
    """A kind of scorer on some groups of columns."""

    name: str
    params: TrainParams


class Outcome(NamedTuple):
    """The worth of a kind on tasks that it never saw, its threshold chosen on others."""

    name: str
    unsafe_auroc: float | None
    """AUROC of the unsafe scores; None for the row that changes its kind from fold to fold: scores of different kinds
    do not compare."""
    state_pairs: float | None
    equal_pairs: float | None
    """Of pairs of one state whose harms differ meaningfully, those ordered rightly: of any size, and of equal size."""
    mean_removal: float
    pruned: float
    unsafe_rate: float | None
    fold_removals: tuple[float, ...]
    """Mean removal in every outer fold, for the scatter."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Comparison(NamedTuple):
    outcomes: list[Outcome]
    """One per kind, then the row `CHOSEN`."""
    limit: float
    """The unsafe rate that thresholds were chosen by."""

    @property
    def best(self) -> Outcome | None:
        """Return the kind that removes most among those within the limit on unseen tasks, or None."""
        kinds = [row for row in self.outcomes if row.name != CHOSEN]
        within = [row for row in kinds if row.unsafe_rate is not None and row.unsafe_rate <= self.limit]
        return max(within, key=lambda row: row.mean_removal, default=None)

    def lead(self, other: Outcome) -> tuple[float, float]:
        """Return how much more the best kind removes than another, and the standard error of that over the folds."""
        assert self.best is not None  # whoever asks has one
        lead = np.array(self.best.fold_removals) - np.array(other.fold_removals)
        return float(lead.mean()), float(lead.std(ddof=1) / np.sqrt(len(lead)))

    @property
    def _nearest(self) -> str:
        rates = [(row.unsafe_rate, row) for row in self.outcomes if row.unsafe_rate is not None and row.name != CHOSEN]
        if not rates:
            return ""
        rate, row = min(rates, key=lambda found: found[0])
        return f"; the nearest is {row.name}, {rate:.3f}, which removes {row.mean_removal:.2%}"

    @property
    def said(self) -> str:
        """The outcome in a sentence or two."""
        if self.best is None:
            said = f"No kind keeps to an unsafe rate of {self.limit:g} on tasks that its threshold was not chosen by"
            return f"{said}{self._nearest}."
        said = f"Best: {self.best.name}."
        for row in self.outcomes:
            if row.name not in (self.best.name, CHOSEN):
                lead, error = self.lead(row)
                clear = "" if abs(lead) > 2 * error else ": too close to choose by"
                said += f" It removes {lead:+.2%} against {row.name}, standard error over folds {error:.2%}{clear}."
        return said


def parse_kind(text: str, params: TrainParams) -> Kind:
    """`KIND` or `KIND:GROUP+GROUP`: a kind on the columns of these groups, else on those that `params` name."""
    name, _, groups = text.partition(":")
    if name not in KINDS:
        raise SettingsError(f"{name!r} is not a kind of scorer", hint=f"the kinds are {', '.join(KINDS)}")
    columns = tuple(groups.split("+")) if groups else params.column_groups
    if name == REGULARISED:
        # An epoch is one update on all labels, so few epochs and a strong decay are what can hold a network back.
        kind = replace(params, scorer="network", weight_decay=0.1, patience=4, source_balance=0.0)
    else:
        balance = 0.0 if name == "network" else params.source_balance
        kind = replace(params, scorer=name, source_balance=balance)
    return Kind(text, replace(kind, column_groups=columns))


def compare_kinds(
    frame: TrainingFrame,
    kinds: Sequence[Kind],
    calibrate: CalibrateParams,
    column_groups: Sequence[str],
    *,
    workers: int = 2,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Comparison:
    """Judge every kind in the same folds. `frame` is train and validation joined."""
    folds = kinds[0].params.folds or FOLDS
    fold = deal_folds(frame, folds)
    outcomes, choices = [], []
    scored: dict[TrainParams, list[FoldScores]] = {}
    fits = folds * (folds + 1) // 2
    for place, kind in enumerate(kinds):

        def tell(done: int, start: int = place * fits, name: str = kind.name) -> None:
            progress(start + done, len(kinds) * fits, name)

        nested = _average(kind.params, scored)
        if not nested:
            nested = _nested_scores(frame, kind.params, column_groups, fold, workers, tell)
        tell(fits)
        scored[kind.params] = nested
        chosen = [_choose(nested[number], frame, fold, number, calibrate) for number in range(folds)]
        outcomes.append(_outcome(kind, nested, frame, fold, chosen, calibrate))
        choices.append(chosen)
    outcomes.append(_chosen_in_each(outcomes, choices, fold))
    return Comparison([row.outcome for row in outcomes], calibrate.max_unsafe_rate)


class _Decided(NamedTuple):
    """An outcome, and by state what it rests on."""

    outcome: Outcome
    removal: NDArray[np.float64]
    """Part of the request that goes; 0 for abstention."""
    pruned: NDArray[np.bool_]
    unsafe: NDArray[np.bool_]


def _nested_scores(
    frame: TrainingFrame,
    params: TrainParams,
    column_groups: Sequence[str],
    fold: NDArray[np.int64],
    workers: int,
    tell: Callable[[int], None],
) -> list[FoldScores]:
    """Return, by outer fold, scores of every set: of the fold itself by members fitted on all others, of another fold
    by members that saw neither."""
    fit = learner(params, column_groups, workers=workers)
    folds = int(fold.max()) + 1
    harm, unsafe = np.empty((2, folds, len(params.seeds), len(frame)))
    pairs = [*itertools.combinations_with_replacement(range(folds), 2)]
    for done, (one, other) in enumerate(pairs):
        scorer = fit(some_states(TrainingFrame, frame, (fold != one) & (fold != other)))
        for outer, scored in {(one, other), (other, one)}:
            rows = fold[frame.state] == scored
            found = member_scores(scorer, some_states(ExampleFrame, frame, fold == scored))
            harm[outer][:, rows], unsafe[outer][:, rows] = found
        tell(done + 1)
    return [FoldScores(fold, harm[outer], unsafe[outer]) for outer in range(folds)]


def _average(params: TrainParams, scored: Mapping[TrainParams, list[FoldScores]]) -> list[FoldScores]:
    """Return the scores of an average of kinds, if all of them were fitted on the same columns; otherwise none."""
    parts = [scored.get(replace(params, scorer=name)) for name in AVERAGED.get(params.scorer, ())]
    there = [part for part in parts if part is not None]
    if len(there) < len(parts):
        return []
    found = []
    for each in zip(*there, strict=True):
        harm, unsafe = (np.mean(head, axis=0) for head in ([one.harm for one in each], [one.unsafe for one in each]))
        found.append(FoldScores(each[0].fold, harm, unsafe))
    return found


def _choose(
    scores: FoldScores, frame: TrainingFrame, fold: NDArray[np.int64], outer: int, calibrate: CalibrateParams
) -> OperatingPoint | None:
    """Return the operating point found on the folds other than the outer one."""
    return calibrate_cross_fitted(_part(scores, frame, fold != outer), calibrate).chosen


def _part(scores: FoldScores, frame: TrainingFrame, states: NDArray[np.bool_]) -> ScoredSets[TrainingFrame]:
    rows = states[frame.state]
    kept = FoldScores(scores.fold[states], scores.harm[:, rows], scores.unsafe[:, rows])
    return kept.scored(some_states(TrainingFrame, frame, states))


def _outcome(
    kind: Kind,
    nested: Sequence[FoldScores],
    frame: TrainingFrame,
    fold: NDArray[np.int64],
    chosen: Sequence[OperatingPoint | None],
    calibrate: CalibrateParams,
) -> _Decided:
    harm, unsafe = np.empty((2, len(kind.params.seeds), len(frame)))
    removal = np.zeros(len(frame.state_ids))
    went_wrong, pruned = np.zeros((2, len(frame.state_ids)), dtype=np.bool_)
    for outer, (scores, point) in enumerate(zip(nested, chosen, strict=True)):
        states = fold == outer
        rows = states[frame.state]
        harm[:, rows], unsafe[:, rows] = scores.harm[:, rows], scores.unsafe[:, rows]
        if point is None:
            continue
        mine = _part(scores, frame, states)
        path = selection_path(mine, point.max_cardinality, point.uncertainty_coefficient, calibrate.removal_cap)
        selected = path.at(point.risk_threshold)
        taken = selected >= 0
        sets, where = selected[taken], np.flatnonzero(states)[taken]
        pruned[where] = True
        went_wrong[where] = mine.frame.unsafe[sets]
        removal[where] = mine.frame.direct_saving[sets] / mine.frame.request_tokens[taken]
    scored = FoldScores(fold, harm, unsafe).scored(frame)
    pairs, equal_pairs = (
        count_pairs(
            scored.predicted_harm,
            frame.harm,
            grouping(frame, "state", equal),
            frame.trajectory,
            kind.params.meaningful_gap,
        ).pooled
        for equal in (False, True)
    )
    area = float(auroc(scored.unsafe_mean, frame.unsafe))
    return _decided(kind.name, (area, pairs, equal_pairs), removal, pruned, went_wrong, fold)


def _chosen_in_each(
    rows: Sequence[_Decided], choices: Sequence[Sequence[OperatingPoint | None]], fold: NDArray[np.int64]
) -> _Decided:
    """Return the choice of the kind that, for each outer fold, removed most inside the others."""
    removal = np.zeros(len(fold))
    went_wrong, pruned = np.zeros((2, len(fold)), dtype=np.bool_)
    for outer in range(int(fold.max()) + 1):
        points = [found[outer] for found in choices]
        inside = [0.0 if point is None else point.mean_removal for point in points]
        taken, mine = rows[int(np.argmax(inside))], fold == outer
        removal[mine], pruned[mine], went_wrong[mine] = taken.removal[mine], taken.pruned[mine], taken.unsafe[mine]
    return _decided(CHOSEN, (None, None, None), removal, pruned, went_wrong, fold)


def _decided(
    name: str,
    scores: tuple[float | None, float | None, float | None],
    removal: NDArray[np.float64],
    pruned: NDArray[np.bool_],
    unsafe: NDArray[np.bool_],
    fold: NDArray[np.int64],
) -> _Decided:
    rate = float(unsafe.sum() / pruned.sum()) if pruned.any() else None
    by_fold = tuple(float(removal[fold == number].mean()) for number in range(int(fold.max()) + 1))
    outcome = Outcome(name, *scores, float(removal.mean()), float(pruned.mean()), rate, by_fold)
    return _Decided(outcome, removal, pruned, unsafe)
