"""The seams of DRSR: what the rest of the code needs from a tokenizer and from a language model.

Both are Protocols. `backbone/frozen_lm.py` implements them with transformers, `backbone/scripted.py` with a
deterministic double that ships, so that every stage can be tried on a CPU without weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.int32]
"""Token ids of one piece of text or of a whole context, in order."""


class Tokenizer(Protocol):
    """Text to token ids, piece by piece.

    A frame is text that the renderer itself writes (`<|im_start|>assistant\\n`): the vocabulary's special and added
    tokens are recognised in it. Content is text from outside: nothing in it ever becomes a special token.
    """

    @property
    def identity(self) -> str:
        """SHA-256 over everything that determines the ids."""

    @property
    def lead(self) -> TokenIds:
        """Return the ids that begin every context (a beginning-of-sequence token); often none."""

    def encode_frame(self, text: str) -> TokenIds:
        """Return ids of a frame; special tokens are recognised."""

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return ids of many contents, each on its own; raises AlignmentError if a special token would appear."""


class Backbone(Protocol):
    """A frozen causal language model with its tokenizer."""

    @property
    def name(self) -> str:
        """The name it was loaded by, such as `smollm2-135m`."""

    @property
    def identity(self) -> str:
        """SHA-256 over weights and tokenizer: two backbones with one identity give the same numbers."""

    @property
    def window(self) -> int:
        """The largest number of tokens in one sequence."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    def logits(self, token_ids: TokenIds, positions: Sequence[int]) -> NDArray[np.float32]:
        """Next-token logits after each of the given positions of one sequence: one row per position."""


class SetScores(NamedTuple):
    """A scorer's predictions for some deletion sets of one decision: one entry per set, in the order asked."""

    predicted_harm: NDArray[np.float64]
    """Mean over the ensemble's members, in nats per token of the next output."""
    unsafe_mean: NDArray[np.float64]
    """Mean of the members' unsafe scores, each between 0 and 1. A decision score, not a probability of failure."""
    unsafe_std: NDArray[np.float64]
    """Standard deviation of the members' unsafe scores (of the population: divided by the number of members)."""

    def unsafe_score(self, uncertainty_coefficient: float) -> NDArray[np.float64]:
        """U(A) = mean + beta * std (paper, Eq. risk_score): what the risk threshold is compared with."""
        return self.unsafe_mean + uncertainty_coefficient * self.unsafe_std


class SetScorer(Protocol):
    """A trained set-risk scorer. `scorer/ensemble.py` implements it."""

    @property
    def layout_hash(self) -> str:
        """Hash of the feature layout whose columns the scorer reads."""

    def score(
        self,
        features: NDArray[np.float32],
        candidate_savings: Sequence[int],
        masks: Sequence[int],
        direct_savings: Sequence[int],
    ) -> SetScores:
        """Predictions for the deletion sets of one decision, all in one batch.

        `features` has one row per candidate, not normalised; `candidate_savings` is what deleting each alone saves.
        A set is a mask over the candidates (bit i: candidate i is deleted) with its direct saving w(A), in tokens.
        """
