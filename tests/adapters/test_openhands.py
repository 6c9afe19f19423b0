"""The condenser in real conversations of OpenHands' SDK with its own model for tests: what the model is shown, and what
is stored. The package needs Python 3.12: `make frameworks` installs it in an environment of its own and runs this.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings

os.environ.update(OPENHANDS_SUPPRESS_BANNER="1", LOG_AUTO_CONFIG="false")  # or importing it sets up the root logger
pytest.importorskip("openhands.sdk", reason="openhands-sdk is not installed; it needs Python 3.12: make frameworks")

from openhands.sdk import Agent, Conversation
from openhands.sdk.context.condenser.base import CondenserBase
from openhands.sdk.context.condenser.pipeline_condenser import PipelineCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, LLMConvertibleEvent, MessageEvent, ObservationEvent
from openhands.sdk.llm import (
    ImageContent,
    Message,
    MessageToolCall,
    ReasoningItemModel,
    TextContent,
    ThinkingBlock,
)
from openhands.sdk.mcp.definition import MCPToolAction, MCPToolObservation
from openhands.sdk.testing import TestLLM as ScriptedLLM
from pydantic import PrivateAttr

from drsr.adapters import bypass
from drsr.adapters.forms import Removed
from drsr.adapters.openhands import HistoryForm, PruneHistory
from drsr.decide.decision import Reason
from drsr.errors import SettingsError
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from tests.adapters.carried import check_carried, spelled
from tests.adapters.long_run import RUN, check_sent
from tests.conversations import Conversation as Run
from tests.conversations import conversations

pytestmark = pytest.mark.filterwarnings("default")  # the package's own: nothing is pinned in its environment

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "adapters.md"


class ShownLLM(ScriptedLLM):  # type: ignore[misc]
    """Keeps what it is shown."""

    _shown: list[list[Message]] = PrivateAttr(default_factory=list)

    def completion(self, messages: list[Message], *rest: Any, **named: Any) -> Any:
        self._shown.append(messages)
        return super().completion(messages, *rest, **named)


def said(text: str, role: str = "assistant") -> Message:
    return Message(role=role, content=[TextContent(text=text)] if text else [])


def thinks(call_id: str) -> Message:
    """A call of a tool that every agent of the SDK has."""
    arguments = json.dumps({"thought": "hm"})
    call = MessageToolCall(id=call_id, name="think", arguments=arguments, origin="completion")
    return Message(role="assistant", content=[], tool_calls=[call])


def events_of(run: Run, **thinking: Any) -> list[LLMConvertibleEvent]:
    """The run behind its system prompt as a conversation holds it; `thinking` is what every answer brings besides."""
    found: list[LLMConvertibleEvent] = [MessageEvent(id="task", source="user", llm_message=said(run.task, "user"))]
    for number, turn in enumerate(run.turns):
        reasoning = {"reasoning_content": turn.reasoning or None, **thinking}
        if not turn.exchanges:
            message = said(turn.text).model_copy(update=reasoning)
            found.append(MessageEvent(id=f"said {number}", source="agent", llm_message=message))
        for place, (call_id, name, arguments, _) in enumerate(turn.exchanges):
            call = MessageToolCall(id=call_id, name=name, arguments=json.dumps(arguments), origin="completion")
            found.append(
                ActionEvent(
                    id=f"action {number} {place}",
                    thought=[TextContent(text=turn.text)] if turn.text and place == 0 else [],
                    action=MCPToolAction(data=arguments),
                    tool_name=name,
                    tool_call_id=call_id,
                    tool_call=call,
                    llm_response_id=f"answer {number}",
                    **(reasoning if place == 0 else {}),
                )
            )
        for place, (call_id, name, _, answer) in enumerate(turn.exchanges):
            observed = MCPToolObservation(content=[TextContent(text=answer)], tool_name=name)
            action = {"tool_name": name, "tool_call_id": call_id, "action_id": f"action {number} {place}"}
            found.append(ObservationEvent(id=f"result {number} {place}", observation=observed, **action))
        if turn.user:
            found.append(MessageEvent(id=f"user {number}", source="user", llm_message=said(turn.user, "user")))
    return found


def told(events: list[LLMConvertibleEvent]) -> list[Any]:
    messages: list[Any] = HistoryForm(View(events=events)).request["messages"]
    return messages


def sent(messages: list[Message]) -> list[dict[str, Any]]:
    """What the SDK makes of its messages for OpenAI's chat."""
    flags = {"cache_enabled": False, "vision_enabled": True, "function_calling_enabled": True}
    more = {"force_string_serializer": True, "send_reasoning_content": False}
    return [message.to_chat_dict(**flags, **more) for message in messages]


