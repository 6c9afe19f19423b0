"""Any request through a policy with random scores: zero rewrites that are invalid, longer, over the cap, or touch
Recent2, a user's message or a pinned Block. What is sent is judged from its wire form alone.

`make fuzz` takes twenty thousand fresh requests, `make test` two hundred fixed ones.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from math import ceil
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drsr.decide.decision import Reason
from drsr.decide.representation import SCRIPTED_LAYOUT
from drsr.errors import RequestError
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.policy.scripted import scripted_policy
from drsr.request.history import Block, read_history
from drsr.request.parts import Message, Result, says_something
from drsr.request.protocol import violations
from drsr.request.rendering import render
from drsr.request.request import Protocol, Request, read_request
from drsr.scorer.scripted import ScriptedScorer
from drsr.sessions.prices import Prices
from tests.strategies import PROTOCOLS, aborted_requests, arbitrary_requests, corrupted_requests, valid_requests

EXAMPLES = 2 * int(os.environ.get("DRSR_FUZZ_EXAMPLES", "100"))

POLICIES = [
    scripted_policy(
        risk_threshold=threshold,
        removal_cap=cap,
        uncertainty_coefficient=beta,
        context_cap=view,
        scorer=ScriptedScorer(SCRIPTED_LAYOUT, seed, steps=steps),
    )
    for seed, (threshold, cap, beta, view, steps) in enumerate(
        [
            (1.0, 0.20, 0.0, 55_296, 0),
            (0.5, 0.20, 0.0, 55_296, 0),
            (0.5, 0.20, 0.5, 400, 2),
            (1.0, 0.60, 0.0, 55_296, 3),
            (1.0, 0.05, 1.0, 150, 0),
        ]
    )
]
"""Random scores, with and without ties; the paper's cap and others; whole views and short ones."""

policies = st.sampled_from(POLICIES)
pins = st.sampled_from((0, 0, 0b1, 0b1000_1000, 0b110_0101_0011_1010))
PRICES = Prices(3, 0.3, 3.75, 15)


