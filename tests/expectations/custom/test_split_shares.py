"""Shares of splits: what the stable hash gives is within tolerance, what somebody arranged is not."""

from __future__ import annotations

import pandas as pd
import pytest

from drsr.offline.splits import assign_split
from expectations.custom.split_shares import ExpectSplitSharesWithinTolerance
from expectations.suites.splits import SHARES

EXPECTED = ExpectSplitSharesWithinTolerance(column="split", shares=SHARES, probability=1e-6)


def offending(splits: list[str]) -> int:
    return int(EXPECTED.offending(pd.DataFrame({"split": pd.Series(splits, dtype="object")})).sum())


@pytest.mark.parametrize("groups", [0, 1, 2, 8, 50, 1_000, 20_000])
def test_what_the_hash_gives_is_fine(groups: int) -> None:
    assert offending([assign_split(f"task:{number}") for number in range(groups)]) == 0


def test_a_little_off_is_chance_for_few_and_not_for_many() -> None:
    def off(groups: int) -> list[str]:
        return ["train"] * (groups * 7 // 10) + ["validation"] * (groups * 2 // 10) + ["test"] * (groups // 10)

    assert offending(off(20)) == 0
    assert offending(off(1_000)) == 900  # train and validation, not test


def test_a_split_that_is_empty_is_seen_although_it_has_no_row() -> None:
    assert offending(["train"] * 800 + ["validation"] * 100) > 0


def test_a_split_that_nobody_knows() -> None:
    assert offending(["train", "dev"]) == 1
