"""DRSR itself: a frozen policy with the same contract, each request decided on its own, as in the paper.

Assumptions. None beyond the policy's own; a session that respects the prompt cache is not used here.
"""

from __future__ import annotations

import hashlib

from drsr.decide.decision import decide
from drsr.decide.representation import FeatureSource
from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite, Trained
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.policy.policy import Policy
from drsr.request.contracts import SetScorer
from drsr.request.request import Request
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import scorer_bytes

ALONE = "Every request is decided on its own, as in the paper, not in a session."
STORED = "Features come from the store: its time is without the language model's pass."


class DrsrPolicy(PlainMethod):
    """Asks a policy. An ablation is a policy like any other, with its own name and perhaps its own `source` of
    features."""

    trained: Trained = "here"
    keeps = frozenset(Keep)

    def __init__(
        self,
        policy: Policy,
        *,
        name: str = "drsr",
        title: str = "DRSR",
        source: FeatureSource | None = None,
        depends_on: str = "",
        training: str | None = None,
    ) -> None:
        """`depends_on`: what its decisions depend on, apart from the policy itself. `training`: for an ablation, the
        training of the full scorer that was trained with it, from `training_of`."""
        self.policy = policy
        self._depends_on = depends_on
        self.name = name
        self.title = title
        self.assumptions = (ALONE,) if source is None else (ALONE, STORED)
        self._source = source
        self.training = training_of(policy.frozen.scorer) if training is None else training

    @property
    def identity(self) -> str:
        """Identity of the policy: two with the same identity decide identically."""
        return " ".join(filter(None, [self.policy.identity, self._depends_on]))

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        return Rewrite(decide(request, self.policy.frozen, source=self._source).evidence.returned.request)


def training_of(scorer: SetScorer) -> str:
    """Return the training that a full scorer came from: the hash of its weights; empty for a double, which has none."""
    return hashlib.sha256(scorer_bytes(scorer)).hexdigest() if isinstance(scorer, FrozenScorer) else ""
