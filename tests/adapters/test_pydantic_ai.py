"""The capability in real Pydantic AI agents with a function for a model: what it is shown, and what is stored."""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import Any

import pytest
from hypothesis import event, given, settings
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel

from drsr.adapters import bypass
from drsr.adapters.pydantic_ai import HistoryForm, PruneHistory
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.sessions.prices import Prices
from tests.adapters.carried import check_carried, spelled
from tests.adapters.long_run import RUN, check_sent
from tests.adapters.pydantic_run import HISTORY, Shown, pydantic_history
from tests.conversations import Conversation, conversations

PARAMETERS = ModelRequestParameters()


def told(history: list[ModelMessage]) -> list[Any]:
    messages: list[Any] = HistoryForm(PARAMETERS, history).request["messages"]
    return messages


def said(messages: list[Any]) -> list[str]:
    """Everything that was said and called, in order: the framework joins neighbouring answers before it sends them."""
    found: list[str] = []
    for message in messages:
        content = message["content"]
        found += [content] if isinstance(content, str) else [part["text"] for part in content or []]
        found += [one["id"] for one in message.get("tool_calls", [])]
    return found


def agent_of(shown: Shown, *capabilities: Any) -> Agent[None, str]:
    agent = Agent(shown.model, instructions=RUN.system, capabilities=capabilities)

    @agent.tool_plain
    def read_file(path: str) -> str:
        """Read a file."""
        return f"contents of {path}"

    return agent


def test_the_model_sees_a_pruned_view_and_the_history_keeps_everything() -> None:
    shown, decisions = Shown(), list[Decision]()
    before = copy.deepcopy(HISTORY)
    agent = agent_of(shown, PruneHistory(scripted_policy(), on_decision=decisions.append))
    result = agent.run_sync("And now?", message_history=HISTORY)
    assert result.output == "done"
    assert before == HISTORY
    assert result.all_messages()[: len(HISTORY)] == before
    assert len(result.all_messages()) == len(HISTORY) + 2

    (history,) = shown.histories
    whole = told(result.all_messages()[:-1])
    check_sent(whole, told(history))
    (decision,) = decisions
    assert decision.messages[0] == {"role": "system", "content": RUN.system}
    assert said(told(history)) == said(decision.messages[1:])
    assert decision.outcome is not None
    assert [tool["function"]["name"] for tool in decision.outcome.evidence.base.tools] == ["read_file"]


def test_an_agent_that_works_on_with_tools() -> None:
    shown = Shown(ModelResponse([ToolCallPart("read_file", {"path": "a"}, "new")]))
    result = agent_of(shown, PruneHistory(scripted_policy())).run_sync("Go on.", message_history=HISTORY)
    assert result.output == "done"
    last = result.all_messages()[-2].parts[0]
    assert isinstance(last, ToolReturnPart)
    assert last.content == "contents of a"
    assert len(result.all_messages()) == len(HISTORY) + 4
    for history, stored in zip(shown.histories, (1, 3), strict=True):
        check_sent(told(result.all_messages()[: len(HISTORY) + stored]), told(history))


def test_async_streaming_bypass_and_shadow() -> None:
    shown, decisions = Shown(), list[Decision]()
    agent = agent_of(shown, PruneHistory(scripted_policy(), on_decision=decisions.append))
    shadow = agent_of(shown, PruneHistory(scripted_policy(), on_decision=decisions.append, shadow=True))

    async def calls() -> None:
        assert (await agent.run("Go on.", message_history=HISTORY)).output == "done"
        async with agent.run_stream("Go on.", message_history=HISTORY) as stream:
            assert "".join([piece async for piece in stream.stream_text(delta=True)]) == "done"
        with bypass():
            await agent.run("Go on.", message_history=HISTORY)
        await shadow.run("Go on.", message_history=HISTORY)

    asyncio.run(calls())
    whole = len(told(HISTORY)) + 1
    assert [len(told(history)) < whole for history in shown.histories] == [True, True, False, False]
    assert [decision.pruned for decision in decisions] == [True, True, True]


def test_the_frameworks_own_test_model() -> None:
    decisions: list[Decision] = []
    agent = Agent(TestModel(), capabilities=[PruneHistory(scripted_policy(), on_decision=decisions.append)])
    result = agent.run_sync("Go on.", message_history=HISTORY)
    assert result.all_messages()[: len(HISTORY)] == HISTORY
    assert [decision.pruned for decision in decisions] == [True]


