"""The library fails open where a value is missing; evaluating does not."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from drsr.expectations.evaluation import evaluate
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite

FRAME = pd.DataFrame({"who": ["x", "y", "z"], "a": ["q", None, "r"], "b": ["q", None, "r"], "n": [1.0, None, 3.0]})
PAIR = {"column_A": "a", "column_B": "b"}

BUILT_IN = [
    gxe.ExpectColumnPairValuesToBeEqual(**PAIR),
    gxe.ExpectColumnPairValuesToBeInSet(**PAIR, value_pairs_set=[("q", "q"), ("r", "r")]),
    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="n", column_B="n", or_equal=True),
    gxe.ExpectCompoundColumnsToBeUnique(column_list=["a", "b"]),
    gxe.ExpectColumnValuesToBeUnique(column="a"),
    gxe.ExpectColumnValuesToBeInSet(column="a", value_set=["q", "r"]),
    gxe.ExpectColumnValuesToBeBetween(column="n", min_value=1),
    gxe.ExpectColumnValuesToMatchRegex(column="a", regex="q|r"),
]


@pytest.mark.parametrize("expectation", BUILT_IN, ids=lambda found: found.expectation_type)
def test_a_row_without_a_value_breaks_a_built_in_rule_and_is_named(expectation: Any) -> None:
    rule = Rule("rule", expectation, "hint")
    suite = Suite("d", "", (Part("rows", "One row per who.", ("who",), (rule,)),))
    required = {"rule": expectation.expectation_type}
    (whole,) = evaluate(suite, {"rows": FRAME.dropna()}, required)
    assert whole.passed
    (found,) = evaluate(suite, {"rows": FRAME}, required)
    assert not found.passed
    assert found.detail.startswith("1 of 3 rows: who y, ")
    assert found.detail.endswith(" (no value to judge)")
    assert [row["who"] for row in found.offending] == ["y"]
