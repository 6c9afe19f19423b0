"""The gates before a policy is published: a list of checks, each with a verdict. One that fails stops it.

`DATA_CHECKS` look at what the policy was made from, `agreement` and `golden` at the policy itself; `audit/release.py`
has the expectations and the audit. Whoever demands more hands further checks to `publish`; they are run and recorded
like these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import func, select

from drsr.decide.numbers import PolicyNumbers
from drsr.errors import ReleaseRefused
from drsr.offline.calibrate.stage import CALIBRATION_VERSION, choose
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.featurize.light_reader import LightReader, layout_read_by
from drsr.offline.freeze.states import rule_hash
from drsr.offline.params import calibrate_params
from drsr.offline.publish.lineage import Traced
from drsr.offline.publish.package import Package
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.records import CalibrationRecord
from drsr.offline.train.stage import load_trained
from drsr.policy.golden import verify_files
from drsr.policy.location import read_wheel_policy
from drsr.policy.policy import policy_of
from drsr.request.contracts import Backbone
from drsr.request.rendering import RENDERER_VERSION
from drsr.request.view import Caps


class Verdict(NamedTuple):
    passed: bool
    detail: str
    """What was found."""


class Gate(NamedTuple):
    """A check that was run."""

    check: str
    passed: bool
    detail: str


class Subject(NamedTuple):
    """The data that the checks look at."""

    catalog: Catalog
    artifacts: ArtifactStore
    traced: Traced
    may_abstain_always: bool


Check = Callable[[Subject], Verdict]


def run_checks(checks: Sequence[tuple[str, Check]], subject: Subject) -> list[Gate]:
    """Every check, whatever the ones before found."""
    return [Gate(name, *check(subject)) for name, check in checks]


def refuse_failed(gates: Sequence[Gate]) -> None:
    """ReleaseRefused if a check failed."""
    failed = [gate for gate in gates if not gate.passed]
    if failed:
        names = ", ".join(gate.check for gate in failed)
        raise ReleaseRefused(f"nothing was published: {names} failed: {failed[0].detail}", gates=gates)


def admissible(subject: Subject) -> Verdict:
    """Calibration found a policy that keeps to the limits, or somebody said that it may abstain always."""
    record = subject.traced.calibration
    if not record.abstains_always:
        return Verdict(True, f"{record.admissible:,} of {record.tried:,} policies keep to the limits")
    if subject.may_abstain_always:
        return Verdict(True, "nothing is admissible; a policy that abstains always was asked for")
    return Verdict(False, "calibration found nothing admissible; --always-abstain publishes a policy that never prunes")


def lineage(subject: Subject) -> Verdict:
    """Everything that the policy was made from is there, and each thing follows from what it was made from."""
    traced = subject.traced
    if traced.problems:
        more = f" (and {len(traced.problems) - 1} more)" if len(traced.problems) > 1 else ""
        return Verdict(False, f"{traced.problems[0]}{more}")
    counts = ", ".join(f"{link.items:,} {link.link}" for link in traced.links[:4])
    return Verdict(True, f"{len(traced.links)} links computed again: {counts}")


def calibration_repeats(subject: Subject) -> Verdict:
    """The recorded operating point is the one that the scorer and these frames give."""
    record, frames = subject.traced.calibration, subject.traced.frames
    if record.version != CALIBRATION_VERSION:
        return Verdict(False, f"made by {record.version}, this is {CALIBRATION_VERSION}: run drsr calibrate again")
    params = calibrate_params(record.params)
    scorer = load_trained(subject.artifacts, subject.traced.run)
    certified = record.mode == "certified"
    numbers, _ = choose(scorer, frames["train"], frames["validation"], params, certified=certified)
    other = [name for name, value in numbers.items() if getattr(record, name) != value]
    if other:
        found = ", ".join(f"{name} {numbers[name]}, recorded {getattr(record, name)}" for name in other[:3])
        return Verdict(False, f"calibrating again gives {found}")
    return Verdict(True, f"calibrating again gives the same {_point(record)}")


def split_unread(subject: Subject) -> Verdict:
    """According to the log of reads, nobody read the test split to train or calibrate."""
    fitting = select(func.count()).where(SplitRead.purpose.in_(("train", "calibrate")))
    with subject.catalog.reading() as connection:
        every = connection.execute(fitting).scalar_one()
        test = connection.execute(fitting.where(SplitRead.split == "test")).scalar_one()
    if test:
        return Verdict(False, f"{test} of {every} reads to train or calibrate were of the test split")
    if every == 0:
        return Verdict(False, "no read to train or calibrate was recorded: the log is incomplete")
    return Verdict(True, f"none of {every} recorded reads to train or calibrate was of the test split")


def agreement(traced: Traced, numbers: PolicyNumbers, backbone: Backbone | LightReader) -> Gate:
    """Policy, features, labels and this code mean the same language model, columns, rendering and rule."""
    view, labeler = traced.view.identity, traced.labeler.identity
    rule = rule_hash(Caps(numbers.context_cap, numbers.target_cap))
    demands = {
        "backbone of the features": (view.backbone_identity, numbers.backbone.identity),
        "backbone of the labels": (labeler.backbone_identity, numbers.backbone.identity),
        "loaded backbone": (backbone.identity, numbers.backbone.identity),
        "dtype of the features": (view.dtype, numbers.backbone.dtype),
        "layout of the features": (view.layout_hash, numbers.layout_hash),
        "layout of the scorer": (traced.run.layout_hash, numbers.layout_hash),
        "layout of the backbone": (layout_read_by(backbone, traced.view.name).hash, numbers.layout_hash),
        "renderer of the features": (view.renderer_version, RENDERER_VERSION),
        "renderer of the labels": (labeler.renderer_version, RENDERER_VERSION),
        "candidate rule of the features": (view.rule_hash, rule),
        "candidate rule of the labels": (labeler.rule_hash, rule),
        "tokenizer of the features": (view.tokenizer_identity, backbone.tokenizer.identity),
        "harm tolerance of the labels": (labeler.harm_tolerance, numbers.harm_tolerance),
        "target cap of the labels": (labeler.target_cap, numbers.target_cap),
    }
    if numbers.light is not None:
        demands["tokenizer of the policy"] = (numbers.light.tokenizer_identity, view.tokenizer_identity)
    wrong = [
        f"{what} is {found}, the policy has {wanted}" for what, (found, wanted) in demands.items() if found != wanted
    ]
    return Gate("agreement", not wrong, "; ".join(wrong) if wrong else f"{len(demands)} identities agree")


def golden(package: Package, backbone: Backbone | LightReader) -> Gate:
    """The policy as it will be installed, read from the wheel's bytes, decides its golden requests as expected."""
    where = package.name.file_name
    files = read_wheel_policy(package.data, where)
    reader = None if isinstance(backbone, LightReader) else backbone
    verification = verify_files(policy_of(files, backbone=reader), files, where)
    wrong = [result for result in verification.results if result.problems]
    if wrong:
        return Gate("golden requests", False, f"{wrong[0].name}: {wrong[0].problems[0]}")
    pruned = sum(result.found.pruned for result in verification.results)
    detail = f"{len(verification.results)} requests decide as expected, {pruned} of them are pruned"
    if pruned == 0 and not files.numbers.always_abstains:
        detail = f"WARNING: {detail}, though the policy may prune: drsr policy verify will see no rewrite"
    return Gate("golden requests", True, detail)


DATA_CHECKS: tuple[tuple[str, Check], ...] = (
    ("admissible", admissible),
    ("lineage", lineage),
    ("calibration repeats", calibration_repeats),
    ("test split unread", split_unread),
)


def _point(record: CalibrationRecord) -> str:
    if record.risk_threshold is None:
        return "outcome: nothing admissible"
    return f"K {record.max_cardinality}, beta {record.uncertainty_coefficient:g}, tau {record.risk_threshold:.6g}"
