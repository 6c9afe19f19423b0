"""The featurize stage: features of every frozen state that has none yet in this view.

The unit of work is a trajectory: its states grow out of one another, so each continues from what a session kept of the
previous one, by the same code that decides online.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, func

from drsr.backbone.catalogue import identity_of, load_config, read_config_file
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import DEFAULT_MEGABYTES, is_out_of_memory
from drsr.decide.deletion_sets import deletion_sets
from drsr.errors import FeatureError, InputError, NotEnoughMemory
from drsr.features.geometry import Geometry, geometry_from, no_layers
from drsr.features.layout import Column, Layout, ViewLayout
from drsr.features.light import LIGHT_VIEW, light_features, light_layout
from drsr.features.vectors import CandidateFeatures
from drsr.features.view_layouts import Kind, kind_of, layout_from, scored_layout
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState
from drsr.offline.featurize.exclusions import ExclusionReason
from drsr.offline.featurize.light_reader import LightReader, layout_read_by
from drsr.offline.featurize.records import (
    FeatureExclusion,
    FeaturizedState,
    featurized,
    pending_features,
    prepare_features,
    record_features,
    recorded,
)
from drsr.offline.featurize.upkeep import forget_lost, lost_files, merge_small_files
from drsr.offline.featurize.views import (
    DEFAULT_VIEW,
    RegisteredView,
    ViewIdentity,
    present_view,
    register_view,
    view_identity,
)
from drsr.offline.freeze.records import FreezingRule
from drsr.offline.freeze.rows import ITEM_COLUMNS, StateRow, TrajectoryItem
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.shared_work import Job, Record, WorkSummary, items_behind, work_through
from drsr.offline.freeze.stage import freezing_rule
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import kept_here
from drsr.request.contracts import Backbone, Tokenizer
from drsr.request.view import Caps

if TYPE_CHECKING:
    from drsr.features.session import FeatureSession

_GEOMETRY = "geometry of a language model, by its config.json"


@dataclass(slots=True)
class FeaturizeSummary(WorkSummary):
    """The summary of one worker."""

    featurized: int = 0
    """States with features now."""
    rows: int = 0
    """Candidates of these."""
    lost: int = 0
    """States whose file was gone, and which were to be computed again."""

    @property
    def done(self) -> int:
        return self.featurized

    def count(self, states: Sequence[FeaturizedState]) -> None:
        """Add the outcome of some states."""
        for state in states:
            if isinstance(state.result, FeatureExclusion):
                self.excluded[state.result.reason] += 1
            else:
                self.featurized += 1
                self.rows += len(state.result.matrix)


class FeaturizeRun(NamedTuple):
    """Everything that one run of the stage is about."""

    view: str
    identity: ViewIdentity
    columns: tuple[Column, ...]
    caps: Caps
    part: Selection
    limit: int | None
    """Stop after the trajectory with which this many states were reached."""
    memory_mb: int = DEFAULT_MEGABYTES
    """Memory that reading may take above the loaded model."""


def featurize_run(
    backbone: Backbone | LightReader,
    dtype: str,
    caps: Caps,
    *,
    view: str = DEFAULT_VIEW,
    part: Selection | None = None,
    limit: int | None = None,
) -> FeaturizeRun:
    """Record a run with or without a loaded language model; raise FeatureError if it has no layers to read."""
    layout = layout_read_by(backbone, view)
    rule = freezing_rule(backbone.tokenizer, caps)
    identity = view_identity(layout, backbone.name, backbone.identity, dtype, rule)
    return FeaturizeRun(view, identity, layout.columns, caps, part or Selection(), limit)


def identity_without_weights(
    backbone: str, dtype: str, caps: Caps, tokenizer: Tokenizer, view: str = DEFAULT_VIEW
) -> ViewIdentity:
    """Return the identity that features of a view will have once the language model of this name is loaded."""
    layout = layout_without_weights(backbone, view)
    return view_identity(layout, backbone, identity_of(backbone), dtype, freezing_rule(tokenizer, caps))


def layout_without_weights(backbone: str, view: str = DEFAULT_VIEW) -> Layout | ViewLayout:
    """Return the columns that a view will have with the language model of this name."""
    if view == LIGHT_VIEW:
        return light_layout()
    kind = kind_of(view)
    return (
        layout_from(kind, _config(backbone), backbone)
        if kind is Kind.SEMANTIC
        else scored_layout(kind, _geometry_without_weights(backbone))
    )


def _geometry_without_weights(backbone: str) -> Geometry:
    """Ask transformers once per config.json: importing it takes longer than all else of a night without news."""
    written = read_config_file(backbone)
    if written is None:
        return geometry_from(_config(backbone), backbone)
    kept, content = kept_here(), hashlib.sha256(written).hexdigest()
    known = kept.find(_GEOMETRY, [content])
    if known:
        layers, heads, full_attention = json.loads(known[content])
        return Geometry(layers, heads, tuple(full_attention))
    found = geometry_from(_config(backbone), backbone)
    with suppress(OSError, InputError):  # a cache folder that cannot be written to costs seconds, and nothing else
        kept.keep(_GEOMETRY, {content: json.dumps(found).encode()})
    return found


def _config(backbone: str) -> Any:
    config = load_config(backbone)
    if config is None:
        raise no_layers(backbone)
    return config


def count_waiting(
    catalog: Catalog, artifacts: ArtifactStore, view: str, identity: ViewIdentity, part: Selection
) -> int:
    """Count states that a run would work on: those without features, and those whose file is gone."""
    with catalog.reading() as connection:
        present = present_view(connection, view, identity)
        missing = count_pending(connection, present and present.id, identity.freezing, part)
    return missing + (sum(lost_files(catalog, artifacts, present).values()) if present else 0)


def count_pending(connection: Connection, view_id: int | None, freezing: FreezingRule, part: Selection) -> int:
    """Count states that wait for their features."""
    query = pending_features([func.count(DecisionState.id)], view_id, freezing, part)
    count: int = connection.execute(query).scalar_one()
    return count


def materialize(
    catalog: Catalog,
    artifacts: ArtifactStore,
    backbone: FrozenLM | LightReader,
    run: FeaturizeRun,
    *,
    progress: Callable[[FeaturizeSummary], None] = lambda summary: None,
) -> FeaturizeSummary:
    """Compute what is missing, sharing the work with other workers. Rerunning changes nothing."""
    freezing = run.identity.freezing
    with catalog.writing() as connection:
        view = register_view(connection, run.view, run.identity, run.columns)
    summary = FeaturizeSummary(lost=forget_lost(catalog, artifacts, view))
    pending = pending_features(ITEM_COLUMNS, view.id, freezing, run.part)

    def work(item: TrajectoryItem, rows: list[StateRow]) -> Record:
        missing = without_features(catalog, view, rows)
        states = featurize_states(backbone, missing, kind_of(view.name), memory_mb=run.memory_mb)
        prepared = prepare_features(artifacts, view, item.split, states)
        summary.count(states)
        return lambda connection: record_features(connection, view, prepared)

    return work_through(
        catalog,
        artifacts,
        Job("featurize", run.view, freezing, backbone.tokenizer, run.caps, run.limit),
        summary,
        lambda damaged: items_behind(pending, f"{view.name}/{view.version}", damaged),
        work,
        tidy_up=lambda: merge_small_files(catalog, artifacts, view),
        progress=progress,
    )


def featurize_states(
    backbone: FrozenLM | LightReader,
    rows: Sequence[StateRow],
    kind: Kind = Kind.FULL,
    *,
    memory_mb: int = DEFAULT_MEGABYTES,
) -> list[FeaturizedState]:
    """Return the features of some states of one trajectory, in order of their decisions."""
    if isinstance(backbone, LightReader):
        return [_featurized(row, light_features(row.frozen.state)) for row in rows]
    from drsr.features.session import FeatureSession  # needs torch, which counting what is missing does not

    lengths = [len(row.frozen.state.view.token_ids(row.frozen.state.rendering.token_ids)) for row in rows]
    session = FeatureSession(backbone, capacity=max(lengths, default=0), kind=kind, memory_mb=memory_mb)
    return [_featurize(session, row) for row in rows]


def without_features(catalog: Catalog, view: RegisteredView, rows: Sequence[StateRow]) -> list[StateRow]:
    """Return those states that the view does not record yet."""
    with catalog.reading() as connection:
        there = recorded(connection, view, [row.id for row in rows])
    return [row for row in rows if row.id not in there]


def _featurize(session: FeatureSession, row: StateRow) -> FeaturizedState:
    state = row.frozen.state
    try:
        result = session.features(state)
    except FeatureError as error:
        return _featurized(row, FeatureExclusion.of(error))
    except (RuntimeError, MemoryError, NotEnoughMemory) as error:
        if not is_out_of_memory(error):
            raise
        complaint = str(error).partition("\n")[0]
        return _featurized(row, FeatureExclusion(ExclusionReason.OUT_OF_MEMORY.value, complaint))
    return _featurized(row, result)


def _featurized(row: StateRow, result: CandidateFeatures | FeatureExclusion) -> FeaturizedState:
    state = row.frozen.state
    return featurized(row.id, row.state_key, state, deletion_sets(state, len(state.candidates)), result)
