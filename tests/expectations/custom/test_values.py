"""One value per key, against looking at every pair of rows."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from drsr.expectations.custom.values import ExpectOneValuePerKey

ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["x", "y", None])), max_size=8)


@given(ROWS, st.booleans())
def test_the_slow_twin(rows: list[tuple[str | None, str | None]], categorical: bool) -> None:
    frame = pd.DataFrame(rows, columns=["key", "value"], dtype="category" if categorical else "object")
    offends = ExpectOneValuePerKey(key="key", value="value").offending(frame).tolist()
    for (key, value), found in zip(rows, offends, strict=True):
        alike = {other for name, other in rows if name == key}
        assert found == (key is not None and (value is None or len(alike) > 1))
