"""Gates: the checks that only publishing runs. It also runs those of an audit, on the wheel that would be written.

`audit/release.py` puts both together. To demand more, pass further checks to `publish`; all are run and recorded the
same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drsr.decide.numbers import PolicyNumbers
from drsr.errors import ReleaseRefused
from drsr.offline.featurize.light_reader import layout_read_by
from drsr.offline.freeze.states import rule_hash
from drsr.offline.publish.lineage import Traced
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Section, Severity, Told, Verdict, failed, first_of, passed
from drsr.request.rendering import RENDERER_VERSION
from drsr.request.view import Caps

Demands = Mapping[str, tuple[Any, Any]]
"""Pairs that must be equal: as found, and as the policy has it."""


def in_one(section: Section[Subject]) -> Verdict:
    """Return the answer to a check that has one per rule, as one: what failed first, or how many passed.

    What could not be computed without the texts of runs is part of the detail, which is recorded with the release.
    """
    in_part = [verdict.not_computed for verdict in section.verdicts if verdict.passed and verdict.not_computed]
    if len(section.verdicts) == 1:
        (found,) = section.verdicts
        return found._replace(detail=f"{found.detail}; not without texts: {in_part[0]}") if in_part else found
    wrong = [f"{verdict.check}: {verdict.detail}" for verdict in section.verdicts if not verdict.passed]
    if wrong:
        return failed(section.check, first_of(wrong), "drsr audit shows each", wrong)[0]
    missing = f"; {len(in_part)} of them not without the texts of {in_part[0]}" if in_part else ""
    return passed(section.check, f"{len(section.verdicts)} rules are kept{missing}")[0]


def refuse_failed(gates: Sequence[Verdict]) -> None:
    """Raise ReleaseRefused if a check failed."""
    wrong = [gate for gate in gates if not gate.passed]
    if wrong:
        names = ", ".join(gate.check for gate in wrong)
        rows = [(gate.check, gate.passed, gate.detail) for gate in gates]
        raise ReleaseRefused(f"nothing was published: {names} failed: {wrong[0].detail}", gates=rows)


def admissible(subject: Subject, told: Told) -> list[Verdict]:
    record = subject.calibration
    if not record.abstains_always:
        return passed(ADMISSIBLE, f"{record.admissible:,} of {record.tried:,} policies keep to the limits")
    if subject.candidate is not None and subject.candidate.may_abstain_always:
        return passed(ADMISSIBLE, "nothing is admissible; a policy that abstains always was asked for")
    detail = "calibration found nothing admissible; --always-abstain publishes a policy that never prunes"
    return failed(ADMISSIBLE, detail, "more labels, or other limits in params.yaml, and calibrate again")


ADMISSIBLE: Check[Subject] = Check(
    "admissible",
    Severity.MAJOR,
    "Does the policy keep to the limits on unsafe rate and mean harm?",
    "Calibration recorded how many of the policies it tried keep to the limits; one that abstains always is published "
    "only where somebody said so.",
    admissible,
)


def disagreements(numbers: PolicyNumbers, traced: Traced, more: Demands) -> tuple[list[str], int]:
    """Return what a policy says otherwise than the features and labels that it was made from, and how much was
    compared. `more` are other things that must be equal, each as it is found and as the policy has it."""
    view, labeler = traced.view.identity, traced.labeler.identity
    rule = rule_hash(Caps(numbers.context_cap, numbers.target_cap))
    demands = {
        "backbone of the features": (view.backbone_identity, numbers.backbone.identity),
        "backbone of the labels": (labeler.backbone_identity, numbers.backbone.identity),
        "dtype of the features": (view.dtype, numbers.backbone.dtype),
        "layout of the features": (view.layout_hash, numbers.layout_hash),
        "layout of the scorer": (traced.run.layout_hash, numbers.layout_hash),
        "renderer of the features": (view.renderer_version, numbers.renderer_version),
        "renderer of the labels": (labeler.renderer_version, numbers.renderer_version),
        "candidate rule of the features": (view.rule_hash, rule),
        "candidate rule of the labels": (labeler.rule_hash, rule),
        "harm tolerance of the labels": (labeler.harm_tolerance, numbers.harm_tolerance),
        "target cap of the labels": (labeler.target_cap, numbers.target_cap),
        **more,
    }
    if numbers.light is not None:
        demands["tokenizer of the policy"] = (numbers.light.tokenizer_identity, view.tokenizer_identity)
    wrong = [
        f"{what} is {found}, the policy has {wanted}" for what, (found, wanted) in demands.items() if found != wanted
    ]
    return wrong, len(demands)


def agreement(subject: Subject, told: Told) -> list[Verdict]:
    candidate = subject.candidate
    assert candidate is not None  # asked by publishing alone, once it knows both
    assert candidate.numbers is not None
    assert candidate.backbone is not None
    numbers, backbone = candidate.numbers, candidate.backbone
    traced = candidate.traced
    of_the_backbone = {
        "loaded backbone": (backbone.identity, numbers.backbone.identity),
        "layout of the backbone": (layout_read_by(backbone, traced.view.name).hash, numbers.layout_hash),
        "renderer of this code": (RENDERER_VERSION, numbers.renderer_version),
        "tokenizer of the features": (traced.view.identity.tokenizer_identity, backbone.tokenizer.identity),
    }
    wrong, compared = disagreements(numbers, traced, of_the_backbone)
    if wrong:
        return failed(AGREEMENT, "; ".join(wrong), "label and featurize with the language model of the policy", wrong)
    return passed(AGREEMENT, f"{compared} identities agree")


AGREEMENT: Check[Subject] = Check(
    "agreement",
    Severity.MAJOR,
    "Do policy, features, labels and this code mean the same language model, columns, rendering and rule?",
    "The identities that features, labels, scorer and policy recorded are compared, each with each.",
    agreement,
)
