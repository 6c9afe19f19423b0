"""The differences between two policies: in their numbers and weights, and in their decisions on golden requests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from drsr.policy.folder import PolicyFiles
from drsr.policy.golden import TOLERANCE, Expected, GoldenRequest, score_difference
from drsr.scorer.weights import scorer_bytes
from drsr.tables import excerpt, table


class ChangedNumber(NamedTuple):
    name: str
    """The path of a key of `policy.json`: `calibration.unsafe_rate`."""
    old: Any
    """Former value; None if there was none."""
    new: Any


class GoldenChange(NamedTuple):
    """One golden request, as both policies decide it."""

    name: str
    old: Expected | None
    """Answer of the old policy; None if it was not asked."""
    new: Expected | None
    score_difference: float
    """The largest of any score of the same set, in units of what a verification tolerates."""

    @property
    def verdict(self) -> str:
        if self.old is None or self.new is None:
            return "only in the new one" if self.old is None else "only in the old one"
        return "same decision" if self.old[:-1] == self.new[:-1] else "CHANGED"


class PolicyDifference(NamedTuple):
    old: str
    """Version."""
    new: str
    old_kind: str
    """`full` or `light`."""
    new_kind: str
    same_identity: bool
    """True if numbers and scorer are the same, so both decide identically."""
    same_scorer: bool
    numbers: tuple[ChangedNumber, ...]
    golden: tuple[GoldenChange, ...]

    def to_text(self) -> str:
        """Return the differences as tables to read."""
        same_kind = self.old_kind == self.new_kind
        kinds = f"both {self.new_kind}" if same_kind else f"{self.old_kind} -> {self.new_kind}"
        lines = [f"policy {self.old} -> {self.new} ({kinds})"]
        if self.same_identity:
            lines.append("same numbers and same weights: both decide alike")
        elif not same_kind:
            lines.append("one reads with a language model and one without: their weights read different columns")
        else:
            lines.append(f"the scorer's weights are {'the same' if self.same_scorer else 'others'}")
        if self.numbers:
            changes = [(name, _shown(old), _shown(new)) for name, old, new in self.numbers]
            lines += ["", table(("number", "old", "new"), changes)]
        if self.golden:
            rows = [
                (row.name, row.verdict, _decision(row.old), _decision(row.new), f"{row.score_difference:.1f}")
                for row in self.golden
            ]
            lines += ["", table(("golden request", "verdict", "old", "new", "score difference"), rows)]
            changed = sum(row.verdict == "CHANGED" for row in self.golden)
            both = sum(row.old is not None and row.new is not None for row in self.golden)
            lines.append(f"{changed} of {both} decisions changed; a score difference of 1 is {TOLERANCE}")
        else:
            lines.append("neither has golden requests")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return self._asdict() | {
            "numbers": [change._asdict() for change in self.numbers],
            "golden": [
                {
                    "name": row.name,
                    "verdict": row.verdict,
                    "score_difference": row.score_difference if math.isfinite(row.score_difference) else None,
                    "old": None if row.old is None else row.old.to_json(),
                    "new": None if row.new is None else row.new.to_json(),
                }
                for row in self.golden
            ],
        }


def diff_policies(
    old: PolicyFiles,
    new: PolicyFiles,
    old_golden: Sequence[GoldenRequest],
    new_golden: Sequence[GoldenRequest],
) -> PolicyDifference:
    """Compare two policies. Golden requests are the same where name and content are."""
    old_rows, new_rows = ({_identity(item): item.expected for item in golden} for golden in (old_golden, new_golden))
    names = {_identity(item): item.name for item in (*old_golden, *new_golden)}
    golden = []
    for identity, name in names.items():
        one, other = old_rows.get(identity), new_rows.get(identity)
        moved = 0.0 if one is None or other is None else score_difference(one, other)
        golden.append(GoldenChange(name, one, other, moved))
    return PolicyDifference(
        old=old.numbers.version,
        new=new.numbers.version,
        old_kind=old.numbers.kind,
        new_kind=new.numbers.kind,
        same_identity=old.identity == new.identity,
        same_scorer=scorer_bytes(old.scorer) == scorer_bytes(new.scorer),
        numbers=_changed(_flat(old.numbers.to_json()), _flat(new.numbers.to_json())),
        golden=tuple(golden),
    )


def _identity(item: GoldenRequest) -> tuple[str, str]:
    return item.name, hashlib.sha256(json.dumps(item.request, sort_keys=True).encode()).hexdigest()


def _changed(old: dict[str, Any], new: dict[str, Any]) -> tuple[ChangedNumber, ...]:
    names = [*old, *(name for name in new if name not in old)]
    rows = (ChangedNumber(name, old.get(name), new.get(name)) for name in names)
    return tuple(row for row in rows if row.old != row.new)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _shown(value: Any) -> str:
    return "" if value is None else excerpt(str(value), 60)


def _decision(expected: Expected | None) -> str:
    return "" if expected is None else expected.shown
