"""Measure how much one layer's relation says about harm (paper, figure "Decision-conditioned historical relevance", a).

Single Blocks of one state are ordered by one column, in the direction that orders more training pairs correctly. Only
the direction is fitted. For comparison the same column is taken from another decision: each value belongs to the
candidate in the same position there. Block and state are both exchanged, so this shows what the position alone says;
`state_relations` holds the Block fixed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drsr.errors import FrameError
from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import OURS, PAPER, THIRD, figure
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans, draw_line
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.cells import cells
from drsr.offline.train.ablations import MISMATCH_SEED, mismatch_states
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Floats, Metric, PairCounts, count_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COSINE, MASS = "cosine with the decision state", "attention mass"
RELATIONS = {
    COSINE: re.compile(r"hidden_l(\d+)_mean_cosine"),
    "distance to the decision state": re.compile(r"hidden_l(\d+)_distance"),
    MASS: re.compile(r"attention_l(\d+)_mean_mass"),
}
IN_THE_PAPER = {
    "matched_state": "for the matched pre-action relation",
    "attention_mass_layer_20": "for attention mass at layer 20",
    "current_state_only": "for the state alone",
}


def layer_relations(
    train: ExampleFrame,
    test: ExampleFrame,
    columns: Sequence[str],
    column_groups: Sequence[str],
    meaningful_gap: float,
    bootstrap: Bootstrap,
) -> Analysis:
    """Directions from `train`, accuracies on `test`. `columns` and `column_groups` name the features, in order."""
    other, means = mismatch_states(test, column_groups, MISMATCH_SEED), GroupedMeans(test, bootstrap)
    found: dict[tuple[str, int], tuple[Metric, Metric]] = {}
    for relation, pattern in RELATIONS.items():
        for number, name in enumerate(columns):
            match = pattern.fullmatch(name)
            if match:
                sign = 1.0 if _count(train, number, 1.0, meaningful_gap).pooled >= 0.5 else -1.0
                own, exchanged = (_count(frame, number, sign, meaningful_gap) for frame in (test, other))
                found[relation, int(match.group(1))] = (means.accuracy(own), means.accuracy(exchanged))

    def draw(axes: Axes) -> None:
        for relation, colour in zip(RELATIONS, (OURS, PAPER, THIRD), strict=True):
            mine = {layer: pair for (owner, layer), pair in found.items() if owner == relation}
            draw_line(axes, list(mine), [own for own, _ in mine.values()], "-o", colour, relation)
            axes.plot(list(mine), [exchanged.value for _, exchanged in mine.values()], ":", color=colour)
        axes.set(xlabel="layer (dotted: another decision's, same place)", ylabel="pairs ordered rightly")
        axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "layer_relations",
        "One relation alone, layer by layer",
        f"Pairs of single Blocks of one state of the {test.split} split whose harms differ by {meaningful_gap:g} or "
        f"more, ordered by one feature in the direction that orders more pairs of the {train.split} split. The last "
        "column takes each value from the candidate at the same place of another run's decision: Block and state are "
        "both exchanged, so it shows what the place alone says, not what the right state is worth. In the paper: "
        + ", ".join(f"{analyses()[f'representation.{name}'].value:.3f} {what}" for name, what in IN_THE_PAPER.items())
        + f". {INTERVALS}",
        ("relation", "layer", "pairs", "own", "another decision's, same place"),
        tuple((relation, layer, pair[0].support, *cells(pair)) for (relation, layer), pair in found.items()),
        figure(draw, width=6.0, height=3.4),
    )


class OneRelation(NamedTuple):
    """A relation of one or two layers, chosen and turned on training pairs alone."""

    layers: tuple[int, ...]
    accuracy: Metric


def best_layer(
    train: ExampleFrame, test: ExampleFrame, columns: Sequence[str], relation: str, gap: float, bootstrap: Bootstrap
) -> OneRelation:
    """Return the one of `RELATIONS`, and the layer, that orders most training pairs; raise FrameError if there is no
    such column."""
    numbers = _numbers(columns, relation)
    fitted = {layer: _count(train, number, 1.0, gap).pooled for layer, number in numbers.items()}
    best = max(fitted, key=lambda layer: max(fitted[layer], 1 - fitted[layer]))
    sign = 1.0 if fitted[best] >= 0.5 else -1.0
    found = _count(test, numbers[best], sign, gap)
    return OneRelation((best,), GroupedMeans(test, bootstrap).accuracy(found))


def best_two_layers(
    train: ExampleFrame, test: ExampleFrame, columns: Sequence[str], relation: str, gap: float, bootstrap: Bootstrap
) -> OneRelation:
    """Return the same for two layers: each oriented and scaled by the training split, and added; the best two on
    training."""
    numbers = _numbers(columns, relation)
    signed = {
        layer: (1.0 if _count(train, number, 1.0, gap).pooled >= 0.5 else -1.0) / _spread(train, number)
        for layer, number in numbers.items()
    }

    def count(frame: ExampleFrame, layers: tuple[int, ...]) -> PairCounts:
        values = sum(signed[layer] * _values(frame, numbers[layer]) for layer in layers)
        return _count_values(frame, np.asarray(values), gap)

    pairs: list[tuple[int, ...]] = [*combinations(numbers, 2)] or [tuple(numbers)]
    best = max(pairs, key=lambda layers: count(train, layers).pooled)
    return OneRelation(best, GroupedMeans(test, bootstrap).accuracy(count(test, best)))


def _numbers(columns: Sequence[str], relation: str) -> dict[int, int]:
    """Return, by layer, the column number of a relation."""
    found = {
        int(match.group(1)): number
        for number, name in enumerate(columns)
        if (match := RELATIONS[relation].fullmatch(name))
    }
    if not found:
        raise FrameError(f"the features hold no {relation}")
    return found


def _spread(frame: ExampleFrame, column: int) -> float:
    return float(_values(frame, column).std()) or 1.0


def _count(frame: ExampleFrame, column: int, sign: float, gap: float) -> PairCounts:
    return _count_values(frame, sign * _values(frame, column), gap)


def _values(frame: ExampleFrame, column: int) -> Floats:
    """Return the values of every set that is a single Block."""
    single = np.flatnonzero(frame.cardinality == 1)
    member = np.log2(frame.mask[single]).astype(np.int64)
    values: Floats = frame.features[frame.state[single], member, column].astype(np.float64)
    return values


def _count_values(frame: ExampleFrame, values: Floats, gap: float) -> PairCounts:
    single = np.flatnonzero(frame.cardinality == 1)
    return count_pairs(values, frame.harm[single], frame.state[single], frame.trajectory[single], gap)
