"""The middleware in real LangChain agents with a scripted chat model: what the model is shown, and what is stored."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import event, given, settings
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ChatMessage, ToolMessage
from langchain_core.messages import convert_to_openai_messages as to_openai
from langgraph.checkpoint.memory import InMemorySaver

from drsr.adapters import bypass
from drsr.adapters.langchain import MessagesForm, PruneHistory
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.sessions.prices import Prices
from tests.adapters.carried import check_carried, spelled
from tests.adapters.langchain_run import HISTORY, langchain_messages, read_file, says
from tests.adapters.long_run import RUN, check_sent
from tests.conversations import Conversation, conversations


def agent_of(model: Any, *middleware: Any, **more: Any) -> Any:
    return create_agent(model, [read_file], system_prompt=RUN.system, middleware=middleware, **more)


def without_ids(messages: Sequence[BaseMessage]) -> list[Any]:
    """The graph gives an id to every message that has none."""
    return [message.model_copy(update={"id": None}) for message in messages]


@pytest.mark.parametrize("blocks", [False, True])
def test_the_model_sees_a_pruned_view_and_the_state_keeps_everything(blocks: bool) -> None:
    history, decisions = langchain_messages(RUN, blocks=blocks), list[Decision]()
    before = copy.deepcopy(history)
    model = says("done")
    agent = agent_of(model, PruneHistory(scripted_policy(), on_decision=decisions.append), checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "one"}}
    state = agent.invoke({"messages": history}, thread)
    assert history == before or without_ids(history) == without_ids(before)
    assert without_ids(state["messages"]) == [*without_ids(before), AIMessage("done")]
    assert without_ids(agent.get_state(thread).values["messages"]) == without_ids(state["messages"])

    (shown,) = model.shown
    check_sent(to_openai([shown[0], *before]), to_openai(shown))
    (decision,) = decisions
    expected = scripted_policy().prune(MessagesForm(_request(history), history).request["messages"], tools=_tools())
    assert decision.messages == expected.messages
    assert len(shown) == len(decision.messages)
    if blocks:  # the provider's own form lost its part of the exchange too
        written: list[Any] = [block for m in shown if isinstance(m.content, list) for block in m.content]
        repeated = [block["id"] for block in written if block["type"] == "tool_use"]
        assert repeated == [one["id"] for m in shown if isinstance(m, AIMessage) for one in m.tool_calls]


def _request(messages: list[AnyMessage]) -> ModelRequest[Any]:
    return ModelRequest(model=says(), messages=messages, system_prompt=RUN.system, tools=[read_file])


def _tools() -> list[Any]:
    tools: list[Any] = MessagesForm(_request([]), []).request["tools"]
    assert tools[0]["function"]["name"] == "read_file"
    return tools


def test_an_agent_that_works_on_with_tools() -> None:
    """The pruned view does not confuse the graph: it calls a tool, gets the result, and answers."""
    asks = AIMessage("", tool_calls=[{"type": "tool_call", "id": "new", "name": "read_file", "args": {"path": "a"}}])
    model = says(asks, "done")
    state = agent_of(model, PruneHistory(scripted_policy())).invoke({"messages": HISTORY})
    assert [message.type for message in state["messages"][-3:]] == ["ai", "tool", "ai"]
    assert state["messages"][-2].content == "contents of a"
    assert len(state["messages"]) == len(HISTORY) + 3
    for shown in model.shown:
        assert len(shown) < len(HISTORY) + 3


def test_async_streaming_bypass_and_shadow() -> None:
    decisions: list[Decision] = []
    model = says("one", "two three", "four", "five")
    agent = agent_of(model, PruneHistory(scripted_policy(), on_decision=decisions.append))
    shadow = agent_of(model, PruneHistory(scripted_policy(), shadow=True, on_decision=decisions.append))

    async def calls() -> None:
        state = await agent.ainvoke({"messages": HISTORY})
        assert state["messages"][-1].content == "one"
        chunks = [chunk async for chunk, _ in agent.astream({"messages": HISTORY}, stream_mode="messages")]
        assert "".join(str(chunk.content) for chunk in chunks if chunk.type == "AIMessageChunk") == "two three"
        with bypass():
            await agent.ainvoke({"messages": HISTORY})
        await shadow.ainvoke({"messages": HISTORY})

    asyncio.run(calls())
    whole = len(HISTORY) + 1
    assert [len(shown) < whole for shown in model.shown] == [True, True, False, False]
    assert [decision.pruned for decision in decisions] == [True, True, True]


def test_sync_bypass_reaches_the_graphs_threads() -> None:
    model = says("one")
    with bypass():
        agent_of(model, PruneHistory(scripted_policy())).invoke({"messages": HISTORY})
    assert len(model.shown[0]) == len(HISTORY) + 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (ChatMessage(content="hm", role="wizard"), Reason.UNREADABLE_REQUEST),
        (ToolMessage("r", tool_call_id="nobody"), Reason.INVALID_PROTOCOL),
        (AIMessage(""), Reason.INVALID_PROTOCOL),
    ],
)
def test_what_cannot_be_told_is_shown_as_it_is_with_the_reason(message: AnyMessage, reason: Reason) -> None:
    decisions: list[Decision] = []
    model = says("done")
    agent = agent_of(model, PruneHistory(scripted_policy(), on_decision=decisions.append))
    state = agent.invoke({"messages": [*HISTORY, message]})
    assert without_ids(model.shown[0][1:]) == without_ids([*HISTORY, message])
    assert len(state["messages"]) == len(HISTORY) + 2
    assert [decision.reason for decision in decisions] == [reason]


def test_a_tool_that_cannot_be_described_passes_everything_through(caplog: pytest.LogCaptureFixture) -> None:
    decisions: list[Decision] = []
    form = PruneHistory(scripted_policy(), on_decision=decisions.append)
    request: ModelRequest[Any] = ModelRequest(model=says(), messages=HISTORY, tools=[{"secret": 1}])
    assert form.wrap_model_call(request, cast(Any, lambda given: given)) is request  # type: ignore[comparison-overlap]
    assert decisions[0].reason is Reason.INTERNAL_FAILURE
    assert "secret" not in caplog.text


def test_reasoning_that_is_sealed_goes_with_its_call_or_stays_with_the_text() -> None:
    """Signed thinking before one call goes with it; before text and a call it stays with the text."""

    def thinks(message: AnyMessage, *, text: bool) -> AnyMessage:
        if not isinstance(message, AIMessage):
            return message
        one = message.tool_calls[0]
        use = {"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]}
        thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
        said = [{"type": "text", "text": "I look."}] if text else []
        return AIMessage([thought, *said, use], tool_calls=[one])

    history = [message for message in HISTORY if getattr(message, "tool_call_id", "") != "call_06_1"]
    decisions: list[Decision] = []
    model = says("one", "two")
    agent = agent_of(model, PruneHistory(scripted_policy(), on_decision=decisions.append))
    agent.invoke({"messages": [thinks(message, text=False) for message in history]})
    for message in model.shown[0]:
        if isinstance(message, AIMessage):
            assert [block["type"] for block in message.content if isinstance(block, dict)] == ["thinking", "tool_use"]
    assert decisions[0].pruned
    assert len(model.shown[0]) < len(history) + 1
    agent.invoke({"messages": [thinks(message, text=True) for message in history]})
    assert decisions[1].pruned
    said = [message.content for message in model.shown[1] if isinstance(message, AIMessage)]
    kinds = [[block["type"] for block in content if isinstance(block, dict)] for content in said]
    assert len(kinds) == len([message for message in history if isinstance(message, AIMessage)])
    assert ["thinking", "text"] in kinds
    assert all(found in (["thinking", "text"], ["thinking", "text", "tool_use"]) for found in kinds)


def test_a_session_in_the_place_of_the_policy() -> None:
    session = scripted_policy().session(Prices(3, 0.3, 3.75, 15), expected_calls=200)
    model = says("one", "two")
    agent = agent_of(model, PruneHistory(session))
    for _ in range(2):
        agent.invoke({"messages": HISTORY})
    assert session.calls == 2
    assert without_ids(model.shown[0]) == without_ids(model.shown[1])


@settings(max_examples=50)
@given(conversations(min_turns=6, max_turns=10))
def test_any_run_is_carried_over_exactly(run: Conversation) -> None:
    history = langchain_messages(run)
    request = _request(history)
    told = run.to_openai()["messages"][1 if run.system else 0 :]
    form = MessagesForm(request, history)
    assert [spelled(message) for message in form.request["messages"][1:]] == [spelled(message) for message in told]
    decision = check_carried(history, partial(MessagesForm, request))
    event(f"pruned: {decision.pruned}, reason: {decision.reason}")
    check_carried(langchain_messages(run, blocks=True), partial(MessagesForm, request))
