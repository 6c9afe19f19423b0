"""Interaction of pairs by the relation of the two Blocks (paper, figure "Interaction summaries by ...").

Four properties, all from features that are known online: the kinds of the two, the similarity of their contents to the
language model (cosine of their projected hidden states), the similarity of the heads' attention to them (cosine of
their attention masses), and the number of Steps between them (the column has logarithms of ages: they are undone
first). The last three are cut into thirds of the given pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.analyses.analysis import Analysis, Cell
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans
from drsr.offline.bench.analyses.non_compositionality import residuals
from drsr.offline.evaluate.cells import cells
from drsr.offline.evaluate.singletons import Floats
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KIND, AGE = "structural_is_assistant_state", "structural_step_age"
HEAD_MASS = re.compile(r"attention_l\d+_h\d+_mass")
"""Attention mass of one head each: a layer's mean and maximum over its heads are not heads."""
THIRDS = ("low", "middle", "high")


class _Pairs(NamedTuple):
    """All measured pairs: their interaction, and the features of both."""

    rows: NDArray[np.int64]
    """In the frame."""
    interaction: Floats
    one: Floats
    other: Floats


def interaction_properties(frame: ExampleFrame, columns: Sequence[str], bootstrap: Bootstrap) -> Analysis:
    """`columns` are the names of the feature columns, in order."""
    pairs = _pairs(frame)
    groups = {
        "kinds": _kinds(pairs, columns),
        "semantic overlap": _thirds(_cosine(pairs, [n for n, name in enumerate(columns) if "_block_" in name])),
        "head overlap": _thirds(_cosine(pairs, [n for n, name in enumerate(columns) if HEAD_MASS.fullmatch(name)])),
        "Steps between": _thirds(_steps_between(pairs, columns.index(AGE))),
    }
    rows: list[tuple[Cell, ...]] = []
    drawn: dict[tuple[str, str], Metric] = {}
    means, interaction = GroupedMeans(frame, bootstrap), np.zeros(len(frame))
    interaction[pairs.rows] = pairs.interaction
    positive = (interaction > 0).astype(np.float64)
    for name, labels in groups.items():
        for label in dict.fromkeys(sorted(labels, key=_order)):
            mine = np.zeros(len(frame), dtype=np.bool_)
            mine[pairs.rows[np.array(labels) == label]] = True
            found = [means.mean(values, mine) for values in (np.abs(interaction), interaction, positive)]
            rows.append((name, label, int(mine.sum()), *cells(found)))
            drawn[name, label] = found[0]

    def draw(*panels: Axes) -> None:
        for axes, name in zip(panels, groups, strict=True):
            mine = {label: found for (owner, label), found in drawn.items() if owner == name}
            axes.bar(list(mine), [found.value for found in mine.values()], color=OURS)
            for label, found in mine.items():
                axes.plot([label, label], [found.low, found.high], "-", color=PAPER, linewidth=1)
            axes.set_title(name, fontsize=9)
            axes.tick_params(axis="x", labelsize=7)
        panels[0].set_ylabel("mean |interaction|, nats")

    return Analysis(
        "interaction_properties",
        "Interaction of pairs by what the two Blocks are to each other",
        f"Labels of the {frame.split} split. A positive interaction means that the two together do more harm than "
        "apart, because each could replace the other. The properties are diagnostic; no rule is made from them. "
        f"{INTERVALS}",
        ("property", "group", "pairs", "mean |interaction|", "mean", "share positive"),
        tuple(rows),
        figure(draw, panels=4),
    )


def _pairs(frame: ExampleFrame) -> _Pairs:
    found = residuals(frame)
    rows = np.flatnonzero((frame.cardinality == 2) & ~np.isnan(found))
    masks = frame.mask[rows]
    lower = np.log2(masks & -masks).astype(np.int64)
    upper = np.log2(masks ^ (masks & -masks)).astype(np.int64)
    features = frame.features[frame.state[rows]]
    places = np.arange(len(rows))
    one, other = features[places, lower].astype(np.float64), features[places, upper].astype(np.float64)
    return _Pairs(rows, found[rows], one, other)


def _kinds(pairs: _Pairs, columns: Sequence[str]) -> list[str]:
    texts = pairs.one[:, columns.index(KIND)] + pairs.other[:, columns.index(KIND)]
    words = {0: "two exchanges", 1: "text, exchange", 2: "two texts"}
    return [words[round(number)] for number in texts]


def _steps_between(pairs: _Pairs, age: int) -> Floats:
    """Whole Steps: the ages are counts, and 32 bits of their logarithms give them back."""
    between: Floats = np.abs(np.rint(np.expm1(pairs.one[:, age])) - np.rint(np.expm1(pairs.other[:, age])))
    return between


def _cosine(pairs: _Pairs, chosen: Sequence[int]) -> Floats:
    one, other = pairs.one[:, chosen], pairs.other[:, chosen]
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine: Floats = (one * other).sum(axis=1) / np.maximum(norms, 1e-12)
    return cosine


def _thirds(values: Floats) -> list[str]:
    edges = np.quantile(values, [1 / 3, 2 / 3]) if len(values) else np.zeros(2)
    return [THIRDS[int(place)] for place in np.searchsorted(edges, values, side="left")]


def _order(label: str) -> tuple[int, str]:
    return (THIRDS.index(label) if label in THIRDS else 0, label)
