"""The available policies: those installed, and those released in a folder `policies/`.

The folder is a package index: `policies/drsr-policy/drsr_policy-....whl`. Every policy is read and checked; none is
run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import DrsrError
from drsr.policy.folder import PolicyFiles
from drsr.policy.location import LIGHT_PACKAGE, PACKAGE, read_found

RELEASED = "policies"
"""The folder of released policies, in the working directory or next to the code."""


class ListedPolicy(NamedTuple):
    """One available policy."""

    project: str
    """Name of its package, as pip spells it."""
    where: str
    """`installed`, or the path of its wheel."""
    files: PolicyFiles | None
    """Files of the policy; None if it could not be read."""
    problem: str = ""
    """Reason why it could not be read."""

    @property
    def row(self) -> tuple[str, ...]:
        """Return a table row: name, version, kind, how it decides, and where it is."""
        if self.files is None:
            return self.project, "?", "?", f"DAMAGED: {self.problem}", self.where
        numbers = self.files.numbers
        decides = "abstains always"
        if numbers.risk_threshold is not None:
            removed = numbers.calibration.get("mean_removal")
            on = "" if removed is None else f", {removed:.1%} removed when calibrated"
            decides = f"at most {numbers.max_cardinality} Blocks below risk {numbers.risk_threshold:.3f}{on}"
        return self.project, numbers.version, numbers.kind, decides, self.where

    def to_json(self) -> dict[str, Any]:
        found = {"policy": self.project, "where": self.where, "problem": self.problem or None}
        if self.files is None:
            return found
        numbers = self.files.numbers
        return found | {
            "version": numbers.version,
            "kind": numbers.kind,
            "identity": self.files.identity,
            "abstains_always": numbers.always_abstains,
        }


def find_policies() -> list[ListedPolicy]:
    """Return the installed policies, then the released ones, sorted by name."""
    installed = [package for package in (PACKAGE, LIGHT_PACKAGE) if importlib.util.find_spec(package) is not None]
    found = [_listed(package, "installed", package) for package in installed]
    return found + [_listed(wheel.name.partition("-")[0], str(wheel), str(wheel)) for wheel in released_wheels()]


def released_wheels() -> Iterator[Path]:
    """Yield the wheels of the first folder of released policies that there is."""
    for place in (Path.cwd(), Path(__file__).resolve().parents[2]):
        folder = place / RELEASED
        if folder.is_dir():
            near = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
            yield from sorted(near.glob("*/*.whl"))
            return


def _listed(package: str, where: str, location: str) -> ListedPolicy:
    project = package.replace("_", "-")
    try:
        return ListedPolicy(project, where, read_found(location))
    except DrsrError as error:
        return ListedPolicy(project, where, None, error.what)
