"""Every decision of every recorded run: round trip, validity of every rewrite, and exact savings."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from drsr.decide.candidates import DecisionState, IneligibleReason, freeze
from drsr.decide.deletion_sets import deletion_sets
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.history import delete, read_history, removal, rewrite
from drsr.request.protocol import ViolationKind, new_violations, violations
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.request.view import CONTEXT_CAP
from tests.strategies import deletable
from tests.tokenizer_kinds import byte_pairs
from tests.trajectory_files import RecordedRun, recorded_runs

SHARES = 8
"""Into how many tests the runs are dealt out, so that workers can share them."""


class RememberingTokenizer:
    """Encodes each text once: the requests of one run say the same things again and again."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._frames: dict[str, TokenIds] = {}
        self._contents: dict[str, TokenIds] = {}
        self.identity = tokenizer.identity
        self.lead = tokenizer.lead

    def encode_frame(self, text: str) -> TokenIds:
        if text not in self._frames:
            self._frames[text] = self._tokenizer.encode_frame(text)
        return self._frames[text]

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        new = [text for text in dict.fromkeys(texts) if text not in self._contents]
        self._contents.update(zip(new, self._tokenizer.encode_contents(new), strict=True))
        return [self._contents[text] for text in texts]


@pytest.mark.parametrize("share", range(SHARES))
def test_every_decision_of_every_recorded_run(share: int) -> None:
    runs = recorded_runs()[share::SHARES]
    tokenizer = RememberingTokenizer(byte_pairs())
    eligible = sum(check_decision(run, length, tokenizer) for run in runs for length in run.decisions)
    assert eligible or not runs


def check_decision(run: RecordedRun, length: int, tokenizer: RememberingTokenizer) -> bool:
    """Whether the request before this decision is eligible; all that must hold of it is asserted."""
    messages = run.messages[:length]
    request = read_request(messages, protocol=run.protocol, where=run.name)
    assert json.dumps(request.to_wire()) == json.dumps(messages)
    before = violations(request)
    state = freeze(request, tokenizer, CONTEXT_CAP)
    if not isinstance(state, DecisionState):
        broken = {violation.kind for violation in before} - {ViolationKind.CALL_WITHOUT_RESULT}
        assert (state.reason is IneligibleReason.INVALID_PROTOCOL) == bool(broken)
        return False
    for found in deletion_sets(state, 4):
        assert found.violations == ()
        scratch = render(rewrite(request, found.removal).request, tokenizer)
        assert found.direct_saving == len(state.rendering) - len(scratch) > 0
        assert np.array_equal(state.rendering.without(found.removal), scratch.token_ids)
    return True


@pytest.mark.parametrize("share", range(SHARES))
def test_all_deletable_blocks_of_every_recorded_run_at_once(share: int) -> None:
    """The largest deletion there is, also from requests that are not eligible."""
    tokenizer = RememberingTokenizer(byte_pairs())
    for run in recorded_runs()[share::SHARES]:
        history = read_history(read_request(run.messages, protocol=run.protocol, where=run.name))
        blocks = deletable(history)
        rewritten, kept = delete(history, blocks)
        assert new_violations(rewritten, kept, violations(history.request)) == []
        assert read_request(rewritten.to_wire(), protocol=run.protocol) == rewritten
        without = render(history.request, tokenizer).without(removal(history, blocks))
        assert np.array_equal(without, render(rewritten, tokenizer).token_ids)
