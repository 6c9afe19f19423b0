"""Shares of splits: what the stable hash gives is within tolerance, what somebody arranged is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd
import pytest

from drsr.expectations.custom.splits import ExpectSplitSharesWithinTolerance
from drsr.expectations.frames.splits import shares_frame
from drsr.offline.ingest.splits import assign_split

EXPECTED = ExpectSplitSharesWithinTolerance(count="groups", total="all_groups", share="asked_share", probability=1e-6)


def wrong(counts: Mapping[str, int]) -> list[str]:
    return wrong_shares(shares_frame(counts))


def wrong_shares(frame: pd.DataFrame) -> list[str]:
    """The splits that are too large or too small."""
    found: list[str] = frame["split"][EXPECTED.offending(frame)].tolist()
    return found


@pytest.mark.parametrize("groups", [0, 1, 2, 8, 50, 1_000, 20_000])
def test_what_the_hash_gives_is_fine(groups: int) -> None:
    assert wrong(Counter(assign_split(f"task:{number}") for number in range(groups))) == []


def test_a_little_off_is_chance_for_few_and_not_for_many() -> None:
    assert wrong({"train": 14, "validation": 4, "test": 2}) == []
    assert wrong({"train": 700, "validation": 200, "test": 100}) == ["train", "validation"]
    assert wrong({"train": 79_000, "validation": 11_000, "test": 10_000}) == ["train", "validation"]


def test_a_split_that_is_empty_is_seen() -> None:
    assert wrong({"train": 800, "validation": 100}) == ["train", "test"]


def test_a_split_that_nobody_knows() -> None:
    assert wrong({"train": 8, "validation": 1, "dev": 1}) == ["dev"]
