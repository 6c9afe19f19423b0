"""The label stage: exact joint deletion harm for every frozen state that has none yet under this labeler.

The unit of work is a trajectory: all its states share one radix tree, and are recorded in one transaction, together
with the features that were collected in the same walk. A killed worker loses the trajectory it was at; whoever comes
next measures all of it again, and gets the same numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, func

import drsr
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import ArtifactCorrupt, FeatureError
from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import kind_of
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.featurize.records import FeaturizedState, prepare_features, record_features
from drsr.offline.featurize.stage import FeaturizeRun, featurize_run, without_features
from drsr.offline.featurize.upkeep import merge_small_files
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, find_view, register_view
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import StateRow, all_damaged, load_states
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.freeze.states import rule_hash
from drsr.offline.label.harm import Exclusion, measure_states
from drsr.offline.label.order import shortest_first
from drsr.offline.label.records import (
    LabelerIdentity,
    MeasuredState,
    ensure_labeler,
    pending_states,
    record_measurements,
)
from drsr.offline.label.target_nll import Method, TargetNll
from drsr.offline.label.walk_features import CollectingWatch
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.claims import Claims
from drsr.request.rendering import RENDERER_VERSION, render_output
from drsr.request.view import Caps

DEFAULT_LABELER = "default"


@dataclass(slots=True)
class LabelSummary:
    """The summary of one worker."""

    trajectories: int = 0
    labelled: int = 0
    """States with labels now."""
    sets: int = 0
    """Labels written."""
    excluded: Counter[str] = field(default_factory=Counter)
    """States without labels, by reason."""
    featurized: int = 0
    """States whose features were collected in the same walk."""
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
    features: tuple[FeaturizeRun, ...]
    """The feature views that are filled in the same walk; none if this language model has no features to collect."""


def label_run(
    scorer: TargetNll,
    dtype: str,
    caps: Caps,
    *,
    labeler: str = DEFAULT_LABELER,
    views: Sequence[str] = (DEFAULT_VIEW,),
    part: Selection | None = None,
    limit: int | None = None,
) -> LabelRun:
    """A run with a loaded language model."""
    backbone = scorer.backbone
    identity = LabelerIdentity(backbone.name, backbone.identity, dtype, RENDERER_VERSION, rule_hash(caps), caps.target)
    freezing = freezing_rule(backbone.tokenizer, caps)
    features = _collectable(scorer, dtype, caps, views)
    return LabelRun(labeler, identity, freezing, caps, part or Selection(), limit, features)


def _collectable(scorer: TargetNll, dtype: str, caps: Caps, views: Sequence[str]) -> tuple[FeaturizeRun, ...]:
    """None where contexts are computed one by one, or the model has no layers that features could be read from."""
    if scorer.method is not Method.SHARED_PREFIX:
        return ()
    try:
        return tuple(featurize_run(scorer.backbone, dtype, caps, view=view) for view in views)
    except FeatureError:
        return ()


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
    """Measure what is missing, together with whatever other workers are at it. Rerunning changes nothing.

    A run whose stored bytes are damaged does not stop the others: it is left out, and named by the error at the end.
    """
    started = time.monotonic()
    summary, damaged = LabelSummary(), dict[int, ArtifactCorrupt]()
    with catalog.writing() as connection:
        labeler_id = ensure_labeler(connection, run.labeler, run.identity)
        views = _views_to_fill(connection, run.features)
        run_id = start_run(connection, "label", run.labeler, drsr.__version__)
    with Claims(catalog, "label") as claims:
        for item in claims.items(
            shortest_first(run.freezing, labeler_id, run.part, run.labeler, damaged),
            enough=lambda: run.limit is not None and summary.states >= run.limit,
        ):
            try:
                rows = load_states(catalog, artifacts, item, scorer.backbone.tokenizer, run.caps, run.freezing)
            except ArtifactCorrupt as error:
                damaged[item.number] = error
                with catalog.writing() as connection:
                    claims.release(connection, item.claimed_as)
                continue
            watches = _watches(catalog, scorer, views, rows)
            measured = _measure(scorer, rows, watches, summary)
            collected = [(view, _collected(catalog, view, rows, watches)) for view in views]
            prepared = [(view, prepare_features(artifacts, view, item.split, states)) for view, states in collected]
            with catalog.writing() as connection:
                record_measurements(connection, labeler_id, measured)
                for view, features in prepared:
                    record_features(connection, view, features, method="label")
                claims.release(connection, item.claimed_as)
            featurized = (found for _, states in collected for found in states)
            summary.featurized += len({one.state_id for one in featurized if isinstance(one.result, CandidateFeatures)})
            summary.trajectories += 1
            summary.seconds = time.monotonic() - started
            progress(summary)
    for view in views:
        merge_small_files(catalog, artifacts, view)
    summary.seconds = time.monotonic() - started
    with catalog.writing() as connection:
        finish_run(connection, run_id, summary.to_json())
    if damaged:
        raise all_damaged(list(damaged.values()))
    return summary


def _views_to_fill(connection: Connection, features: Sequence[FeaturizeRun]) -> list[RegisteredView]:
    """The views, unless one of them is another language model's: labels can be measured with any, but views that come
    out of one forward belong to one model."""
    found = [(run, find_view(connection, run.view)) for run in features]
    if any(view is not None and not view.is_read_from(run.identity) for run, view in found):
        return []
    return [register_view(connection, run.view, run.identity, run.columns) for run in features]


def _watches(
    catalog: Catalog, scorer: TargetNll, views: Sequence[RegisteredView], rows: Sequence[StateRow]
) -> dict[int, CollectingWatch]:
    """For every state that has no features yet in one of the views, by its position."""
    if not isinstance(scorer.backbone, FrozenLM):
        return {}
    missing = {row.id for view in views for row in without_features(catalog, view, rows)}
    kinds = [kind_of(view.name) for view in views]
    return {place: CollectingWatch(scorer.backbone, row, kinds) for place, row in enumerate(rows) if row.id in missing}


def _collected(
    catalog: Catalog, view: RegisteredView, rows: Sequence[StateRow], watches: Mapping[int, CollectingWatch]
) -> list[FeaturizedState]:
    """What the walk gave of the states that the view says nothing of yet."""
    missing = {row.id for row in without_features(catalog, view, rows)}
    kind = kind_of(view.name)
    seen = (watch.collected(kind) for place, watch in watches.items() if rows[place].id in missing)
    return [found for found in seen if found is not None]


def _measure(
    scorer: TargetNll, rows: Sequence[StateRow], watches: Mapping[int, CollectingWatch], summary: LabelSummary
) -> list[MeasuredState]:
    targets = [render_output(row.frozen.next_output, scorer.backbone.tokenizer) for row in rows]
    states = [row.frozen.state for row in rows]
    measured = measure_states(scorer, list(zip(states, targets, strict=True)), watches)
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