def test_what_cannot_be_pruned_is_shown_as_it_is_with_the_reason() -> None:
    """A result that nobody asked for, and too short a history."""
    shown, decisions = Shown(), list[Decision]()
    agent = agent_of(shown, PruneHistory(scripted_policy(), on_decision=decisions.append))
    orphaned = [HISTORY[0], *HISTORY[2:]]
    parameters = ModelRequestParameters()
    capability = PruneHistory(scripted_policy(), on_decision=decisions.append)
    seen = capability.pruner.view(orphaned, partial(HistoryForm, parameters))
    assert seen is orphaned
    agent.run_sync("Hello.")
    assert [decision.reason for decision in decisions] == [Reason.INVALID_PROTOCOL, Reason.TOO_FEW_CANDIDATES]
    assert len(shown.histories[0]) == 1


def test_no_failure_of_ours_reaches_the_agent() -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError

    shown, decisions = Shown(), list[Decision]()
    agent = agent_of(shown, PruneHistory(scripted_policy(), protect=fails, on_decision=decisions.append))
    assert agent.run_sync("Go on.", message_history=HISTORY).output == "done"
    assert len(told(shown.histories[0])) == len(told(HISTORY)) + 1
    assert decisions[0].reason is Reason.INTERNAL_FAILURE


@pytest.mark.parametrize(
    ("thought", "said"),
    [
        (ThinkingPart("hm", signature="s"), False),
        (ThinkingPart("", id="rs_1", provider_name="openai"), False),
        (ThinkingPart("hm", signature="s"), True),
        (ThinkingPart("hm"), True),
    ],
)
def test_reasoning_that_is_sealed_goes_with_its_call_or_stays_with_the_text(thought: ThinkingPart, said: bool) -> None:
    turns = tuple(turn._replace(exchanges=turn.exchanges[:1], text="I look." if said else "") for turn in RUN.turns)
    history: list[ModelMessage] = [
        ModelResponse([thought, *message.parts]) if isinstance(message, ModelResponse) else message
        for message in pydantic_history(RUN._replace(turns=turns))
    ]
    decision = check_carried(history, partial(HistoryForm, PARAMETERS))
    assert decision.pruned
    seen = PruneHistory(scripted_policy()).pruner.view(history, partial(HistoryForm, PARAMETERS))
    sealed = thought.signature or thought.id
    for message in seen:
        if isinstance(message, ModelResponse) and sealed:
            assert isinstance(message.parts[0], ThinkingPart)
            assert isinstance(message.parts[1], TextPart if said else ToolCallPart)


def test_files_and_the_frameworks_own_parts_stay() -> None:
    image = BinaryContent(b"png", media_type="image/png")
    history = copy.deepcopy(HISTORY)
    history[0] = ModelRequest([UserPromptPart([RUN.task, image])])
    reply = history[4].parts[0]
    assert isinstance(reply, ToolReturnPart)
    history[4] = ModelRequest([ToolReturnPart(reply.tool_name, [reply.content, image], reply.tool_call_id)])
    messages = told(history)
    assert messages[0]["content"][1] == {"type": "binary"}
    decision = check_carried(history, partial(HistoryForm, PARAMETERS))
    assert decision.outcome is not None
    assert decision.pruned
    assert reply.tool_call_id in [message.get("tool_call_id") for message in decision.messages]


def test_a_session_in_the_place_of_the_policy() -> None:
    session = scripted_policy().session(Prices(3, 0.3, 3.75, 15), expected_calls=200)
    shown = Shown()
    agent = agent_of(shown)
    for _ in range(2):
        agent.run_sync("Go on.", message_history=HISTORY, capabilities=[PruneHistory(session)])
    assert session.calls == 2
    assert told(shown.histories[0]) == told(shown.histories[1])
    assert len(told(shown.histories[0])) < len(told(HISTORY)) + 1


@settings(max_examples=50)
@given(conversations(min_turns=6, max_turns=10))
def test_any_run_is_carried_over_exactly(run: Conversation) -> None:
    history = pydantic_history(run)
    expected = run.to_openai()["messages"][1 if run.system else 0 :]
    assert [spelled(message) for message in told(history)] == [spelled(message) for message in expected]
    decision = check_carried(history, partial(HistoryForm, PARAMETERS))
    event(f"pruned: {decision.pruned}, reason: {decision.reason}")
