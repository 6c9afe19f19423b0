"""Token accounting against examples computed by hand, and its identity on anything."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import InputError
from drsr.offline.bench.summarisers.token_accounting import (
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


def test_deepseek_divides_its_input_into_cache_read_and_cache_creation() -> None:
    said = {"prompt_tokens": 950, "completion_tokens": 20, "total_tokens": 970, "prompt_tokens_details": {}}
    found = Usage.of_openai({**said, "prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 150})
    assert found == Usage(950, 20, 800, 150)
    assert found.input_tokens == found.cache_read_tokens + found.cache_creation_tokens
    for wrong in ({"prompt_cache_hit_tokens": 800}, {"prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 151}):
        with pytest.raises(InputError):
            Usage.of_openai({**said, **wrong})


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


def test_what_cannot_be_counted_of_one_request_is_not_known_of_the_task() -> None:
    requests = (Usage(9, 1), Usage(9, 1))
    assert TaskTokens(requests, (3, 4)).direct_removal == 7
    unknown = TaskTokens(requests, (3, None))
    assert (unknown.direct_removal, unknown.total) == (None, 20)


class Request(NamedTuple):
    """One of the pruned rollout: what the agent would have sent, and what the method took out of it."""

    context: int
    removed: int
    output: int
    cached: int


@st.composite
def pruned_requests(draw: st.DrawFn) -> Request:
    context = draw(counts)
    removed = draw(st.integers(-1_000, context))  # a method may also make a request longer
    return Request(context, removed, draw(counts), draw(st.integers(0, context - removed)))


usages = st.tuples(counts, counts)


@given(st.lists(pruned_requests(), max_size=5), st.lists(usages, max_size=5), st.lists(usages, max_size=2))
def test_the_accounting_identity(
    pruned: list[Request], base: list[tuple[int, int]], summaries: list[tuple[int, int]]
) -> None:
    """T_base - T_method = D_direct + residual, the residual counted by itself: what the baseline took more than the
    pruned path would have taken with nothing removed from its requests, summaries included."""
    task = TaskTokens(
        tuple(Usage(one.context - one.removed, one.output, one.cached) for one in pruned),
        tuple(one.removed for one in pruned),
        tuple(Usage(*summary) for summary in summaries),
    )
    whole = TaskTokens(tuple(Usage(*usage) for usage in base), (0,) * len(base))
    assert task.direct_removal is not None
    found = decompose(whole.total, task.total, task.direct_removal)
    direct = residual = 0
    for read, written in base:
        residual += read + written
    for one in pruned:
        direct += one.removed
        residual -= one.context + one.output
    for read, written in summaries:
        residual -= read + written
    assert (found.direct, found.residual) == (direct, residual)
    assert found.saved == direct + residual


def test_a_decomposition_by_hand() -> None:
    """The baseline: 1000 + 50, 1200 + 50. Pruned: 300 of 1200 go, then a call is repeated, 1250 + 50 with 300 gone."""
    base = TaskTokens((Usage(1_000, 50), Usage(1_200, 50)), (0, 0))
    pruned = TaskTokens((Usage(1_000, 50), Usage(900, 50), Usage(950, 50)), (0, 300, 300))
    assert pruned.direct_removal is not None
    # 2300 - 3000 = 600 removed - 1300 for the request more.
    assert decompose(base.total, pruned.total, pruned.direct_removal) == (-700, 600, -1_300)


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
