"""The full scorer, and what is taken away from it to see what each part is worth: configurations, not forks.

A part of the set representation is zero (the dimension stays); a feature group alone means that the normaliser ignores
all other columns; without abstention the risk gate is open; with a mismatched state the columns that relate a candidate
to the decision are those of another candidate to another decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drsr.errors import FrameError, SettingsError
from drsr.features.layout import Column, ColumnGroup
from drsr.offline.train.examples import FrameKind
from drsr.scorer.set_representation import ALL_PARTS, Parts

MISMATCH_SEED = 4_096
"""Seed of the exchange of decisions: the same in every run."""
EXCHANGED_SAYS = (
    "Another decision's relations: attention, hidden relations and decision state of each candidate are those of the "
    "candidate at the same place of another run's decision. Block and state are both exchanged, so what is lost is not "
    "the state's alone; only the Block's own projection and its structural features stay."
)
"""Note for readers of a table of it. It is not the paper's control, which keeps the Block."""
STATE_GROUPS = ("attention", "hidden", "projection")
"""Feature groups that relate a candidate to the pre-action state, or describe that state."""
BLOCK_PROJECTION = "projection.block"
"""The part of a group that is the candidate's own, whatever the decision."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """One configuration of training and selection."""

    name: str
    what: str
    """For a table's reader."""
    parts: Parts = ALL_PARTS
    feature_groups: tuple[str, ...] | None = None
    """The only groups whose columns are used; None means all."""
    abstains: bool = True
    """True if selection has a risk gate."""
    mismatched_state: bool = False
    """True if `prepare_frame` takes the state-related columns from another decision."""


FULL = Ablation("full", "everything")
ABLATIONS = {
    ablation.name: ablation
    for ablation in (
        FULL,
        Ablation("no-retained-context", "without what stays", parts=Parts(retained_context=False)),
        Ablation("no-pair-pooling", "without pairs of deleted candidates", parts=Parts(pair_pooling=False)),
        Ablation("no-abstention", "without a risk gate", abstains=False),
        Ablation("structural-only", "structural features only", feature_groups=("structural",)),
        Ablation("attention-only", "attention features only", feature_groups=("attention",)),
        Ablation("hidden-only", "hidden-state relations only", feature_groups=("hidden",)),
        Ablation("projection-only", "projections only", feature_groups=("projection",)),
        Ablation("mismatched-state", "another decision's relations at the same place", mismatched_state=True),
    )
}


def find_ablation(name: str) -> Ablation:
    """Return the configuration of that name."""
    if name not in ABLATIONS:
        raise SettingsError(f"no ablation is called {name!r}", hint=f"use one of {', '.join(ABLATIONS)}")
    return ABLATIONS[name]


def method_name(ablation: str) -> str:
    """Return its name among the methods of an evaluation: `drsr_no_abstention`."""
    return f"drsr_{ablation.replace('-', '_')}"


def trained_as(ablation: Ablation) -> Ablation:
    """Return the first configuration that is fitted the same way: a configuration that differs only in selection needs
    no separate scorer."""
    return next(
        other
        for other in ABLATIONS.values()
        if replace(other, name=ablation.name, what=ablation.what, abstains=ablation.abstains) == ablation
    )


def column_group(column: Column) -> str:
    """Return the group of a feature column, with a part after a dot if it matters to a mismatched state."""
    is_block = column.group is ColumnGroup.PROJECTION and "_block_" in column.name
    return BLOCK_PROJECTION if is_block else str(column.group)


def used_columns(ablation: Ablation, column_groups: Sequence[str], kept: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Return the feature columns that the configuration uses; `column_groups` has each one's group, in layout order.

    `kept` are the only groups that the scorer reads at all; empty is every group.
    """
    used = np.ones(len(column_groups), dtype=np.bool_)
    for wanted, whose in (
        (kept or None, "train.column_groups"),
        (ablation.feature_groups, f"ablation {ablation.name!r}"),
    ):
        if wanted is not None:
            used &= np.isin([group.partition(".")[0] for group in column_groups], wanted)
        if not used.any():
            raise SettingsError(f"{whose} keeps {', '.join(wanted or ())}, of which the layout has no column")
    return used


def prepare_frame(frame: FrameKind, ablation: Ablation, column_groups: Sequence[str]) -> FrameKind:
    """Return the examples as the configuration sees them. Training prepares its frames; code that scores prepares its
    own."""
    return mismatch_states(frame, column_groups, MISMATCH_SEED) if ablation.mismatched_state else frame


def mismatch_states(frame: FrameKind, column_groups: Sequence[str], seed: int) -> FrameKind:
    """Return the same candidates and labels, with the state-related columns taken from a decision of another
    trajectory.

    They come from the candidate in the same position there, so they relate another Block to another state; the
    projection of the candidate itself stays. This shows what a scorer has left without its relations. It is not the
    paper's control, which keeps the Block and exchanges only the state: `state_relations` does that where no forward is
    needed.
    """
    columns = np.flatnonzero(np.isin(np.asarray(column_groups), STATE_GROUPS))
    if len(columns) == 0:
        raise SettingsError(f"a mismatched state needs columns of {', '.join(STATE_GROUPS)}; the layout has none")
    features = frame.features.copy()
    features[:, :, columns] = frame.features[mismatched_partners(frame, seed)][:, :, columns]
    return with_features(frame, features)


def with_features(frame: FrameKind, features: NDArray[np.float32]) -> FrameKind:
    """Return the same examples with other feature values in the same layout."""
    return replace(frame, features=features)


def mismatched_partners(frame: FrameKind, seed: int) -> NDArray[np.int64]:
    """Return for each state another one, of another trajectory and with as many candidates; a permutation, by seed."""
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(int(frame.state_trajectory.max()) + 1)[frame.state_trajectory]
    partner = np.empty(len(frame.state_ids), dtype=np.int64)
    for count in np.unique(frame.candidate_counts):
        states = np.flatnonzero(frame.candidate_counts == count)
        states = states[np.argsort(shuffled[states], kind="stable")]
        # States of one trajectory stand together, so a shift by the longest run leads every state out of its own.
        longest = int(np.bincount(frame.state_trajectory[states]).max())
        if 2 * longest > len(states):
            raise FrameError(
                f"states with {count} candidates: too few of other trajectories to pair each with one",
                where=frame.split,
                hint="label more trajectories",
            )
        partner[states] = np.roll(states, longest)
    return partner
