"""Name the version of a method that made a row: results of one version say nothing about another."""

from __future__ import annotations

import hashlib
from importlib.metadata import version

from drsr.offline.bench.comparators.contract import Comparator, Peer
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.llmlingua2 import LlmLingua2
from drsr.offline.bench.comparators.lre import Lre
from drsr.offline.bench.comparators.pace import Pace
from drsr.offline.bench.comparators.swe_pruner import SwePruner
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.json_values import canonical_json


def version_of(method: Comparator) -> str:
    """Return the policy, fit, supplied model or package; empty if a method consists of this project's code alone."""
    if isinstance(method, DrsrPolicy):
        return method.identity
    if isinstance(method, Lre):
        return hashlib.sha256(canonical_json(method.model.to_json()).encode()).hexdigest()
    if isinstance(method, LlmLingua2 | SwePruner | Pace) and method.model_identity:
        return f"model {method.model_identity}"
    return f"{method.package} {version(method.package)}" if isinstance(method, Peer) else ""


def version_with(method: Comparator, summariser: Summariser) -> str:
    """Return the same and, for a method that asks for summaries, who writes them."""
    parts = [version_of(method), f"summaries by {summariser.name}" if method.asks else ""]
    return ", ".join(filter(None, parts))
