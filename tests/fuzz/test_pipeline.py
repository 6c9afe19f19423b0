"""Any request through the whole core: a rewrite is never invalid, never longer, and nothing fails but by name.

`make fuzz` sets DRSR_FUZZ_EXAMPLES to ten thousand, with fresh examples each time; `make test` runs 200 fixed ones.
"""

from __future__ import annotations

import json
import os
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.decide.candidates import DecisionState, Ineligible, freeze
from drsr.decide.deletion_sets import deletion_sets
from drsr.errors import DrsrError
from drsr.request.history import delete, read_history, removal, rewrite
from drsr.request.protocol import new_violations, violations
from drsr.request.rendering import render
from drsr.request.request import Protocol, Request, read_request
from tests.strategies import (
    PROTOCOLS,
    aborted_requests,
    arbitrary_requests,
    corrupted_requests,
    deletable,
    valid_requests,
)
from tests.tokenizer_kinds import leading

EXAMPLES = int(os.environ.get("DRSR_FUZZ_EXAMPLES", "200"))

caps = st.sampled_from((55_296, 400, 150))
masks = st.integers(0, 2**60 - 1)


def share(part: float) -> settings:
    """Settings for one of the tests below, which share the examples out among them."""
    return settings(max_examples=ceil(part * EXAMPLES))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_valid_requests(protocol: Protocol) -> None:
    @share(0.20)
    @given(st.one_of(valid_requests(protocol, 11, 5), valid_requests(protocol)), caps, masks)
    def holds(body: Any, cap: int, mask: int) -> None:
        request = read_request(body, protocol=protocol)
        assert violations(request) == []
        check(request, cap, mask)
        assert json.dumps(request.to_wire()) == json.dumps(body)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arbitrary_requests(protocol: Protocol) -> None:
    @share(0.15)
    @given(arbitrary_requests(protocol, max_steps=8), caps, masks)
    def holds(body: Any, cap: int, mask: int) -> None:
        check(read_request(body, protocol=protocol), cap, mask)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_with_aborted_calls(protocol: Protocol) -> None:
    @share(0.10)
    @given(aborted_requests(protocol), caps, masks)
    def holds(body: Any, cap: int, mask: int) -> None:
        check(read_request(body, protocol=protocol), cap, mask)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_corrupted_requests(protocol: Protocol) -> None:
    @share(0.05)
    @given(corrupted_requests(protocol), caps, masks)
    def holds(body: Any, cap: int, mask: int) -> None:
        try:
            request = read_request(body)
        except DrsrError:
            return
        check(request, cap, mask)

    holds()


def check(request: Request, cap: int, mask: int) -> None:
    """Freeze and try every deletion set; try also Blocks that no rule would choose, as `mask` says."""
    before = violations(request)
    state = freeze(request, leading(), cap)
    if isinstance(state, DecisionState):
        for found in deletion_sets(state, 4):
            rewritten, kept = rewrite(request, found.removal)
            assert list(found.violations) == new_violations(rewritten, kept, before) == []
            assert len(violations(rewritten)) == len(before)
            scratch = render(rewritten, leading())
            assert len(state.rendering) - len(scratch) == found.direct_saving > 0
            assert np.array_equal(state.rendering.without(found.removal), scratch.token_ids)
    else:
        assert isinstance(state, Ineligible)
        assert state.detail
    history, rendering = read_history(request), render(request, leading())
    blocks = [block for number, block in enumerate(deletable(history)) if mask >> number % 60 & 1]
    rewritten, kept = delete(history, blocks)
    assert new_violations(rewritten, kept, before) == []
    assert read_request(rewritten.to_wire(), protocol=request.protocol) == rewritten
    assert np.array_equal(rendering.without(removal(history, blocks)), render(rewritten, leading()).token_ids)
