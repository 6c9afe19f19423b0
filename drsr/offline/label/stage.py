"""The label stage: exact joint deletion harm for every frozen state that has none yet under this labeler.

The unit of work is a trajectory: all its states share one radix tree, and are recorded in one transaction, together
with the features that were collected in the same walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, func

from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import FeatureError
from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import kind_of
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.featurize.records import FeaturizedState, prepare_features, record_features
from drsr.offline.featurize.stage import FeaturizeRun, featurize_run, without_features
from drsr.offline.featurize.upkeep import merge_small_files
from drsr.offline.featurize.views import DEFAULT_VIEW, RegisteredView, find_view, register_view
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import StateRow, TrajectoryItem
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.shared_work import Job, Record, WorkSummary, work_through
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.freeze.states import rule_hash
from drsr.offline.label.harm import measure_states
from drsr.offline.label.noise.floor import agreement_of_ways
from drsr.offline.label.noise.settling import settled
from drsr.offline.label.order import labelling_order
from drsr.offline.label.records import (
    LabelerIdentity,
    MeasuredState,
    ensure_labeler,
    pending_states,
    record_floor,
    record_measurements,
)
from drsr.offline.label.target_nll import EXACT, Method, TargetNll, device_of
from drsr.offline.label.walk_features import CollectingWatch
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.devices import device_name
from drsr.request.rendering import RENDERER_VERSION, render_output
from drsr.request.view import Caps

DEFAULT_LABELER = "default"


@dataclass(slots=True)
class LabelSummary(WorkSummary):
    """The summary of one worker."""

    labelled: int = 0
    """States with labels now."""
    sets: int = 0
    """Labels written."""
    featurized: int = 0
    """States whose features were collected in the same walk."""
    tokens_processed: int = 0
    """Tokens that went through the model."""
    tokens_naive: int = 0
    """Tokens that computing every context on its own would have taken."""
    method: str = ""
    """Way of computing and device: the time that it took says something about the next run of the same kind."""
    device: str = ""

    @property
    def done(self) -> int:
        return self.labelled


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
    noise_floor: dict[str, Any] | None = None
    """Measured before labelling, to be recorded with the labeler (`NoiseFloor`)."""
    workers: int = 1
    """The workers that were started together, for the record of what the run took."""


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
    """Return a run with a loaded language model."""
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
    """Count states that wait to be measured."""
    columns = [func.count(DecisionState.id)]
    count: int = connection.execute(pending_states(columns, freezing, labeler_id, part)).scalar_one()
    return count


def label(
    catalog: Catalog,
    artifacts: ArtifactStore,
    scorer: TargetNll,
    run: LabelRun,
    *,
    progress: Callable[[LabelSummary], None] = lambda summary: None,
) -> LabelSummary:
    """Measure what is missing, sharing the work with other workers. Rerunning changes nothing.

    In half precision the run comes from `settled`, or is settled here.
    """
    summary = LabelSummary(device=device_name(device_of(scorer.backbone)))
    if run.identity.method is None:
        run = settled(catalog, artifacts, scorer, run)
    with catalog.writing() as connection:
        labeler_id = ensure_labeler(connection, run.labeler, run.identity)
        if run.noise_floor is not None:
            record_floor(connection, labeler_id, run.noise_floor)
        views = _views_to_fill(connection, run.features)

    def work(item: TrajectoryItem, rows: list[StateRow]) -> Record:
        watches = _watches(catalog, scorer, views, rows)
        measured = _measure(scorer, rows, watches, summary)
        collected = [(view, _collected(catalog, view, rows, watches)) for view in views]
        prepared = [(view, prepare_features(artifacts, view, item.split, states)) for view, states in collected]
        featurized = (found for _, states in collected for found in states)
        summary.featurized += len({one.state_id for one in featurized if isinstance(one.result, CandidateFeatures)})

        def record(connection: Connection) -> None:
            record_measurements(connection, labeler_id, measured)
            for view, features in prepared:
                record_features(connection, view, features, method="label")

        return record

    done = work_through(
        catalog,
        artifacts,
        Job("label", run.labeler, run.freezing, scorer.backbone.tokenizer, run.caps, run.limit, run.workers),
        summary,
        lambda damaged: labelling_order(run.freezing, labeler_id, run.part, run.labeler, damaged),
        work,
        tidy_up=lambda: [merge_small_files(catalog, artifacts, view) for view in views],
        progress=progress,
    )
    if run.identity.dtype == EXACT and (agreed := agreement_of_ways(scorer)) is not None:
        with catalog.writing() as connection:
            record_floor(connection, labeler_id, agreed._asdict())
    return done


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
    """Return the walk's features of the states that the view does not have yet."""
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
    summary.method = measured.method.value
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
