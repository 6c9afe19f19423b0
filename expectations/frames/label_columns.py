"""Label columns: everything that measuring left for a candidate, which no feature may copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sqlalchemy import select

from drsr.expectations.frames.reading import read_frame
from drsr.offline.catalog.label_tables import Label, Labeler, StateMeasurement
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drsr.offline.catalog.engine import Catalog


def label_columns(catalog: Catalog, rows: Sequence[tuple[str, int]]) -> dict[str, NDArray[np.float64]]:
    """By name one number per row (state key, candidate), for every labeler; NaN where a row has none.

    Of the candidate: harm, verdict and NLL of deleting it alone, mean and largest harm of the sets that delete it. Of
    its state: harm of deleting all, mean harm, NLL with everything, length of the next output.
    """
    keys = sorted({key for key, _ in rows})
    columns: list[Any] = [
        *(DecisionState.state_key, DecisionState.candidates, Labeler.name.label("labeler")),
        *(Label.mask, Label.harm, Label.unsafe, Label.deleted_nll),
        *(StateMeasurement.intact_nll, StateMeasurement.target_tokens),
    ]
    with catalog.reading() as connection:
        query = (
            select(*columns)
            .select_from(Label)
            .join(DecisionState, DecisionState.id == Label.state_id)
            .join(Labeler, Labeler.id == Label.labeler_id)
            .join(
                StateMeasurement,
                (StateMeasurement.state_id == Label.state_id) & (StateMeasurement.labeler_id == Label.labeler_id),
            )
            .where(among(connection, DecisionState.state_key, keys))
        )
        labels = read_frame(connection, query)
    found: dict[str, NDArray[np.float64]] = {}
    for labeler, mine in labels.groupby("labeler"):
        for name, values in of_candidates(mine, rows).items():
            found[f"{name} ({labeler})"] = values
    return found


def of_candidates(labels: pd.DataFrame, rows: Sequence[tuple[str, int]]) -> dict[str, NDArray[np.float64]]:
    """Return the label columns of one labeler."""
    by_state = labels.groupby("state_key")
    everything = labels[labels["mask"] == 2 ** labels["candidates"] - 1].set_index("state_key")
    of_state = pd.DataFrame(
        {
            "harm of all": everything["harm"],
            "mean harm": by_state["harm"].mean(),
            "intact NLL": by_state["intact_nll"].first(),
            "tokens of the next output": by_state["target_tokens"].first(),
        }
    )
    parts = []
    for candidate in range(4):
        mine = labels[labels["mask"] // 2**candidate % 2 == 1]
        alone = labels[labels["mask"] == 1 << candidate].set_index("state_key")
        deleting = mine.groupby("state_key")["harm"]
        part = pd.DataFrame(
            {
                "harm alone": alone["harm"],
                "unsafe alone": alone["unsafe"].astype("float64"),
                "NLL alone": alone["deleted_nll"],
                "mean harm with it": deleting.mean(),
                "largest harm with it": deleting.max(),
            }
        )
        part["candidate"] = candidate
        parts.append(part.set_index("candidate", append=True))
    of_candidate = pd.concat(parts)
    wanted = pd.MultiIndex.from_tuples(list(rows), names=["state_key", "candidate"])
    columns = of_candidate.reindex(wanted)
    states = of_state.reindex([key for key, _ in rows])
    return {name: frame[name].to_numpy(dtype="float64") for frame in (columns, states) for name in frame.columns}
