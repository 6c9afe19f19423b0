"""Label columns beside rows of candidates, against looking every number up."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from drsr.expectations.frames.label_columns import of_candidates

ROWS = [("k1", 0), ("k1", 2), ("k2", 3), ("k2", 1), ("k9", 0)]


@pytest.fixture
def labels() -> pd.DataFrame:
    """A state of three candidates and one of four, one of whose sets was excluded."""
    draw = np.random.default_rng(7)
    rows = []
    for key, candidates in (("k1", 3), ("k2", 4)):
        for mask in range(1, 2**candidates):
            if (key, mask) != ("k2", 2):
                harm = draw.normal(0.0, 0.05)
                rows.append((key, candidates, mask, harm, harm > 0.02, 2.0 + harm, 2.0, 30))
    names = ["state_key", "candidates", "mask", "harm", "unsafe", "deleted_nll", "intact_nll", "target_tokens"]
    return pd.DataFrame(rows, columns=names)


def test_the_slow_twin(labels: pd.DataFrame) -> None:
    found = of_candidates(labels, ROWS)
    by_set = {(row.state_key, row.mask): row for row in labels.itertuples()}
    for place, (key, candidate) in enumerate(ROWS):
        mine = [row for (state, _), row in by_set.items() if state == key]
        with_it = [row.harm for row in mine if row.mask >> candidate & 1]
        alone = by_set.get((key, 1 << candidate))
        everything = by_set.get((key, 2 ** mine[0].candidates - 1)) if mine else None
        slow = {
            "harm alone": alone.harm if alone else np.nan,
            "unsafe alone": float(alone.unsafe) if alone else np.nan,
            "NLL alone": alone.deleted_nll if alone else np.nan,
            "mean harm with it": fmean(with_it) if with_it else np.nan,
            "largest harm with it": max(with_it, default=np.nan),
            "harm of all": everything.harm if everything else np.nan,
            "mean harm": fmean(row.harm for row in mine) if mine else np.nan,
            "intact NLL": mine[0].intact_nll if mine else np.nan,
            "tokens of the next output": mine[0].target_tokens if mine else np.nan,
        }
        assert found.keys() == slow.keys()
        for name, value in slow.items():
            assert found[name][place] == pytest.approx(value, nan_ok=True), (key, candidate, name)
