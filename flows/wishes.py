"""Wishes: what a refresh is to leave besides the catalog, such as a wheel in an index, pages, a recording, ablations.

A refresh that finds nothing new still has something to do where the last one left less, or where it is gone since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drsr.flows.recording import changed, locked


@dataclass(frozen=True)
class Wishes:
    """As the parameters of `nightly` say them."""

    index: str
    docs: str | None = None
    dvc: bool = False
    ablations: bool = False

    def are_met(self, outcome: Mapping[str, Any]) -> bool:
        """Return whether the refresh that ended so has left all of it, and it is still there."""
        if outcome["published"] and not _is_in(self.index, outcome):
            return False
        if self.docs is not None and (outcome.get("pages") is None or pages_in(self.docs) != outcome["pages"]):
            return False
        if self.ablations and not outcome.get("ablations"):
            return False
        return not self.dvc or _is_recorded_here(outcome)


def pages_in(docs: str) -> str | None:
    """Return the SHA-256 of the first of the pages about the data, which counts the broken rules; None where it is not
    there."""
    try:
        return hashlib.sha256((Path(docs) / "index.html").read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _is_in(index: str, outcome: Mapping[str, Any]) -> bool:
    return bool(outcome["index"] == str(Path(index).absolute()) and Path(outcome["wheel"]).exists())


def _is_recorded_here(outcome: Mapping[str, Any]) -> bool:
    """Return whether this repository's files are those that the refresh recorded: another clone, or an older revision
    that was checked out, has others."""
    recorded = outcome.get("recorded")
    return isinstance(recorded, dict) and recorded.items() <= locked().items() and not changed()
