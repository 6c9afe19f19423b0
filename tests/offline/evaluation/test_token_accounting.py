"""Token accounting against examples computed by hand, and its identity on anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import InputError
from drsr.offline.evaluation.token_accounting import (
    TaskTokens,
    Usage,
    change_percent,
    decompose,
)

counts = st.integers(0, 10**9)


def test_a_task_by_hand() -> None:
    """Two requests and one summary. 1000 + 50 + 900 + 40 + 300 + 20 = 2310; cached tokens are not added."""
    task = TaskTokens(
        requests=(Usage(1_000, 50, cache_creation_tokens=1_000), Usage(900, 40, 700, 200)),
        direct=(0, 150),
        auxiliary=(Usage(300, 20),),
    )
    assert task.total == 2_310
    assert task.direct_removal == 150
    assert task.usage == Usage(2_200, 110, 700, 1_200)


def test_cached_tokens_are_parts_of_the_input() -> None:
    """800 tokens from the cache, 100 written to it, 50 fresh, 20 out: 950 in, 970 in all."""
    openai = {
        "prompt_tokens": 950,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 800, "cache_creation_tokens": 100},
    }
    assert Usage.of_openai(openai) == Usage(950, 20, 800, 100)
    assert Usage.of_openai(openai).total == 970


def test_usage_without_a_word_about_caches() -> None:
    assert Usage.of_openai({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": None}) == Usage(5, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_tokens": 5},
        {"prompt_tokens": "5", "completion_tokens": 2},
        {"prompt_tokens": True, "completion_tokens": 2},
        {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}},
        {"prompt_tokens": -5, "completion_tokens": 2},
    ],
)
def test_impossible_usage_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="usage"):
        Usage.of_openai(wrong)


def test_cache_counts_that_stand_beside_the_input_are_found_out() -> None:
    with pytest.raises(InputError, match="parts of the input"):
        Usage(50, 20, 800, 100)


def test_direct_removal_is_of_every_request() -> None:
    with pytest.raises(InputError, match="2 requests"):
        TaskTokens((Usage(1, 1), Usage(1, 1)), (0,))


@given(
    st.lists(st.tuples(counts, counts, st.integers(0, 10**6)), max_size=5),
    st.lists(st.tuples(counts, counts), max_size=5),
)
def test_the_accounting_identity(method: list[tuple[int, int, int]], base: list[tuple[int, int]]) -> None:
    """T_base - T_method = D_direct + residual, exactly, whatever the two rollouts."""
    pruned = TaskTokens(tuple(Usage(i, o) for i, o, _ in method), tuple(direct for _, _, direct in method))
    whole = TaskTokens(tuple(Usage(i, o) for i, o in base), (0,) * len(base))
    found = decompose(whole.total, pruned.total, pruned.direct_removal)
    assert whole.total - pruned.total == found.saved == found.direct + found.residual
    assert whole.total == sum(i + o for i, o in base)


@given(counts, counts, st.data())
def test_cache_counts_never_change_a_total(given_input: int, output: int, data: st.DataObject) -> None:
    read = data.draw(st.integers(0, given_input))
    created = data.draw(st.integers(0, given_input - read))
    assert Usage(given_input, output, read, created).total == Usage(given_input, output).total == given_input + output


def test_change_has_the_papers_sign() -> None:
    assert change_percent(80, 100) == pytest.approx(-20)
    assert change_percent(125, 100) == pytest.approx(25)
    with pytest.raises(InputError):
        change_percent(1, 0)
