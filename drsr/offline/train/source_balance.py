"""Weights of states by source, so that one large source does not speak for all of them.

A measured corpus has the mix that was cheap to measure; the requests that a policy meets have a different one. With a
balance of b a state counts (n / (S n_s)) ** b times, for n states of S sources, n_s of them of its own source: at 0
every state counts the same, at 1 every source does. In between, a small source counts for more than its number of
states, but less than a large source.
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
