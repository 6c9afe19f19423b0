"""DRSR's ablations as methods of a comparison: each decides with its own scorer and operating point.

In a replay features are taken from the store, so the time of these rows is without the language model's pass. A
mismatched state can only be had this way: its columns are another decision's. In whole tasks they are computed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.decide.numbers import BackboneNumbers, PolicyNumbers
from drsr.decide.representation import checked
from drsr.errors import FeaturesMissing, FrameError, SettingsError
from drsr.features.geometry import geometry_of
from drsr.features.spans import prefix_hash
from drsr.features.vectors import CandidateFeatures
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy, training_of
from drsr.offline.bench.replay.recorded_runs import Measuring
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.evaluate.ablation_points import AblationPoint, ablation_point
from drsr.offline.evaluate.stage import TrainedAblations
from drsr.offline.featurize.stored import stored_states
from drsr.offline.featurize.views import get_view
from drsr.offline.ingest.splits import Split
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.params import CalibrateParams
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS, FULL, Ablation, method_name, prepare_frame, trained_as
from drsr.offline.train.examples import ExampleFrame
from drsr.offline.train.frames import get_training_frame
from drsr.policy.policy import Policy
from drsr.request.tokens_read import note
from drsr.scorer.frozen import FrozenScorer


class StoredFeatures:
    """A source of features that asks no language model: those of a frame, by the exact tokens of the request."""

    def __init__(self, frame: ExampleFrame, state_keys: Mapping[str, str]) -> None:
        """`state_keys` of the hashes of exact prefixes."""
        self._frame = frame
        places = {key: place for place, key in enumerate(frame.state_ids)}
        self._places = {prefix: places[key] for prefix, key in state_keys.items() if key in places}

    def features(self, state: DecisionState) -> CandidateFeatures:
        prefix, frame = prefix_hash(state), self._frame
        if prefix not in self._places:
            raise FeaturesMissing("no features of this request are stored", where=f"split {frame.split}")
        place = self._places[prefix]
        note(state.view.token_ids(state.rendering.token_ids))  # read when they were stored: the prefix's hash says so
        return CandidateFeatures(frame.features[place, : frame.candidate_counts[place]], frame.layout_hash, prefix)


class AblationMethods(NamedTuple):
    available: dict[str, DrsrPolicy]
    missing: dict[str, str]
    """Reasons why a configuration has no row, by its name as a method."""


class MethodFeatures(NamedTuple):
    """The source of a configuration's features."""

    stored: StoredFeatures | None
    """Stored features; None if they are computed with every decision, as a policy does."""
    depends_on: str = ""
    """Everything they depend on, apart from the request itself."""


Sources = Callable[[Ablation, Sequence[str]], MethodFeatures]
"""Returns the sources of a configuration and the group of each column; FrameError says why it cannot have features."""


def stored(catalog: Catalog, artifacts: ArtifactStore, *, view: str, labeler: str, split: Split) -> Sources:
    """Return the sources for recorded decisions: features that were computed once for all configurations."""
    frame = get_training_frame(catalog, artifacts, view, split=split, purpose="evaluate", labeler=labeler)
    with catalog.reading() as connection:
        keys = {state.prefix_hash: state.state_key for state in stored_states(connection, get_view(connection, view))}

    def source(ablation: Ablation, groups: Sequence[str]) -> MethodFeatures:
        # With which decision one was exchanged goes by the states that there were.
        others = content_key({"states": frame.state_ids}) if ablation.mismatched_state else ""
        return MethodFeatures(StoredFeatures(prepare_frame(frame, ablation, groups), keys), others)

    return source


def computed_now(ablation: Ablation, groups: Sequence[str]) -> MethodFeatures:
    """Return the source for requests that are made now."""
    if ablation.mismatched_state:
        raise FrameError("a request that is made now has no recorded decision to exchange its state with")
    return MethodFeatures(None)


