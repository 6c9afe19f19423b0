"""A Block compared with its own decision state, with others, and alone (paper, figure "Decision-conditioned ...").

The Block is held fixed and only what it is related to changes. Features keep the directions of Block and state apart at
the semantic layers: whole ones in the view `semantic`, projected to 64 coordinates in the full view. So the relation of
a Block to any state is the cosine of two stored vectors, and no language model is asked.

    own state       of the decision before which the Block would go
    other states    of decisions of other tasks, several for each, drawn by seed
    Block alone     the mean state of training, the same for every decision: the score of a Block whatever is decided
    whole context   the mean over all positions of the request that is read; only where whole directions are stored

What the Block alone determines loses nothing with other states; what depends on the relation to the decision does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.errors import FrameError
from drsr.features.hidden import unit
from drsr.offline.bench.analyses.analysis import Analysis
from drsr.offline.bench.analyses.figures import COLOURS, figure, margin_line
from drsr.offline.bench.analyses.grouped_means import INTERVALS, GroupedMeans, draw_line
from drsr.offline.bench.analyses.margin_sweep import MARGINS
from drsr.offline.bench.report.paper_tables import analyses
from drsr.offline.evaluate.cells import cell, cells
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.metrics import Bootstrap, Floats, Ints, Metric, PairCounts, count_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OWN, OTHERS, ALONE, CONTEXT = "own state", "states of other tasks", "Block alone", "whole context"
KINDS = (OWN, OTHERS, ALONE)
"""Those that any stored directions allow."""
IN_THE_PAPER = ("matched_state", "mismatched_state", "full_context")
PARTNERS = 10
"""States of other tasks for each state: one alone would make the control a matter of luck."""
PARTNER_SEED = 4_097
COORDINATE = re.compile(r"(?:projection|semantic)_l(\d+)_(block|state|context)_\d+")
NO_COORDINATES = "the features hold no projected directions of Blocks and states"
PROJECTED = (
    "Stored are projections of hidden states, so these cosines are rougher than the exact one of the own state (one "
    "relation alone, layer by layer), and all three alike: `drsr featurize --view semantic` keeps whole directions."
)
EXACT = "The cosines are of whole hidden states, rounded to 16 bits."
ONE_TASK = "there is only one task, so there is no state of another"


class Related(NamedTuple):
    """Pairs of single Blocks of one state, ordered by a cosine at one layer."""

    own: Metric
    others: Metric
    alone: Metric
    own_less_others: Metric
    own_less_alone: Metric
    """Both on the same drawn tasks."""
    context: Metric | None = None
    """Metric with the whole context, if that is stored."""


class LayerRelations:
    """The three relations of one layer, each in the direction that orders more training pairs rightly."""

    def __init__(self, train: ExampleFrame, test: ExampleFrame, layer: _Layer, meaningful_gap: float) -> None:
        self.layer = layer.number
        mean = _states(train, layer).mean(axis=0)
        fitted = {kind: _count(train, values, meaningful_gap).pooled for kind, values in _cosines(train, layer, mean)}
        self.fit = max(fitted[OWN], 1 - fitted[OWN])
        """Part of the training pairs that the own state orders rightly."""
        self._test = test
        self._values = {
            kind: values if fitted[kind] >= 0.5 else -values for kind, values in _cosines(test, layer, mean)
        }

    def at(self, margin: float, means: GroupedMeans) -> Related:
        """On pairs whose harms differ by `margin` or more; `means` are of the test frame."""
        own, others, alone = (_count(self._test, self._values[kind], margin) for kind in KINDS)
        context = self._values.get(CONTEXT)
        return Related(
            own=means.accuracy(own),
            others=means.accuracy(others),
            alone=means.accuracy(alone),
            own_less_others=means.gain(own, others),
            own_less_alone=means.gain(own, alone),
            context=None if context is None else means.accuracy(_count(self._test, context, margin)),
        )


def layers_of(
    train: ExampleFrame, test: ExampleFrame, columns: Sequence[str], meaningful_gap: float
) -> list[LayerRelations]:
    """Return every layer with stored directions; `columns` are the names of the feature columns, in order. Raise
    FrameError if there is no such layer, or no other task to take a state from."""
    found: dict[int, _Layer] = {}
    for number, name in enumerate(columns):
        if match := COORDINATE.fullmatch(name):
            layer = found.setdefault(int(match.group(1)), _Layer(int(match.group(1)), [], [], []))
            getattr(layer, match.group(2)).append(number)
    if not found or not all(layer.block and layer.state for layer in found.values()):
        raise FrameError(NO_COORDINATES, where=test.split)
    return [LayerRelations(train, test, layer, meaningful_gap) for layer in found.values()]


def is_exact(columns: Sequence[str]) -> bool:
    """Return whether these are whole directions, not projected ones."""
    return any(name.startswith("semantic_") for name in columns)


def best_in_training(layers: Iterable[LayerRelations]) -> LayerRelations:
    """Return the layer whose own state orders most training pairs."""
    return max(layers, key=lambda layer: layer.fit)


def state_relations(
    train: ExampleFrame, test: ExampleFrame, columns: Sequence[str], meaningful_gap: float, bootstrap: Bootstrap
) -> Analysis:
    """Layer by layer, at the margin of a meaningful gap."""
    means = GroupedMeans(test, bootstrap)
    layers = {one.layer: one.at(meaningful_gap, means) for one in layers_of(train, test, columns, meaningful_gap)}
    theirs = [analyses()[f"representation.{name}"].value for name in IN_THE_PAPER]

    def draw(axes: Axes) -> None:
        _draw(axes, layers)
        axes.set(xlabel="layer", ylabel="pairs ordered rightly", xticks=list(layers))
        axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "state_relations",
        "The same Block beside its own decision, beside others, and alone",
        f"Pairs of single Blocks of one state of the {test.split} split whose harms differ by {meaningful_gap:g} or "
        "more, ordered by the cosine of the Block with a decision state. The Block stays the same: first its own "
        f"decision's state, then those of {PARTNERS} decisions of other tasks, then the mean state of training, which "
        "is the same for all. Each is taken in the direction that orders more training pairs. If the own state orders "
        f"no more pairs than others do, the Block alone carries the signal. In the paper {theirs[0]:.3f} with the "
        f"matched state, {theirs[1]:.3f} with a mismatched one, {theirs[2]:.3f} with the full context. "
        f"{EXACT if is_exact(columns) else PROJECTED} The paper's figure also has surface features: here the scorer of "
        f"structural features only. {INTERVALS}",
        ("layer", "pairs", *_headings(layers.values())),
        tuple((layer, one.own.support, *_row(one)) for layer, one in layers.items()),
        figure(draw, width=5.0),
    )


def relation_margins(
    train: ExampleFrame, test: ExampleFrame, columns: Sequence[str], meaningful_gap: float, bootstrap: Bootstrap
) -> Analysis:
    """Return the relations at the best layer in training as the margin varies (panel b of the paper's figure)."""
    best, means = best_in_training(layers_of(train, test, columns, meaningful_gap)), GroupedMeans(test, bootstrap)
    found = {margin: best.at(margin or 1e-12, means) for margin in MARGINS}

    def draw(axes: Axes) -> None:
        _draw(axes, found)
        margin_line(axes, meaningful_gap, "primary margin")
        axes.set(xlabel="harms differ by at least, nats", ylabel="pairs ordered rightly")
        axes.legend(frameon=False, fontsize=7)

    return Analysis(
        "relation_margins",
        "The same Block beside its own decision and others, by margin",
        f"As above at layer {best.layer}, whose cosine with the own state orders most pairs of the {train.split} "
        f"split, for pairs whose harms differ by the margin or more. {INTERVALS}",
        ("margin", "pairs", *_headings(found.values())),
        tuple((margin, one.own.support, *_row(one)) for margin, one in found.items()),
        figure(draw, width=5.0),
    )


def other_states(frame: ExampleFrame) -> Ints:
    """(states, PARTNERS): for each state some of other tasks, each as likely as the next; FrameError without one."""
    group, total = frame.state_group, len(frame.state_ids)
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    if len(sizes) < 2:
        raise FrameError(ONE_TASK, where=frame.split, hint="label runs of more tasks")
    # States of one task stand together in `order`: counting on from behind them, around the end, meets all the others.
    behind = np.cumsum(sizes)[group]
    drawn = np.random.default_rng(PARTNER_SEED).random((total, PARTNERS))
    steps = (drawn * (total - sizes[group])[:, None]).astype(np.int64)
    partners: Ints = order[(behind[:, None] + steps) % total]
    return partners


class _Layer(NamedTuple):
    """The positions of its coordinates among the feature columns."""

    number: int
    block: list[int]
    state: list[int]
    context: list[int]


def _states(frame: ExampleFrame, layer: _Layer) -> Floats:
    """(states, coordinates): directions; the same for all candidates of a state, so the first one's are taken."""
    return unit(frame.features[:, 0][:, layer.state].astype(np.float64))


def _cosines(frame: ExampleFrame, layer: _Layer, mean: Floats) -> Iterable[tuple[str, Floats]]:
    """Return, by kind, (single Blocks, number of states each is compared with)."""
    single = _single(frame)
    state, place = frame.state[single], np.log2(frame.mask[single]).astype(np.int64)
    block = unit(frame.features[state, place][:, layer.block].astype(np.float64))
    states, partners = _states(frame, layer), other_states(frame)
    yield OWN, _products(block, [states[state]])
    yield OTHERS, _products(block, (states[partners[state, number]] for number in range(PARTNERS)))
    yield ALONE, _products(block, [unit(mean)])
    if layer.context:
        whole = unit(frame.features[:, 0][:, layer.context].astype(np.float64))
        yield CONTEXT, _products(block, [whole[state]])


def _products(block: Floats, states: Iterable[Floats]) -> Floats:
    return np.stack([(block * one).sum(axis=1) for one in states], axis=1)


def _count(frame: ExampleFrame, values: Floats, margin: float) -> PairCounts:
    """Return each pair once, with its mean credit over the states it was compared with."""
    single = _single(frame)
    about = (frame.harm[single], frame.state[single], frame.trajectory[single], margin)
    counts = [count_pairs(column, *about) for column in values.T]
    return PairCounts(*(np.mean(part, axis=0) for part in zip(*counts, strict=True)))


def _single(frame: ExampleFrame) -> NDArray[np.int64]:
    return np.flatnonzero(frame.cardinality == 1)


def _headings(found: Iterable[Related]) -> tuple[str, ...]:
    context = () if any(one.context is None for one in found) else (CONTEXT,)
    return (*KINDS, "own less others", "own less Block alone", *context)


def _row(one: Related) -> tuple[str, ...]:
    gains = (one.own_less_others, one.own_less_alone)
    context = () if one.context is None else cells([one.context])
    return (*cells(one[:3]), *(cell(gain, signed=True) for gain in gains), *context)


def _draw(axes: Axes, found: Mapping[int, Related] | Mapping[float, Related]) -> None:
    for place, (kind, colour) in enumerate(zip(KINDS, COLOURS, strict=False)):
        draw_line(
            axes, list(found), [(one.own, one.others, one.alone)[place] for one in found.values()], "o-", colour, kind
        )
    contexts = [one.context for one in found.values() if one.context is not None]
    if len(contexts) == len(found):
        draw_line(axes, list(found), contexts, "o-", COLOURS[len(KINDS)], CONTEXT)
