"""The training objective (paper, Eq. loss): ranking + 0.30 SmoothL1 + 0.40 weighted BCE + 0.10 Brier.

The losses are sums over some of the examples, divided by the counts of all of them: added over the parts of an epoch
they give the loss of the whole. Predicted harms stay standardised here: a softplus of raw harms, which differ by
hundredths, would be flat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from drsr.offline.params import TrainParams
from drsr.scorer.network import Outputs


def positive_weight(unsafe: NDArray[np.bool_], limit: float) -> float:
    """w+ = min(safe / unsafe, limit) (paper, Eq. bce_weight)."""
    positives = int(unsafe.sum())
    return min((len(unsafe) - positives) / positives, limit)


class Targets(NamedTuple):
    """The targets of some examples. Rows are the examples', pairs point to rows."""

    harm: Tensor
    """(rows) standardised."""
    unsafe: Tensor
    """(rows) 0 or 1."""
    first: Tensor
    second: Tensor
    sign: Tensor
    weight: Tensor


class Losses(NamedTuple):
    """Each (members), unweighted."""

    ranking: Tensor
    regression: Tensor
    classification: Tensor
    brier: Tensor


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss with the counts and weights of one training frame."""

    params: TrainParams
    rows: int
    pairs: int
    positive_weight: float

    def losses(self, outputs: Outputs, targets: Targets) -> Losses:
        """This part's share of each term; `outputs` has shape (members, rows)."""
        harm, logit = outputs
        difference = harm[:, targets.first] - harm[:, targets.second]
        ranking = targets.weight * functional.softplus(-targets.sign * difference)
        regression = functional.smooth_l1_loss(
            harm, targets.harm.expand_as(harm), reduction="none", beta=self.params.smooth_l1_beta
        )
        unsafe = targets.unsafe.expand_as(logit)
        classification = functional.binary_cross_entropy_with_logits(
            logit, unsafe, reduction="none", pos_weight=torch.tensor(self.positive_weight)
        )
        brier = (torch.sigmoid(logit) - unsafe) ** 2
        return Losses(
            # Without a pair to rank (all harms alike) the term is an empty sum, not 0 / 0.
            ranking.sum(dim=1) / max(self.pairs, 1),
            regression.sum(dim=1) / self.rows,
            classification.sum(dim=1) / self.rows,
            brier.sum(dim=1) / self.rows,
        )

    def total(self, losses: Losses) -> Tensor:
        """Return the weighted sum, (members)."""
        return (
            self.params.ranking_weight * losses.ranking
            + self.params.regression_weight * losses.regression
            + self.params.classification_weight * losses.classification
            + self.params.brier_weight * losses.brier
        )