def share(part: float) -> settings:
    """Settings for one of the tests below, which share the examples out among them."""
    return settings(max_examples=ceil(part * EXAMPLES))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_valid_requests(protocol: Protocol) -> None:
    @share(0.25)
    @given(valid_requests(protocol, 11, 5), policies, pins)
    def holds(body: Any, policy: Policy, pinned: int) -> None:
        decision = check(body, policy, protocol, pinned)
        event("pruned" if decision.pruned else str(decision.reason))

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_with_aborted_calls(protocol: Protocol) -> None:
    @share(0.10)
    @given(aborted_requests(protocol), policies, pins)
    def holds(body: Any, policy: Policy, pinned: int) -> None:
        check(body, policy, protocol, pinned)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arbitrary_requests(protocol: Protocol) -> None:
    @share(0.05)
    @given(arbitrary_requests(protocol, max_steps=8), policies, pins)
    def holds(body: Any, policy: Policy, pinned: int) -> None:
        check(body, policy, protocol, pinned)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_corrupted_requests(protocol: Protocol) -> None:
    @share(0.05)
    @given(corrupted_requests(protocol), policies, pins)
    def holds(body: Any, policy: Policy, pinned: int) -> None:
        check(body, policy, protocol, pinned)

    holds()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_requests_of_a_session(protocol: Protocol) -> None:
    """A session is handed the middle and the end of a run."""

    @share(0.05)
    @given(
        st.one_of(valid_requests(protocol, 11, 6), aborted_requests(protocol).filter(_speaks)),
        policies,
        pins,
        st.integers(1, 200),
    )
    def holds(body: Any, policy: Policy, pinned: int, expected_calls: int) -> None:
        session = policy.session(prices=PRICES, expected_calls=expected_calls)
        whole = body["messages"] if isinstance(body, dict) else body
        cuts = [index for index, message in enumerate(whole) if message["role"] == "assistant"]
        for cut in (cuts[len(cuts) // 2], cuts[-1], len(whole)):
            part = {**body, "messages": whole[:cut]} if isinstance(body, dict) else whole[:cut]
            before = json.dumps(part)
            decision = session.prune(request=part, format=protocol, protect=protector(pinned))
            judge(part, decision, policy, protocol, pinned)
            assert json.dumps(part) == before

    holds()


def _speaks(body: Any) -> bool:
    return any(message["role"] == "assistant" for message in (body["messages"] if isinstance(body, dict) else body))


def protector(pinned: int) -> Any:
    """Pins the Blocks whose Step and component say so."""
    return lambda block, request: bool(pinned >> (3 * block.step + block.component) % 16 & 1)


def check(body: Any, policy: Policy, protocol: Protocol, pinned: int) -> Decision:
    before = frozen(body)
    decision = policy.prune(request=body, format=protocol, protect=protector(pinned)) if body is not None else None
    if decision is None:  # no request at all is misuse, and said to be
        with pytest.raises(TypeError):
            policy.prune(request=body)
        return policy.prune([])
    assert frozen(body) == before, "the caller's object was changed"
    judge(body, decision, policy, protocol, pinned)
    return decision


def frozen(value: Any) -> Any:
    """Any value of a document as something that stays as it is and can be compared, NaN and huge integers too."""
    if isinstance(value, dict):
        return ("object", [(frozen(key), frozen(item)) for key, item in value.items()])
    if isinstance(value, list):
        return ("list", [frozen(item) for item in value])
    return (type(value).__name__, hex(value) if isinstance(value, int) else repr(value))


def judge(body: Any, decision: Decision, policy: Policy, protocol: Protocol, pinned: int) -> None:
    assert decision.reason not in (Reason.INTERNAL_FAILURE, Reason.INVARIANT_VIOLATED), decision.detail
    if decision.reason is Reason.UNREADABLE_REQUEST:
        with pytest.raises(RequestError):
            read_request(body, protocol=protocol)
        assert decision.request is body
        return
    original = read_request(body, protocol=protocol)
    if not decision.pruned:
        assert decision.request is body
        assert decision.reason is not None
        return
    sent = read_request(decision.request, protocol=protocol)
    kinds, kinds_before = (Counter(found.kind for found in violations(request)) for request in (sent, original))
    assert kinds <= kinds_before, "zero invalid"
    tokenizer = policy.frozen.representation.tokenizer
    tokens, tokens_before = len(render(sent, tokenizer)), len(render(original, tokenizer))
    assert tokens < tokens_before, "zero longer"
    assert tokens_before - tokens <= policy.numbers.removal_cap * tokens_before, "zero over the cap"
    assert (decision.tokens_before, decision.tokens_after) == (tokens_before, tokens)
    history = read_history(original, protector(pinned))
    recent = history.recent[0].message
    assert wires(sent)[-len(wires(original)[recent:]) :] == wires(original)[recent:], "zero touching Recent2"
    assert spoken(sent) == spoken(original), "zero touching users' and system messages"
    kept = Counter(part for message in sent.messages for part in contents(message))
    for block in (block for step in history.steps for block in step.blocks if block.pinned):
        assert not said(original, block) - kept, "zero touching pinned Blocks"
    assert wires(sent)[: history.prefix_length] == wires(original)[: history.prefix_length]


def wires(request: Request) -> list[Any]:
    return [message.wire for message in request.messages]


def spoken(request: Request) -> list[str]:
    """What users and the system say, in order; tool results in a user's message are not theirs, and an empty text
    beside them says nothing."""
    return [
        part
        for message in request.messages
        if message.role in ("user", "system")
        for part in contents(message, without_results=True)
    ]


def contents(message: Message, *, without_results: bool = False) -> list[str]:
    """What stands in a message, without where it stands."""
    parts = message.parts
    if without_results:
        parts = tuple(part for part in parts if not isinstance(part, Result) and says_something(part))
    return [
        json.dumps({name: getattr(part, name) for name in part.__slots__ if name != "place"}, default=str)
        for part in parts
    ]


def said(request: Request, block: Block) -> Counter[str]:
    return Counter(contents(request.messages[ref.message])[ref.part] for ref in block.parts)
