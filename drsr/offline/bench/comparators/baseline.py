"""Baseline: every request as it is."""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import Keep, Rewrite, Trained
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request


class Baseline:
    """Changes nothing: what all others are compared with."""

    name = "baseline"
    title = "Baseline"
    assumptions: tuple[str, ...] = ()
    trained: Trained = "no"
    asks = False
    keeps = frozenset(Keep)

    def begin(self) -> None:
        return None

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        return Rewrite(request)