def talk(condenser: CondenserBase, llm: ShownLLM, folder: Path, **more: Any) -> Any:
    """A conversation that has had the recorded run already."""
    agent = Agent(llm=llm, tools=[], condenser=condenser)
    conversation = Conversation(agent=agent, workspace=str(folder), visualizer=None, **more)
    conversation._ensure_agent_ready()
    for one in events_of(RUN):
        conversation._on_event(one)
    return conversation


def go_on(conversation: Any) -> None:
    conversation.send_message("Go on.")
    conversation.run()


def test_the_model_sees_a_pruned_view_and_the_conversation_keeps_everything(tmp_path: Path) -> None:
    decisions: list[Decision] = []
    llm = ShownLLM.from_messages([thinks("new"), said("done")])
    conversation = talk(PruneHistory(scripted_policy(), on_decision=decisions.append), llm, tmp_path)
    before = [one.model_dump() for one in conversation.state.events]
    go_on(conversation)
    stored = [one.model_dump() for one in conversation.state.events]
    assert stored[: len(before)] == before
    first, second = llm._shown
    whole = LLMConvertibleEvent.events_to_messages(conversation.state.view.events[:-3])
    check_sent(sent(whole), sent(first))
    left_out = {one.tool_call_id for one in whole} - {one.tool_call_id for one in first}
    assert left_out
    assert not left_out & {one.tool_call_id for one in second}  # a session: what was removed stays removed
    assert [decision.pruned for decision in decisions] == [True, True]
    assert decisions[0].tokens_saved > 0
    kinds = [type(one).__name__ for one in conversation.state.events]
    assert "Condensation" not in kinds


def test_async_bypass_and_shadow(tmp_path: Path) -> None:
    decisions: list[Decision] = []
    condenser = PruneHistory(scripted_policy(), on_decision=decisions.append)
    watching = PruneHistory(scripted_policy(), on_decision=decisions.append, shadow=True)
    view = View(events=events_of(RUN))
    assert len(asyncio.run(condenser.acondense(view)).events) < len(view.events)
    with bypass():
        assert condenser.condense(view) is view
    assert watching.condense(view) is view
    assert [decision.pruned for decision in decisions] == [True, True]


def test_beside_another_condenser_and_after_a_fork(tmp_path: Path) -> None:
    """A fork's agent is written down and read again."""
    llm = ShownLLM.from_messages([said("one")])
    both = PipelineCondenser(condensers=[PruneHistory(scripted_policy())])
    conversation = talk(both, llm, tmp_path)
    go_on(conversation)
    fork = conversation.fork()
    view = View(events=events_of(RUN))
    assert len(llm._shown[0]) < len(LLMConvertibleEvent.events_to_messages(fork.state.view.events))
    assert len(fork.agent.condenser.condense(view).events) < len(view.events)


