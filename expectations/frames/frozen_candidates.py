"""The frozen candidates of a view, as the features of these very candidates must repeat them.

Freezing is an earlier stage than featurizing, which tokenizes the run again: place, size and saving of a candidate are
known twice. A file with the rows of another state, of other candidates or of other tokens does not get past all three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import select

from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.tables import Candidate, DecisionState, Trajectory

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from drsr.offline.featurize.views import RegisteredView

FROZEN_COLUMNS = ("structural_token_position", "structural_tokens", "structural_direct_saving")
"""The columns of a view that freezing knows, too."""


def frozen_candidates(connection: Connection, view: RegisteredView) -> dict[str, NDArray[np.float64]]:
    """By state the numbers that these columns must hold: [candidates, columns]."""
    query = (
        select(
            DecisionState.state_key,
            Candidate.token_spans,
            Candidate.direct_saving,
            StateFeatures.request_tokens,
        )
        .join(DecisionState, DecisionState.id == Candidate.state_id)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateFeatures.view_id == view.id, StateFeatures.outcome == "stored", Trajectory.is_current())
        .order_by(Candidate.state_id, Candidate.position)
    )
    found: dict[str, list[tuple[float, float, float]]] = {}
    for key, spans, saving, request_tokens in connection.execute(query):
        tokens = sum(stop - start for start, stop in spans)
        numbers = (spans[0][0] / request_tokens, np.log1p(tokens), np.log1p(saving))
        found.setdefault(key, []).append(numbers)
    return {key: np.array(rows) for key, rows in found.items()}
