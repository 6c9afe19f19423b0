"""Baseline: every request unchanged."""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request


class Baseline(PlainMethod):
    """Changes nothing: what all others are compared with."""

    name = "baseline"
    title = "Baseline"
    assumptions: tuple[str, ...] = ()
    keeps = frozenset(Keep)

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        return Rewrite(request)
