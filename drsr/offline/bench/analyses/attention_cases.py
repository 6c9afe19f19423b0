"""Attention density of safe and unsafe Blocks in two states (paper, figure "Attention density for selected ...")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from drsr.errors import FrameError
from drsr.offline.bench.analyses.analysis import Analysis, Cell
from drsr.offline.bench.analyses.figures import OURS, PAPER, figure
from drsr.offline.evaluate.singletons import Floats, singleton_harms
from drsr.offline.train.examples import ExampleFrame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DENSITY = re.compile(r"attention_l(\d+)_mean_density")
CASES = 2


def attention_cases(
    frame: ExampleFrame, columns: Sequence[str], harm_tolerance: float, selected: NDArray[np.int64]
) -> Analysis:
    """Return the states with the widest range of single harms that hold both a safe and an unsafe Block; raise
    FrameError if there are none.

    `selected` is the mask of what the policy deletes in each state, 0 if it abstains; such states come last.
    """
    alone = singleton_harms(frame, frame.harm)
    layers = [(int(found.group(1)), n) for n, name in enumerate(columns) if (found := DENSITY.fullmatch(name))]
    rows: list[tuple[Cell, ...]] = []
    densities: list[tuple[int, str, bool, str, list[float]]] = []
    states = sorted(_mixed_states(alone, harm_tolerance), key=lambda state: not selected[state])[:CASES]
    if not states:
        raise FrameError("no state holds both a safe and an unsafe Block", where=frame.split, hint="label more states")
    for case, state in enumerate(states, start=1):
        for place in np.flatnonzero(~np.isnan(alone[state])):
            harm = float(alone[state, place])
            density = [float(frame.features[state, place, column]) for _, column in layers]
            verdict = "unsafe" if harm > harm_tolerance else "safe"
            goes = bool(int(selected[state]) >> int(place) & 1)
            policy = "selected" if goes else "retained"
            rows.append((case, f"Block {place + 1}", verdict, policy, harm, *density))
            label = f"Block {place + 1}, {verdict} ({harm:+.2f}), {policy}"
            densities.append((case, verdict, goes, label, density))

    def draw(*panels: Axes) -> None:
        for case, axes in enumerate(panels, start=1):
            for shown, verdict, goes, label, density in densities:
                if shown == case:
                    colour, mark = PAPER if verdict == "unsafe" else OURS, "v--" if goes else "o-"
                    axes.plot([layer for layer, _ in layers], density, mark, color=colour, markersize=3, label=label)
            axes.set(xlabel="layer", ylabel="attention density", title=f"case {case}", yscale="symlog")
            axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "attention_cases",
        "Attention density, two cases",
        f"Attention per token from the pre-action position to single Blocks of two states of the {frame.split} split, "
        "those with the widest range of single harms among the states in which the policy selects a set, if there are "
        "any. Dashed: selected for deletion. Low attention alone is not a test of safety.",
        ("case", "Block", "measured alone", "policy", "harm", *(f"layer {layer}" for layer, _ in layers)),
        tuple(rows),
        figure(draw, panels=len(states)),
    )


def _mixed_states(alone: Floats, harm_tolerance: float) -> list[int]:
    some = ~np.isnan(alone).all(axis=1)
    low, high = np.full(len(alone), np.nan), np.full(len(alone), np.nan)
    low[some], high[some] = np.nanmin(alone[some], axis=1), np.nanmax(alone[some], axis=1)
    mixed = np.flatnonzero((low <= harm_tolerance) & (high > harm_tolerance))
    return [int(state) for state in mixed[np.argsort(-(high - low)[mixed], kind="stable")]]