def stored_policy(catalog: Catalog, policy: Policy, sources: Sources, *, view: str) -> DrsrPolicy:
    """Return a published policy that takes its features from where ablations have theirs: no request is read again."""
    with catalog.reading() as connection:
        read = get_view(connection, view).identity
    mine = policy.numbers
    if mine.layout_hash != read.layout_hash:
        raise SettingsError(f"the policy reads other columns than those of view {view!r}", hint="--view NAME")
    if (mine.backbone.identity, mine.backbone.dtype) != (read.backbone_identity, read.dtype):
        raise SettingsError(
            f"view {view!r} was read with {read.backbone} in {read.dtype}, the policy reads with {mine.backbone.name} "
            f"in {mine.backbone.dtype}",
            hint="leave --stored-features out",
        )
    return DrsrPolicy(policy, source=sources(FULL, ()).stored)


def ablation_methods(
    catalog: Catalog,
    artifacts: ArtifactStore,
    tools: Measuring,
    trained: TrainedAblations,
    params: CalibrateParams,
    sources: Sources,
    *,
    view: str,
    labeler: str,
) -> AblationMethods:
    """Return every configuration but the full one, which is the policy itself."""
    backbone, groups = _with_layers(tools), trained.inputs.column_groups
    validation = get_training_frame(catalog, artifacts, view, split="validation", purpose="calibrate", labeler=labeler)
    ensembles, fold_scores = trained.ensembles(artifacts), trained.fold_scores(artifacts)
    training = training_of(ensembles[FULL.name])
    found: dict[str, DrsrPolicy] = {}
    missing = {method_name(row.name): row.why for row in trained.missing}
    for ablation in ABLATIONS.values():
        name, scorer = method_name(ablation.name), ensembles.get(trained_as(ablation).name)
        if ablation is FULL or scorer is None:
            continue
        try:
            source = sources(ablation, groups)
        except FrameError as error:
            missing[name] = error.what
            continue
        point = ablation_point(ablation, ensembles, validation, groups, params, fold_scores)
        policy = _policy(ablation, point, scorer, tools, backbone)
        title = f"DRSR, {ablation.what}"
        found[name] = DrsrPolicy(
            policy, name=name, title=title, source=source.stored, depends_on=source.depends_on, training=training
        )
    return AblationMethods(found, missing)


def _with_layers(tools: Measuring) -> FrozenLM:
    """Return the language model; raise SettingsError if it has no layers that features could be read from."""
    backbone = tools.backbone
    if not isinstance(backbone, FrozenLM):
        raise SettingsError(f"{backbone.name} has no layers, so there are no ablations of its features")
    return backbone


def _policy(
    ablation: Ablation, point: AblationPoint, scorer: FrozenScorer, tools: Measuring, backbone: FrozenLM
) -> Policy:
    representation = checked(backbone, backbone.identity, scorer.layout_hash)
    return Policy(_numbers(ablation, point, scorer, tools, backbone), scorer, representation)


def _numbers(
    ablation: Ablation, point: AblationPoint, scorer: FrozenScorer, tools: Measuring, backbone: FrozenLM
) -> PolicyNumbers:
    """Return the policy's numbers. An open gate is the largest possible threshold, because they must be finite."""
    threshold = sys.float_info.max if point.rule.risk_threshold == math.inf else point.rule.risk_threshold
    return PolicyNumbers(
        version=ablation.name,
        max_cardinality=point.rule.max_cardinality,
        uncertainty_coefficient=point.uncertainty_coefficient,
        risk_threshold=None if point.abstains_always else threshold,
        removal_cap=point.rule.removal_cap,
        harm_tolerance=HARM_TOLERANCE,
        context_cap=tools.caps.context,
        target_cap=tools.caps.target,
        seeds=scorer.seeds,
        backbone=BackboneNumbers(backbone.name, backbone.identity, tools.identity.dtype, geometry_of(backbone)),
        layout_hash=scorer.layout_hash,
    )
