"""How much one layer's relation alone says about harm (paper, figure "Decision-conditioned historical relevance", a).

Single Blocks of one state are put in order by one column, in the direction that orders more training pairs rightly. The
direction is all that is fitted. The same columns with the decision state of another trajectory are the control.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from drsr.offline.ablations import MISMATCH_SEED, mismatch_states
from drsr.offline.evaluation.analyses.analysis import Analysis
from drsr.offline.evaluation.analyses.figures import OURS, PAPER, THIRD, figure
from drsr.offline.evaluation.paper_tables import analyses
from drsr.offline.examples import ExampleFrame
from drsr.offline.metrics import Floats, count_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RELATIONS = {
    "cosine with the decision state": re.compile(r"hidden_l(\d+)_mean_cosine"),
    "distance to the decision state": re.compile(r"hidden_l(\d+)_distance"),
    "attention mass": re.compile(r"attention_l(\d+)_mean_mass"),
}
IN_THE_PAPER = {
    "matched_state": "for the matched pre-action relation",
    "mismatched_state": "with a mismatched state",
    "attention_mass_layer_20": "for attention mass at layer 20",
    "current_state_only": "for the state alone",
}


def layer_relations(
    train: ExampleFrame,
    test: ExampleFrame,
    columns: Sequence[str],
    column_groups: Sequence[str],
    meaningful_gap: float,
) -> Analysis:
    """Directions from `train`, accuracies on `test`. `columns` and `column_groups` name the features, in order."""
    other = mismatch_states(test, column_groups, MISMATCH_SEED)
    rows = []
    for relation, pattern in RELATIONS.items():
        for number, name in enumerate(columns):
            found = pattern.fullmatch(name)
            if found:
                sign = 1.0 if _accuracy(train, number, 1.0, meaningful_gap)[0] >= 0.5 else -1.0
                matched, pairs = _accuracy(test, number, sign, meaningful_gap)
                mismatched, _ = _accuracy(other, number, sign, meaningful_gap)
                rows.append((relation, int(found.group(1)), pairs, matched, mismatched))

    def draw(axes: Axes) -> None:
        for relation, colour in zip(RELATIONS, (OURS, PAPER, THIRD), strict=True):
            mine = [row for row in rows if row[0] == relation]
            axes.plot(
                [row[1] for row in mine], [row[3] for row in mine], "-o", color=colour, label=relation, markersize=3
            )
            axes.plot([row[1] for row in mine], [row[4] for row in mine], ":", color=colour)
        axes.set(xlabel="layer (dotted: state of another run)", ylabel="pairs ordered rightly")
        axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "layer_relations",
        "One relation alone, layer by layer",
        f"Pairs of single Blocks of one state of the {test.split} split whose harms differ by {meaningful_gap:g} or "
        f"more, ordered by one feature in the direction that orders more pairs of the {train.split} split. In the "
        "paper: "
        + ", ".join(f"{analyses()[f'representation.{name}'].value:.3f} {what}" for name, what in IN_THE_PAPER.items())
        + ".",
        ("relation", "layer", "pairs", "matched state", "mismatched state"),
        tuple(rows),
        figure(draw, width=6.0, height=3.4),
    )


def _accuracy(frame: ExampleFrame, column: int, sign: float, gap: float) -> tuple[float, int]:
    single = np.flatnonzero(frame.cardinality == 1)
    member = np.log2(frame.mask[single]).astype(np.int64)
    values: Floats = sign * frame.features[frame.state[single], member, column].astype(np.float64)
    counts = count_pairs(values, frame.harm[single], frame.state[single], frame.trajectory[single], gap)
    return counts.pooled, int(counts.pairs.sum())
