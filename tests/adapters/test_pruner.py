"""What all adapters do: whatever comes in and whatever goes wrong, the agent goes on."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.adapters import Pruner, Sessions, bypass
from drsr.adapters.forms import Form, Removed
from drsr.adapters.items_form import ItemsForm
from drsr.adapters.wire_form import Body, WireForm, anthropic_body, as_json, materialised, openai_body
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.receipts.receipt_file import ReceiptFile, read_receipts
from drsr.request.protocol import violations
from drsr.request.request import Protocol, read_request
from drsr.sessions.prices import Prices
from tests.adapters.items import run_items
from tests.adapters.long_run import RUN
from tests.conversations import conversations
from tests.strategies import corrupted, corrupted_requests

BODY: Body = RUN.to_openai()
POLICY = scripted_policy(removal_cap=0.9)


def check_body(body: Any, protocol: Protocol) -> None:
    """It is sent as it is, or without something and valid."""
    before = copy.deepcopy(body)
    seen = Pruner(POLICY).view(body, anthropic_body if protocol == "anthropic" else openai_body)
    assert body == before
    if seen is not body:
        assert violations(read_request(dict(seen), protocol=protocol)) == []


@given(corrupted_requests("openai"))
def test_corrupted_openai_bodies_do_no_harm(body: Any) -> None:
    check_body(body, "openai")


@given(corrupted_requests("anthropic"))
def test_corrupted_anthropic_bodies_do_no_harm(body: Any) -> None:
    check_body(body, "anthropic")


@given(corrupted(st.builds(run_items, conversations(min_turns=6, max_turns=8), reasoning=st.booleans())))
def test_corrupted_items_do_no_harm(items: Any) -> None:
    before = copy.deepcopy(items)
    seen = Pruner(POLICY).view(items, lambda given: ItemsForm(None, [], given))
    assert items == before
    assert seen is items or [item for item in items if any(item is kept for kept in seen)] == seen


class _Lies(WireForm):
    """Removes something else than was decided."""

    def without(self, removed: Removed) -> Body:
        return {**self.body, "messages": self.body["messages"][:-1]}


def test_what_was_not_carried_over_exactly_is_thrown_away(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    decisions: list[Decision] = []
    policy = scripted_policy(receipts=ReceiptFile(tmp_path / "receipts.jsonl"))
    pruner = Pruner(policy, on_decision=decisions.append)
    assert pruner.view(BODY, lambda body: _Lies(body, "openai")) is BODY
    assert [decision.reason for decision in decisions] == [Reason.INTERNAL_FAILURE]
    assert "NotCarriedOver" in decisions[0].detail
    assert "NotCarriedOver" in caplog.text
    # Both are on record: what the policy decided, and that it did not come to it.
    assert [record["reason"] for record in read_receipts(tmp_path / "receipts.jsonl")] == [None, "internal_failure"]


def test_the_event_loop_goes_on_while_a_decision_is_made() -> None:
    decided_in: list[int] = []
    free = threading.Event()

    def waits(body: Body) -> Form[Body]:
        decided_in.append(threading.get_ident())
        assert free.wait(60)
        return openai_body(body)

    async def both() -> Body:
        task = asyncio.create_task(Pruner(POLICY).view_in_thread(BODY, waits))
        while not decided_in:
            await asyncio.sleep(0.001)
        free.set()  # the loop is still there to do it
        return await task

    seen = asyncio.run(both())
    assert len(seen["messages"]) < len(BODY["messages"])
    assert threading.get_ident() not in decided_in


def test_without_a_thread_to_decide_in_everything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_threads(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    decisions: list[Decision] = []
    monkeypatch.setattr("anyio.to_thread.run_sync", no_threads)
    pruner = Pruner(POLICY, on_decision=decisions.append)
    assert asyncio.run(pruner.view_in_thread(BODY, openai_body)) is BODY
    assert [decision.reason for decision in decisions] == [Reason.INTERNAL_FAILURE]


def test_a_cancelled_call_stays_cancelled() -> None:
    begun, free = threading.Event(), threading.Event()

    def waits(body: Body) -> Form[Body]:
        begun.set()
        assert free.wait(60)
        return openai_body(body)

    async def cancelled() -> None:
        task = asyncio.create_task(Pruner(POLICY).view_in_thread(BODY, waits))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        try:
            with pytest.raises(asyncio.CancelledError):
                await task  # at once: nobody waits for the decision any more
        finally:
            free.set()

    asyncio.run(cancelled())


def test_bypass_ends_with_its_block_also_after_an_error() -> None:
    pruner = Pruner(POLICY)
    with bypass():
        assert pruner.view(BODY, openai_body) is BODY
    with pytest.raises(KeyError), bypass():
        BODY["nothing"]
    assert pruner.view(BODY, openai_body) is not BODY


def test_bodies_keep_the_callers_objects_where_nothing_changed() -> None:
    seen = Pruner(POLICY).view(BODY, openai_body)
    given = {id(message) for message in BODY["messages"]}
    assert len([message for message in seen["messages"] if id(message) in given]) > len(seen["messages"]) - 4


def test_iterators_are_read_once() -> None:
    body = materialised({"messages": iter(BODY["messages"]), "tools": (tool for tool in [1]), "model": "m"})
    assert body == {"messages": BODY["messages"], "tools": [1], "model": "m"}
    assert materialised(BODY) is BODY
    assert as_json({"a": ({"b": [1]},)}) == {"a": [{"b": [1]}]}


def test_a_call_waits_no_longer_than_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, told = scripted_policy(), list[Decision]()
    may_read, plain = threading.Event(), policy.frozen.representation.features

    def features(state: Any, give_up: Any = None) -> Any:
        assert may_read.wait(60)
        return plain(state)

    monkeypatch.setattr(policy.frozen.representation, "features", features)
    prices = Prices(3, 3, 3, 15)
    for asked in (policy, Sessions(policy, prices=prices, expected_calls=9)):
        pruner = Pruner(asked, on_decision=told.append, deadline_ms=10)
        body = BODY
        assert pruner.view(body, openai_body) is body
        assert told[-1].reason is Reason.DEADLINE_EXCEEDED
    may_read.set()
    assert policy.reader.wait(60)
    assert len(pruner.view(body, openai_body)["messages"]) < len(body["messages"])
    with pytest.raises(ValueError, match="deadline_ms"):
        Pruner(policy, deadline_ms=-1)