def test_read_back_elsewhere_it_prunes_nothing_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    condenser = PruneHistory(scripted_policy())
    written = condenser.model_dump_json()
    assert set(json.loads(written)) == {"kind", "name"}
    del condenser
    view = View(events=events_of(RUN))
    with caplog.at_level(logging.WARNING, "drsr"):
        assert CondenserBase.model_validate_json(written).condense(view) is view
    assert "nothing is pruned: the condenser was read from a file" in caplog.text


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (section,) = re.findall(r"\n## OpenHands\n.*?```py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"policy": scripted_policy(), "openhands_tools": []}
    exec(section, given)  # noqa: S102 - our own text, and the point of it
    assert isinstance(given["conversation"].agent.condenser, PruneHistory)


def test_mistakes_are_said_at_once() -> None:
    with pytest.raises(SettingsError, match="use the proxy with --recall"):
        PruneHistory(scripted_policy(), recall=True)
    with pytest.raises(TypeError, match=r"drsr\.load_policy"):
        PruneHistory()


@pytest.mark.parametrize("loops", [False, True])
def test_signed_thinking_stays_where_later_actions_of_its_turn_need_it(loops: bool) -> None:
    """With thinking before every call each goes with its own; with one for all of a turn the first call stays."""
    signed = {"thinking_blocks": [ThinkingBlock(thinking="hm", signature="s")], "reasoning_content": "hm"}
    events = events_of(RUN._replace(turns=tuple(turn._replace(text="") for turn in RUN.turns)), **signed)
    if loops:
        events = [
            one.model_copy(update={"thinking_blocks": [], "reasoning_content": None})
            if isinstance(one, ActionEvent) and not one.id.startswith("action 0 ")
            else one
            for one in events
        ]
    view = View(events=events)
    decision = check_carried(view, HistoryForm)
    assert decision.pruned
    left = PruneHistory(scripted_policy(removal_cap=0.9)).condense(view)
    actions = [one for one in left.events if isinstance(one, ActionEvent)]
    assert bool(actions[0].thinking_blocks)
    assert ((1, 1) in HistoryForm(view).pinned) is loops
    if not loops:
        firsts = {one.llm_response_id: one for one in reversed(actions)}
        assert all(one.thinking_blocks for one in firsts.values())


def test_reasoning_items_go_with_their_calls() -> None:
    item = ReasoningItemModel(id="rs_1", encrypted_content="x")
    decision = check_carried(View(events=events_of(RUN, responses_reasoning_item=item)), HistoryForm)
    assert decision.pruned


def test_what_the_first_action_carries_for_all_goes_to_the_next() -> None:
    """The first of two calls goes, or both, and what was said before them stays."""
    twice = RUN.turns[0]._replace(text="I look.", exchanges=(RUN.turns[0].exchanges[0], RUN.turns[1].exchanges[0]))
    view = View(events=events_of(RUN._replace(turns=(twice, *RUN.turns[2:]))))
    first = view.events[1]
    assert isinstance(first, ActionEvent)
    one_call = {1: frozenset({("tool_calls", 0)})}
    left = HistoryForm(view).without(Removed(frozenset({2}), one_call, {}))
    assert len(left.events) == len(view.events) - 2
    second = left.events[1]
    assert isinstance(second, ActionEvent)
    assert second.id == "action 0 1"
    assert [part.text for part in second.thought] == ["I look."]
    assert [part.text for part in first.thought] == ["I look."]
    both = {1: frozenset({("tool_calls", 0), ("tool_calls", 1)})}
    said_alone = HistoryForm(view).without(Removed(frozenset({2, 3}), both, {})).events[1]
    assert isinstance(said_alone, MessageEvent)
    assert said_alone.to_llm_message().content == first.thought


def test_images_stay() -> None:
    events = events_of(RUN)
    result = events[2]
    assert isinstance(result, ObservationEvent)
    picture = [*result.observation.content, ImageContent(image_urls=["data:image/png;base64,AA=="])]
    events[2] = result.model_copy(update={"observation": MCPToolObservation(content=picture, tool_name="read_file")})
    decision = check_carried(View(events=events), HistoryForm)
    assert decision.pruned
    assert result.tool_call_id in [message.get("tool_call_id") for message in decision.messages]


def test_no_failure_of_ours_reaches_the_agent(tmp_path: Path) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError

    decisions: list[Decision] = []
    llm = ShownLLM.from_messages([said("done")])
    conversation = talk(PruneHistory(scripted_policy(), protect=fails, on_decision=decisions.append), llm, tmp_path)
    go_on(conversation)
    assert len(llm._shown[0]) > len(events_of(RUN)) - 2
    assert decisions[0].reason is Reason.INTERNAL_FAILURE


@settings(max_examples=50)
@given(conversations(min_turns=6, max_turns=10))
def test_any_run_is_carried_over_exactly(run: Run) -> None:
    if any(not (turn.text or turn.exchanges) for turn in run.turns):
        return  # an answer with nothing but reasoning is no event of the SDK's
    view = View(events=events_of(run))
    before = copy.deepcopy(view)
    expected = run.to_openai()["messages"][1 if run.system else 0 :]
    assert [spelled(message) for message in told(view.events)] == [spelled(message) for message in expected]
    decision = check_carried(view, HistoryForm)
    assert view == before
    event(f"pruned: {decision.pruned}, reason: {decision.reason}")
