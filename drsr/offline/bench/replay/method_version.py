"""Name the version of a method that made a row: results of one version say nothing about another."""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from drsr.offline.bench.comparators.contract import Comparator, Peer
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.lre import Lre
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.json_values import canonical_json


def version_of(method: Comparator) -> str:
    """Return which policy, which fit, or which package; empty where the method is the code of this project alone."""
    if isinstance(method, DrsrPolicy):
        return method.identity
    if isinstance(method, Lre):
        return hashlib.sha256(canonical_json(method.model.to_json()).encode()).hexdigest()
    return f"{method.package} {version(method.package)}" if isinstance(method, Peer) else ""


def version_with(method: Comparator, summariser: Summariser) -> str:
    """The same, and of a method that asks for summaries who writes them."""
    parts = [version_of(method), f"summaries by {summariser.name}" if method.asks else ""]
    return ", ".join(filter(None, parts))
