"""The policy still decides its golden requests as it did when it was published."""

from __future__ import annotations

from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed
from drsr.policy.golden import TOLERANCE, verify_files
from drsr.policy.loading import policy_of


def check_golden(subject: Subject, told: Told) -> list[Verdict]:
    if not subject.has_policy:
        return passed(CHECK, "nothing is published yet, so no request is golden")
    numbers = subject.policy.numbers
    reader = None  # a light policy brings all that it reads with
    if numbers.light is None:
        reader = subject.backbone(numbers.backbone.name, numbers.backbone.dtype, numbers.backbone.identity)
    found = verify_files(policy_of(subject.policy, backbone=reader), subject.policy, subject.named)
    if not found.results:
        return failed(CHECK, "the policy brings no golden request", "publish again: drsr publish writes them")
    problems = [f"{result.name}: {problem}" for result in found.results for problem in result.problems]
    if problems:
        return failed(
            CHECK, first_of(problems), "drsr policy verify shows each; compare versions and processor", problems
        )
    pruned = sum(result.found.pruned for result in found.results)
    largest = max((result.score_difference for result in found.results), default=0.0)
    detail = f"{len(found.results)} decide as expected, {pruned} are pruned; scores use {largest:.1%} of the tolerance"
    if pruned == 0 and not numbers.always_abstains:
        detail = f"WARNING: {detail}; though the policy may prune, drsr policy verify will see no rewrite"
    return passed(CHECK, detail)


CHECK = Check(
    "golden requests",
    Severity.MAJOR,
    "Does the policy, as it is shipped, still decide as it did when it was published?",
    "The requests that travel in the wheel are decided again with its weights and the language model on this machine. "
    f"Decisions must be the same to the byte, scores within {TOLERANCE}.",
    check_golden,
)
