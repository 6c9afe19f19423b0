"""The label stage: exact joint deletion harm for every frozen state that has none yet under this labeler.

The unit of work is a trajectory: all its states share one radix tree, and are recorded in one transaction. A killed
worker loses the trajectory it was at; whoever comes next measures all of it again, and gets the same numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, func

import drsr
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.frozen import FreezingRule
from drsr.offline.catalog.records import finish_run, start_run
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.claims import Claims
from drsr.offline.freeze import freezing_rule
from drsr.offline.frozen_rows import TrajectoryItem, load_states
from drsr.offline.harm import Exclusion, measure_states
from drsr.offline.labels import (
    LabelerIdentity,
    MeasuredState,
    Selection,
    ensure_labeler,
    pending_states,
    record_measurements,
)
from drsr.offline.states import rule_hash
from drsr.offline.target_nll import TargetNll
from drsr.rendering import RENDERER_VERSION, render_output
from drsr.view import Caps

DEFAULT_LABELER = "default"


@dataclass(slots=True)
class LabelSummary:
    """What one worker did."""

    trajectories: int = 0
    labelled: int = 0
    """States with labels now."""
    sets: int = 0
    """Labels written."""
    excluded: Counter[str] = field(default_factory=Counter)
    """States without labels, by reason."""
    tokens_processed: int = 0
    """Tokens that went through the model."""
    tokens_naive: int = 0
    """Tokens that computing every context on its own would have taken."""
    seconds: float = 0.0

    @property
    def states(self) -> int:
        return self.labelled + self.excluded.total()

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in LabelSummary.__slots__} | {"states": self.states}


Progress = Callable[[LabelSummary], None]


class LabelRun(NamedTuple):
    """Everything that one run of the stage is about."""

    labeler: str
    identity: LabelerIdentity
    freezing: FreezingRule
    caps: Caps
    part: Selection
    limit: int | None
    """Stop after the trajectory with which this many states were reached."""


def label_run(
    scorer: TargetNll,
    dtype: str,
    caps: Caps,
    *,
    labeler: str = DEFAULT_LABELER,
    part: Selection | None = None,
    limit: int | None = None,
) -> LabelRun:
    """A run with a loaded language model."""
    backbone = scorer.backbone
    identity = LabelerIdentity(backbone.name, backbone.identity, dtype, RENDERER_VERSION, rule_hash(caps), caps.target)
    freezing = freezing_rule(backbone.tokenizer, caps)
    return LabelRun(labeler, identity, freezing, caps, part or Selection(), limit)


def count_pending(connection: Connection, freezing: FreezingRule, labeler_id: int | None, part: Selection) -> int:
    """States that wait to be measured."""
    columns = [func.count(DecisionState.id)]
    count: int = connection.execute(pending_states(columns, freezing, labeler_id, part)).scalar_one()
    return count


def label(
    catalog: Catalog,
    artifacts: ArtifactStore,
    scorer: TargetNll,
    run: LabelRun,
    *,
    progress: Progress = lambda summary: None,
) -> LabelSummary:
    """Measure what is missing, together with whatever other workers are at it. Rerunning changes nothing."""
    started = time.monotonic()
    summary = LabelSummary()
    with catalog.writing() as connection:
        labeler_id = ensure_labeler(connection, run.labeler, run.identity)
        run_id = start_run(connection, "label", run.labeler, drsr.__version__)
    with Claims(catalog, "label") as claims:
        for item in claims.items(
            lambda connection, cursor: _next(connection, run, labeler_id, cursor),
            enough=lambda: run.limit is not None and summary.states >= run.limit,
        ):
            measured = _measure(catalog, artifacts, scorer, item, run, summary)
            with catalog.writing() as connection:
                record_measurements(connection, labeler_id, measured)
                claims.release(connection, item.claimed_as)
            summary.trajectories += 1
            summary.seconds = time.monotonic() - started
            progress(summary)
    summary.seconds = time.monotonic() - started
    with catalog.writing() as connection:
        finish_run(connection, run_id, summary.to_json())
    return summary


def _next(connection: Connection, run: LabelRun, labeler_id: int, cursor: int) -> TrajectoryItem | None:
    columns = [Trajectory.id, Trajectory.blob, Trajectory.split]
    # Ordered by the states' own column, whose index then gives the first row at once: ordered by the trajectories'
    # id, SQLite sorts all that is left for every item, and the stage costs the square of its length.
    behind = DecisionState.trajectory_id
    query = pending_states(columns, run.freezing, labeler_id, run.part).where(behind > cursor)
    row = connection.execute(query.order_by(behind).limit(1)).first()
    return None if row is None else TrajectoryItem(row.id, row.blob, row.split, f"{run.labeler}/{row.id}")


def _measure(
    catalog: Catalog,
    artifacts: ArtifactStore,
    scorer: TargetNll,
    item: TrajectoryItem,
    run: LabelRun,
    summary: LabelSummary,
) -> list[MeasuredState]:
    tokenizer = scorer.backbone.tokenizer
    rows = load_states(catalog, artifacts, item, tokenizer, run.caps, run.freezing)
    targets = [render_output(row.frozen.next_output, tokenizer) for row in rows]
    states = [row.frozen.state for row in rows]
    measured = measure_states(scorer, list(zip(states, targets, strict=True)))
    summary.tokens_processed += measured.tokens_processed
    summary.tokens_naive += measured.tokens_in_pairs
    results = []
    for row, state, target, result in zip(rows, states, targets, measured.results, strict=True):
        context_tokens = len(state.view.token_ids(state.rendering.token_ids))
        results.append(MeasuredState(row.id, target, context_tokens, result, measured.method))
        if isinstance(result, Exclusion):
            summary.excluded[result.reason] += 1
        else:
            summary.labelled += 1
            summary.sets += len(result.harms)
    return results
