"""The weight files are those that were trained, and the language model is the one that measured."""

from __future__ import annotations

import hashlib
from typing import Any

from drsr.backbone.catalogue import identity_of
from drsr.errors import DrsrError
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed
from drsr.scorer.weights import FILE_NAME as SCORER_FILE
from drsr.scorer.weights import scorer_bytes


def check_weight_files(subject: Subject, told: Told) -> list[Verdict]:
    """Looks at each file by itself, so that a swapped file is named even if others are broken, too."""
    problems: list[str] = []
    files: list[dict[str, Any]] = []

    def compare(name: str, expected: str, found: str) -> None:
        files.append({"file": name, "expected": expected, "found": found})
        if found != expected:
            problems.append(f"{name} has SHA-256 {found}, expected {expected}")

    if subject.has_policy:
        try:
            files_of = subject.policy
        except DrsrError as error:
            # Without its numbers it is not known which calibration and training it claims to come from.
            what = f"{error.where}: {error.what}" if error.where else error.what
            return failed(CHECK, f"the policy's files are not as listed: {what}", _HINT, [what])
    calibration, run = subject.calibration, subject.run
    if subject.has_policy:
        shipped = hashlib.sha256(scorer_bytes(files_of.scorer)).hexdigest()
        compare(f"{SCORER_FILE} in {subject.named}", run.weights, shipped)
    stored = {"weights": run.weights, "evaluations": run.history, "search table": calibration.search_table}
    for what, key in stored.items():
        try:
            compare(f"stored {what}", key, hashlib.sha256(subject.artifacts.get(key)).hexdigest())
        except DrsrError as error:
            problems.append(f"the stored {what}: {error.what}")
    for what, name, identity in _models(subject):
        compare(f"language model of the {what}, {name}", identity, identity_of(subject.order.backbone or name))
    evidence = {"files": files}
    if problems:
        return failed(CHECK, first_of(problems), _HINT, problems, **evidence)
    return passed(CHECK, f"{len(files)} hashes are the recorded ones", **evidence)


def _models(subject: Subject) -> list[tuple[str, str, str]]:
    """Return, for features, labels and policy, the name and the identity of the language model behind them."""
    view, labeler = subject.view.identity, subject.labeler.identity
    found = [
        ("features", view.backbone, view.backbone_identity),
        ("labels", labeler.backbone, labeler.backbone_identity),
    ]
    if subject.has_policy:
        policy = subject.policy.numbers.backbone
        found.append(("policy", policy.name, policy.identity))
    return found


_HINT = "do not load it; get the file from those who trained it, or publish again from an untouched store"

CHECK = Check(
    "weight files",
    Severity.CRITICAL,
    "Are the weights that decide the ones that were trained, read with the language model that measured?",
    "The SHA-256 of the policy's weight file is compared with the one that training wrote into the catalog; every "
    "file of the policy with its manifest and RECORD; the stored weights, evaluations and search table with their "
    "names, which are their hashes; the language model on this machine with the identity that features, labels and "
    "policy recorded.",
    check_weight_files,
)
