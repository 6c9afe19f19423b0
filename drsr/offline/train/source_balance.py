"""Weights of states by source, so that one large source does not speak for all of them.

A measured corpus has the mix that was cheap to measure; the requests that a policy meets have another. With a balance
of b a state counts (n / (S n_s)) ** b times, n states of S sources, n_s of its own: at 0 every state alike, at 1 every
source. In between, a source of few states counts for more than them and is not trusted like a large one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drsr.offline.train.examples import ExampleFrame

WHOLE = 1_000
"""Weights are whole multiples of one over this, so that weighted counts add up exactly in any order."""


def state_weights(frame: ExampleFrame, balance: float) -> NDArray[np.int64]:
    """Return how much each state counts, in units of 1 / WHOLE."""
    sources = np.array([name.partition("/")[0] for name in frame.trajectory_ids])
    _, source, states = np.unique(sources, return_inverse=True, return_counts=True)
    weights = (len(sources) / (len(states) * states[source])) ** balance
    return np.maximum(np.rint(weights * WHOLE), 1).astype(np.int64)
