"""A calibrated scorer as a policy that could be published: its numbers, golden requests, lineage, card and wheel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from drsr.backbone.catalogue import read_tokenizer_file
from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.decide.decision import Reason
from drsr.decide.distribution import DISTRIBUTION_FILE, DistributionNumbers, TrainingDistribution
from drsr.decide.numbers import BackboneNumbers, LightNumbers, PolicyNumbers
from drsr.decide.representation import FrozenRepresentation, checked
from drsr.errors import ReleaseRefused
from drsr.features.geometry import Geometry, geometry_of
from drsr.features.light import light_layout
from drsr.offline.calibrate.certificates import PointBound
from drsr.offline.evaluate.second_opinion import SecondOpinion
from drsr.offline.featurize.light_reader import LightReader, tokenizer_files
from drsr.offline.publish.golden_requests import golden_requests, sample_requests
from drsr.offline.publish.lineage import Link, Traced, lineage_bytes, policy_link
from drsr.offline.publish.model_card import SECOND_OPINION, model_card
from drsr.offline.publish.package import Package, build_package
from drsr.offline.publish.simple_index import WheelFile
from drsr.offline.store.artifacts import Artifact
from drsr.offline.train.distribution import fit_distribution
from drsr.policy.folder import policy_identity
from drsr.policy.golden import GoldenRequest, expected_of, survives
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.policy import Policy
from drsr.request.contracts import Backbone
from drsr.request.view import caps_for
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import scorer_bytes

_UNNAMED = "0"
"""The version of a policy whose version is still to be chosen; no decision depends on it."""
_PRUNED = 2
"""Minimum number of golden requests from which something is removed, if they can be found ..."""
_TRIES = 20
"""... in this many requests of the sample corpus. Each costs a forward, seconds on a CPU."""
_TOLD = ("mode", "explanation", "states", "incomplete_states", "tried", "admissible", "selected", "unsafe_rate")
_OF_CALIBRATION = (*_TOLD, "mean_harm", "mean_removal", "unsafe_bound", "confidence", "bound")
"""Fields of a calibration that a policy repeats."""


class Built(NamedTuple):
    """A policy under a version, ready to be published."""

    numbers: PolicyNumbers
    identity: str
    links: tuple[Link, ...]
    states: Artifact
    """The list of states that it was made from."""
    golden: Sequence[GoldenRequest]
    package: Package

    @property
    def wheel(self) -> WheelFile:
        return WheelFile(self.package.name.file_name, self.package.data)


def representation_of(backbone: Backbone | LightReader, layout_hash: str) -> FrozenRepresentation | LightRepresentation:
    """Return what a policy will read these columns with."""
    if isinstance(backbone, LightReader):
        return LightRepresentation(read_tokenizer_file(backbone.name), name=backbone.name, identity=backbone.identity)
    return checked(backbone, backbone.identity, layout_hash)


def policy_numbers(
    traced: Traced, scorer: FrozenScorer, backbone: Backbone | LightReader, opinion: SecondOpinion | None = None
) -> PolicyNumbers:
    """Return every frozen number, each from where it was chosen or measured; the version is chosen later."""
    record, view = traced.calibration, traced.view.identity
    caps = caps_for(backbone.window)
    return PolicyNumbers(
        version=_UNNAMED,
        max_cardinality=record.max_cardinality,
        uncertainty_coefficient=record.uncertainty_coefficient,
        risk_threshold=record.risk_threshold,
        removal_cap=record.removal_cap,
        harm_tolerance=traced.labeler.identity.harm_tolerance,
        context_cap=caps.context,
        target_cap=caps.target,
        seeds=scorer.seeds,
        backbone=BackboneNumbers(backbone.name, backbone.identity, view.dtype, _geometry(backbone)),
        layout_hash=scorer.layout_hash,
        calibration={
            "key": record.calibration_key,
            **{name: getattr(record, name) for name in _OF_CALIBRATION},
            **({} if opinion is None else {SECOND_OPINION: opinion.to_json()}),
        },
        light=_light(backbone),
        distribution=None if (fitted := distribution_of(traced)) is None else fitted[1],
    )


def distribution_of(traced: Traced) -> tuple[TrainingDistribution, DistributionNumbers] | None:
    """Return the distribution of the features that a calibration rests on, which takes a moment to fit."""
    return fit_distribution(list(traced.frames.values()), traced.view.columns)


def _light(backbone: Backbone | LightReader) -> LightNumbers | None:
    representation = representation_of(backbone, light_layout().hash) if isinstance(backbone, LightReader) else None
    return representation.numbers if isinstance(representation, LightRepresentation) else None


def _geometry(backbone: Backbone | LightReader) -> Geometry | None:
    return None if isinstance(backbone, LightReader) else geometry_of(backbone)


def decide_golden(
    numbers: PolicyNumbers, scorer: FrozenScorer, backbone: Backbone | LightReader
) -> list[GoldenRequest]:
    """Return the golden requests, decided by the real policy; without those whose decision hangs by a thread.

    A policy that prunes fewer than two of them is asked about the sample corpus until it has pruned two: a policy that
    prunes nothing would not show any rewrite when it is verified.
    """
    # No decision depends on the distribution: it is only told beside it.
    policy = Policy(replace(numbers, distribution=None), scorer, representation_of(backbone, numbers.layout_hash))
    decided = (_golden(policy, name, request) for name, request in golden_requests().items())
    found = [item for item in decided if item is not None]
    pruned = sum(item.expected.pruned for item in found)
    tries = () if numbers.always_abstains else islice(sample_requests(), _TRIES)
    for name, request in tries:
        if pruned >= _PRUNED:
            break
        item = _golden(policy, name, request)
        if item is not None and item.expected.pruned:
            found.append(item)
            pruned += 1
    if not numbers.always_abstains and not any(item.expected.sets for item in found):
        raise ReleaseRefused(
            "every golden request has a score so close to the risk threshold that rounding could turn its decision",
            hint="look at the scores: drsr prune --explain on a folder of the policy",
        )
    return found


def _golden(policy: Policy, name: str, request: Any) -> GoldenRequest | None:
    """Return a request with the policy's decision; None if rounding could change the decision."""
    with nullcontext() if policy.numbers.light else one_thread():
        decision = policy.prune(request=request, session=None)
    if decision.reason is Reason.INTERNAL_FAILURE:
        raise ReleaseRefused(f"golden request {name!r} cannot be decided: {decision.detail}")
    return GoldenRequest(name, request, expected_of(decision)) if survives(decision) else None


def build(
    traced: Traced,
    scorer: FrozenScorer,
    numbers: PolicyNumbers,
    decided: Sequence[GoldenRequest],
    version: str,
    bound: PointBound | None = None,
) -> Built:
    """Return the policy under a version, with the bound of its point in the card. The same inputs give the same
    bytes."""
    numbers = replace(numbers, version=version)
    identity = policy_identity(numbers, scorer_bytes(scorer))
    links = (*traced.links, policy_link(traced.links, identity, version))
    states = Artifact.of(traced.state_keys)
    card = model_card(numbers, traced, links, decided, bound)
    others = tokenizer_files(numbers.backbone.name, TOKENIZER_FILE) if numbers.light else {}
    fitted = None if numbers.distribution is None else distribution_of(traced)
    others |= {} if fitted is None else {DISTRIBUTION_FILE: fitted[0].data}
    package = build_package(numbers, scorer, decided, lineage_bytes(links, states.sha256), card, others)
    return Built(numbers, identity, links, states, decided, package)


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: the same machine gives the same scores to the bit, however many threads it usually has."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
