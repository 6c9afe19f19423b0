"""Golden requests: they travel with a policy, along with its decisions and scores when it was published.

    verification = verify(policy, read_golden(files, where))
    print(verification.to_text())

Decisions must be the same to the byte. Scores may differ a little, because processors and library versions round
differently: an unsafe score by a share of itself (it is the output of a logistic function, so rounding before that
function changes it in proportion), a predicted harm by a fixed amount. A request is golden only if its decision would
survive such a difference in every score.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drsr.decide.selection import select
from drsr.errors import InputError, PolicyCorrupt
from drsr.files import KeptResults
from drsr.tables import excerpt, printable, table
from drsr.version import __version__

if TYPE_CHECKING:
    from drsr.policy.answer import Decision
    from drsr.policy.folder import PolicyFiles
    from drsr.policy.policy import Policy

GOLDEN_FILE = "golden.json"
FORMAT = "drsr-golden/1"
UNSAFE_TOLERANCE = 0.01
"""An unsafe score may differ by this part of itself ..."""
UNSAFE_FLOOR = 1e-6
"""... and by this."""
HARM_TOLERANCE = 1e-3
"""Nats per token by which a predicted harm may differ."""
TOLERANCE = f"{UNSAFE_TOLERANCE:.0%} of an unsafe score, {HARM_TOLERANCE:g} nats per token of a predicted harm"
_DECIDING = ("numpy", "torch", "transformers", "tokenizers")
"""Packages whose versions a score may depend on."""
_DIGITS = 6
"""Number of digits that scores are written with: far below the tolerances, far above the noise of one machine."""


class ExpectedSet(NamedTuple):
    """One deletion set of a decision."""

    members: tuple[int, ...]
    """Positions among the candidates."""
    direct_saving: int
    verdict: str
    unsafe_score: float | None
    """Unsafe score of the set; None if nothing was scored."""
    predicted_harm: float | None


class Expected(NamedTuple):
    """The decision and scores that a policy must reproduce for a request."""

    pruned: bool
    reason: str | None
    removed: tuple[str, ...]
    """Names of the Blocks."""
    tokens_before: int | None
    tokens_after: int | None
    sent: str | None
    """SHA-256 of the request to send; None if the request cannot be read."""
    sets: tuple[ExpectedSet, ...]

    @property
    def shown(self) -> str:
        """The decision in a few words."""
        if not self.pruned:
            return f"unchanged: {self.reason}"
        return f"{{{', '.join(self.removed)}}} removed: {self.tokens_before:,} -> {self.tokens_after:,} tokens"

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {"sets": [found._asdict() for found in self.sets]}


class GoldenRequest(NamedTuple):
    name: str
    request: Any
    """A request body in wire form, or a malformed one that a caller might pass."""
    expected: Expected


class GoldenResult(NamedTuple):
    """One golden request, decided again."""

    name: str
    expected: Expected
    found: Expected
    problems: tuple[str, ...]
    """Differences from what was expected; empty if the request passed."""
    score_difference: float
    """The largest of any score, in units of what is tolerated: above 1 is a problem."""


class Verification(NamedTuple):
    """The results of all golden requests."""

    version: str
    results: tuple[GoldenResult, ...]

    @property
    def passed(self) -> bool:
        return bool(self.results) and not any(result.problems for result in self.results)

    def to_text(self) -> str:
        """Return the results as a table to read."""
        rows = [
            (
                result.name,
                "as expected" if not result.problems else "DIFFERENT",
                result.expected.shown,
                f"{result.score_difference:.1%}" if result.expected.sets else "",
            )
            for result in self.results
        ]
        wrong = sum(bool(result.problems) for result in self.results)
        lines = [table(("golden request", "verdict", "expected decision", "of the tolerance"), rows)]
        wrongs = [f"  {result.name}: {problem}" for result in self.results for problem in result.problems]
        lines += map(printable, wrongs)
        total = f"{len(self.results)} golden requests"
        says = f"all {total} decide as expected" if wrong == 0 else f"{wrong} of {total} do not decide as expected"
        lines.append(f"policy {printable(self.version)}: {says}")
        lines.append(f"tolerated: {TOLERANCE}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "passed": self.passed,
            "tolerance": _tolerances(),
            "results": [
                {
                    "name": result.name,
                    "passed": not result.problems,
                    "problems": list(result.problems),
                    "score_difference": None if math.isinf(result.score_difference) else result.score_difference,
                    "expected": result.expected.to_json(),
                    "found": result.found.to_json(),
                }
                for result in self.results
            ],
        }


def decided(policy: Policy, name: str, request: Any) -> GoldenRequest:
    """Return a request with what the policy decides about it now."""
    return GoldenRequest(name, request, expected_of(policy.prune(request=request, session=None)))


def expected_of(decision: Decision) -> Expected:
    """Return a decision in the form in which it is recorded."""
    receipt = decision.receipt
    return Expected(
        pruned=decision.pruned,
        reason=None if decision.reason is None else str(decision.reason),
        removed=tuple(block["block"] for block in receipt["removed"]),
        tokens_before=decision.tokens_before,
        tokens_after=decision.tokens_after,
        sent=None if receipt["hashes"] is None else receipt["hashes"]["after"],
        sets=tuple(
            ExpectedSet(
                tuple(found["members"]),
                found["direct_saving"],
                found["verdict"],
                _rounded(found["unsafe_score"]),
                _rounded(found["predicted_harm"]),
            )
            for found in receipt["sets"]
        ),
    )


def survives(decision: Decision) -> bool:
    """Return whether the decision stays the same if every score moves by the tolerance, each in its own direction.

    Whatever the scores become, the feasible sets lie between those under all scores higher and under all lower: if both
    ends choose one set, and no other feasible set saves as much, everything between chooses it.
    """
    if decision.outcome is None or decision.outcome.evidence.proposed is None:
        return True
    proposed = decision.outcome.evidence.proposed
    tokens, rule = decision.outcome.evidence.tokens_before, decision.policy.numbers.rule
    assert tokens is not None  # it was counted before anything was proposed
    allowed = UNSAFE_TOLERANCE * np.abs(proposed.unsafe_score) + UNSAFE_FLOOR
    fewest, most = (
        select(proposed._replace(unsafe_score=proposed.unsafe_score + moved), tokens, rule)
        for moved in (allowed, -allowed)
    )
    if fewest.chosen is None or fewest.chosen != most.chosen:
        return fewest.chosen == most.chosen
    best = proposed.direct_saving[most.chosen]
    return int((most.feasible & (proposed.direct_saving == best)).sum()) == 1


def verify(
    policy: Policy,
    golden: Sequence[GoldenRequest],
    report: Callable[[int, int], None] = lambda done, of: None,
    kept: KeptResults | None = None,
) -> Verification:
    """Decide every golden request again and compare. Raise whatever is wrong with the backbone.

    `report` is called before each request with the number done and the total. Requests in `kept` are not decided again.
    """
    results = list[GoldenResult]()
    for name, request, expected in golden:
        report(len(results), len(golden))
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        decided_before = kept.get(key) if kept else None
        if decided_before is None:
            policy.prepare()
            decision = policy.prune(request=request, session=None)
            decided_before = [expected_of(decision).to_json(), decision.detail if decision.error is not None else None]
            if kept:
                kept.keep(key, decided_before)
        found, detail = _from_json(decided_before[0]), decided_before[1]
        problems = compare(expected, found)
        if problems and detail is not None:
            problems = [*problems, detail]
        results.append(GoldenResult(name, expected, found, tuple(problems), score_difference(expected, found)))
    return Verification(policy.version, tuple(results))


def kept_decisions(path: Path, policy: Policy, device: str | None) -> KeptResults:
    """Return a file that keeps every decision of a verification, for this policy on this machine with these
    packages."""
    from importlib.metadata import distributions

    versions = sorted({f"{one.name.lower()} {one.version}" for one in distributions() if one.name.lower() in _DECIDING})
    about = [policy.identity, device, __version__, versions, platform.platform(), platform.processor()]
    return KeptResults(path, about, "decisions of a verification")


def verify_files(
    policy: Policy,
    files: PolicyFiles,
    where: str,
    report: Callable[[int, int], None] = lambda done, of: None,
    kept: KeptResults | None = None,
) -> Verification:
    """Verify a policy by the golden requests among its own files; raise InputError if it has none."""
    golden = read_golden(files, where)
    if not golden:
        raise InputError("it was published without golden requests", where=where, hint="verify its wheel or package")
    return verify(policy, golden, report, kept)


def compare(expected: Expected, found: Expected) -> list[str]:
    """Return every difference: decisions are compared to the byte, sets exactly, scores within the tolerances."""
    problems = []
    for field in ("pruned", "reason", "removed", "tokens_before", "tokens_after", "sent"):
        before, after = getattr(expected, field), getattr(found, field)
        if before != after:
            problems.append(f"{field} is {after}, expected {before}")
    if [found_set[:2] for found_set in found.sets] != [expected_set[:2] for expected_set in expected.sets]:
        problems.append("other deletion sets, or with other savings")
    difference = score_difference(expected, found)
    if not difference <= 1:
        problems.append(f"a score differs by {difference:.1f} times what is tolerated")
    return problems


def score_difference(expected: Expected, found: Expected) -> float:
    """Return the largest difference of any score, in units of its tolerance; infinite if one side lacks a number."""
    largest = 0.0
    for one, other in zip(expected.sets, found.sets, strict=False):
        largest = max(largest, _times(one.unsafe_score, other.unsafe_score, UNSAFE_TOLERANCE, UNSAFE_FLOOR))
        largest = max(largest, _times(one.predicted_harm, other.predicted_harm, 0.0, HARM_TOLERANCE))
    return largest


def _times(before: float | None, after: float | None, relative: float, absolute: float) -> float:
    if before is None or after is None:
        return 0.0 if before is after else math.inf
    difference = abs(before - after) / (relative * max(abs(before), abs(after)) + absolute)
    return difference if math.isfinite(difference) else math.inf


def _tolerances() -> dict[str, float]:
    return {"unsafe_score": UNSAFE_TOLERANCE, "unsafe_floor": UNSAFE_FLOOR, "predicted_harm": HARM_TOLERANCE}


def golden_bytes(golden: Sequence[GoldenRequest]) -> bytes:
    """Return the content of `golden.json`: the same requests and decisions give the same bytes."""
    requests = [{"name": name, "request": request, "expected": seen.to_json()} for name, request, seen in golden]
    document = {"format": FORMAT, "tolerance": _tolerances(), "requests": requests}
    return (json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def read_golden(files: PolicyFiles, where: str) -> tuple[GoldenRequest, ...]:
    """Return the golden requests among a policy's files; empty if the policy has no such file."""
    if GOLDEN_FILE not in files.others:
        return ()
    try:
        document = json.loads(files.others[GOLDEN_FILE])
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {excerpt(str(document['format']))!r}, this version reads {FORMAT!r}")
        return tuple(
            GoldenRequest(str(item["name"]), item["request"], _from_json(item["expected"]))
            for item in document["requests"]
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"cannot be read: {type(error).__name__}: {error}"
        raise PolicyCorrupt(
            what, where=f"{where}/{GOLDEN_FILE}", hint="install the drsr that the policy asks for"
        ) from None


def _rounded(score: float | None) -> float | None:
    return None if score is None else float(f"{score:.{_DIGITS}g}") + 0.0  # no minus zero


def _from_json(values: dict[str, Any]) -> Expected:
    sets = tuple(ExpectedSet(**{**found, "members": tuple(found["members"])}) for found in values["sets"])
    return Expected(**{**values, "removed": tuple(values["removed"]), "sets": sets})
