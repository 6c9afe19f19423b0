from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.bench.harness.prompt_cache import PromptCache
from drsr.offline.bench.summarisers.token_accounting import Usage

tokens = st.lists(st.integers(0, 2), max_size=30)


def ids(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def test_by_hand() -> None:
    cache = PromptCache(chunk=4)
    first = list(range(10))
    assert cache.usage(ids(first), 3) == Usage(10, 3, cache_read_tokens=0, cache_creation_tokens=8)
    grown = [*first, 20, 21, 22]
    # Ten tokens are shared, of which two whole chunks: 8 read; 12 of 13 fit chunks: 4 written; 1 is neither.
    assert cache.usage(ids(grown), 2) == Usage(13, 2, cache_read_tokens=8, cache_creation_tokens=4)
    pruned = [*first[:3], *grown[8:]]
    # Something was cut out behind the third token: no whole chunk is left.
    assert cache.usage(ids(pruned), 1) == Usage(8, 1, cache_read_tokens=0, cache_creation_tokens=8)


@given(st.lists(tokens, min_size=1, max_size=5), st.integers(1, 7))
def test_cache_counts_are_parts_of_the_input(requests: list[list[int]], chunk: int) -> None:
    cache = PromptCache(chunk)
    before: list[int] = []
    for request in requests:
        usage = cache.usage(ids(request), 5)
        uncached = usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens
        assert usage.input_tokens == len(request)
        assert 0 <= uncached < chunk
        assert usage.total == len(request) + 5
        shared = 0
        while shared < min(len(before), len(request)) and before[shared] == request[shared]:
            shared += 1
        assert usage.cache_read_tokens == shared // chunk * chunk
        before = request
