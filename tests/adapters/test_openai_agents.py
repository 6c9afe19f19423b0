"""The input filter in real runs of the OpenAI Agents SDK with its scripted model: what it is sent, what is stored."""

from __future__ import annotations

import asyncio
import copy
from functools import partial
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import event, given, settings

from drsr.adapters import bypass
from drsr.adapters.chat_view import joined
from drsr.adapters.forms import Removed
from drsr.adapters.items_form import ItemsForm
from drsr.adapters.openai_agents import PruneInput
from drsr.adapters.pruner import Pruner
from drsr.decide.decision import Reason
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.request.history import read_history, removal
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.adapters.carried import POLICY, check_carried, spelled
from tests.adapters.items import check_items, run_items
from tests.adapters.long_run import RUN, check_sent
from tests.conversations import Conversation, conversations

ITEMS = run_items(RUN)
READ = partial(ItemsForm, RUN.system, [])


@function_tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"contents of {path}"


def agent_of(model: ScriptedModel) -> Agent[None]:
    return Agent("worker", instructions=RUN.system, model=model, tools=[read_file])


def config(*arguments: Any, **options: Any) -> RunConfig:
    return RunConfig(call_model_input_filter=PruneInput(*arguments, **options), tracing_disabled=True)


def says(count: int = 1) -> ScriptedModel:
    return ScriptedModel([[assistant_message("done")] for _ in range(count)])


def told(items: list[Any]) -> list[Any]:
    messages: list[Any] = READ(items).request["messages"]
    return messages


def test_the_model_sees_a_pruned_view_and_the_run_keeps_everything() -> None:
    model, decisions = says(), list[Decision]()
    before = copy.deepcopy(ITEMS)
    result = Runner.run_sync(agent_of(model), ITEMS, run_config=config(scripted_policy(), on_decision=decisions.append))
    assert result.final_output == "done"
    assert before == ITEMS
    assert result.to_input_list()[: len(ITEMS)] == before
    assert model.last_call is not None
    sent = model.last_call.input
    check_items(sent, ITEMS)
    check_sent(told(ITEMS), told(sent))
    (decision,) = decisions
    assert joined(told(sent)) == joined(decision.messages)
    assert decision.messages[0] == {"role": "system", "content": RUN.system}
    assert model.last_call.system_instructions == RUN.system
    assert decision.outcome is not None
    assert [tool["function"]["name"] for tool in decision.outcome.evidence.base.tools] == ["read_file"]


def test_a_stored_session_keeps_everything_while_the_agent_works_on() -> None:
    model = ScriptedModel([[function_call("read_file", {"path": "a"}, call_id="new")], [assistant_message("done")]])

    async def run() -> list[Any]:
        stored = SQLiteSession("one")
        await stored.add_items(copy.deepcopy(ITEMS))
        await Runner.run(agent_of(model), "Go on.", session=stored, run_config=config(scripted_policy()))
        items: list[Any] = await stored.get_items()
        stored.close()
        return items

    stored = asyncio.run(run())
    assert stored[: len(ITEMS)] == ITEMS
    kinds = [item.get("type", "message") for item in stored[len(ITEMS) :]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert stored[-2]["output"] == "contents of a"
    assert len(model.calls) == 2
    for call, new in zip(model.calls, (1, 3), strict=True):
        check_items(call.input, call.input)
        check_sent(told(stored[: len(ITEMS) + new]), told(call.input))


def test_streaming_bypass_and_shadow() -> None:
    model, decisions = says(3), list[Decision]()
    pruned = config(scripted_policy(), on_decision=decisions.append)

    async def runs() -> None:
        streamed = Runner.run_streamed(agent_of(model), ITEMS, run_config=pruned)
        kinds = [event.type async for event in streamed.stream_events()]
        assert "raw_response_event" in kinds
        assert streamed.final_output == "done"
        with bypass():
            await Runner.run(agent_of(model), ITEMS, run_config=pruned)
        shadow = config(scripted_policy(), on_decision=decisions.append, shadow=True)
        await Runner.run(agent_of(model), ITEMS, run_config=shadow)

    asyncio.run(runs())
    assert [len(call.input) < len(ITEMS) for call in model.calls] == [True, False, False]
    assert [decision.pruned for decision in decisions] == [True, True]


@pytest.mark.parametrize("said", [False, True])
def test_a_reasoning_item_and_its_call_belong_together(said: bool) -> None:
    """A reasoning item goes with its only call, and stays with the message or the first of several calls."""
    turns = tuple(turn._replace(text="I look." if said else "") for turn in RUN.turns)
    items = run_items(RUN._replace(turns=turns), reasoning=True)
    assert check_carried(items, READ).pruned
    seen = PruneInput(scripted_policy()).pruner.view(items, READ)
    check_items(seen, items)
    assert len(calls_in(seen)) < len(calls_in(items))
    kept = [item["id"] for item in seen if item.get("type") == "reasoning"]
    assert "rs_6" in kept  # the turn with two calls
    assert (len(kept) == len(RUN.turns)) is said


def test_with_reasoning_items_as_much_is_pruned_as_without() -> None:
    """Call by call of a run whose every turn thinks, speaks and calls."""
    turns = tuple(turn._replace(text="I look.", exchanges=turn.exchanges[:1]) for turn in RUN.turns)
    run, pruner = RUN._replace(turns=turns), PruneInput(scripted_policy(), sessions=False).pruner
    pruned = {
        reasoning: [
            len(calls_in(pruner.view(items, READ))) < len(calls_in(items))
            for items in (run_items(run._replace(turns=turns[:count]), reasoning=reasoning) for count in range(12))
        ]
        for reasoning in (False, True)
    }
    assert pruned[True] == pruned[False]
    assert any(pruned[True])


R: dict[str, Any] = {"type": "reasoning", "id": "rs_a", "summary": [], "encrypted_content": "x"}
S = {**R, "id": "rs_b"}
MESSAGE = {
    "type": "message",
    "id": "msg_a",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
}
CALLS = [{"type": "function_call", "call_id": name, "name": "read_file", "arguments": "{}"} for name in ("a", "b")]
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}


@pytest.mark.parametrize(
    ("turn", "pinned", "gone"),
    [
        ([R, CALLS[0]], set(), {"a": [R, CALLS[0]]}),
        ([R, MESSAGE, CALLS[0]], {0}, {"a": [CALLS[0]]}),
        ([R, CALLS[0], MESSAGE], {1}, {}),
        ([R, CALLS[0], CALLS[1]], {1}, {"b": [CALLS[1]]}),
        ([R, MESSAGE, S, CALLS[0]], set(), {"a": [S, CALLS[0]]}),
        ([R, S, CALLS[0]], set(), {"a": [R, S, CALLS[0]]}),
        ([MESSAGE, R, CALLS[0]], set(), {"a": [R, CALLS[0]]}),
        ([R, SEARCH, CALLS[0]], {0}, {"a": [CALLS[0]]}),
        ([R, CALLS[0], S, CALLS[1]], set(), {"a": [R, CALLS[0]], "b": [S, CALLS[1]]}),
    ],
)
def test_a_reasoning_item_goes_with_the_last_of_what_it_led_to(
    turn: list[Any], pinned: set[int], gone: dict[str, list[Any]]
) -> None:
    outputs = [
        {"type": "function_call_output", "call_id": one["call_id"], "output": f"found in {one['call_id']}"}
        for one in turn
        if one["type"] == "function_call"
    ]
    items = [ITEMS[0], *turn, *outputs, {"role": "user", "content": "And now?"}]
    form = READ(items)
    assert {component for _, component in form.pinned} == pinned
    history = read_history(read_request({"messages": form.request["messages"]}, protocol="openai"))
    ids = [one["call_id"] for one in turn if one["type"] == "function_call"]
    for call_id, removed in gone.items():
        block = next(block for block in history.steps[0].blocks if block.component == 1 + ids.index(call_id))
        away = removal(history, [block])
        places = {
            index: frozenset(history.request.messages[index].parts[part].place for part in parts)
            for index, parts in away.parts.items()
        }
        left = form.without(Removed(away.vanished, places, {}))
        check_items(left, items)
        output = next(one for one in outputs if one["call_id"] == call_id)
        assert [item for item in items if item not in left] == [*removed, output]


def calls_in(items: list[Any]) -> list[Any]:
    return [item for item in items if item.get("type") == "function_call"]


@pytest.mark.parametrize(
    ("item", "reason", "detail"),
    [
        ({"type": "item_reference", "id": "msg_9"}, Reason.UNREADABLE_REQUEST, "item 26 cannot be read"),
        ({"type": "compaction", "encrypted_content": "x"}, Reason.UNREADABLE_REQUEST, "item 26 cannot be read"),
        ({"type": "local_shell_call_output", "id": "l", "output": "x"}, Reason.UNREADABLE_REQUEST, "item 26"),
        (
            {"type": "function_call_output", "call_id": "nobody", "output": "r"},
            Reason.INVALID_PROTOCOL,
            "result_without_call at",
        ),
        ({"role": "wizard", "content": "?"}, Reason.UNREADABLE_REQUEST, "message 19 cannot be read"),
    ],
)
def test_what_cannot_be_told_is_sent_as_it_is_with_the_reason(item: Any, reason: Reason, detail: str) -> None:
    model, decisions = says(), list[Decision]()
    Runner.run_sync(agent_of(model), [*ITEMS, item], run_config=config(scripted_policy(), on_decision=decisions.append))
    assert model.last_call is not None
    assert model.last_call.input == [*ITEMS, item]
    assert [decision.reason for decision in decisions] == [reason]
    assert detail in decisions[0].detail


def test_hosted_calls_images_and_other_tools_are_told_and_stay() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}
    shell = {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}}
    output = {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "a", "outcome": {"type": "exit"}}]}
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "grep", "input": "a b"}
    answer = {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "found"}]}
    items = [ITEMS[0], search, image, shell, output, custom, answer, *ITEMS[1:]]
    messages = told(items)
    assert messages[2]["content"] == [{"type": "web_search_call"}]
    assert messages[3]["content"] == [{"type": "input_image"}]
    assert messages[4]["tool_calls"][0]["function"] == {
        "name": "shell_call",
        "arguments": '{"action": {"commands": ["ls"]}}',
    }
    assert messages[5]["content"] == [{"type": "None"}]
    assert messages[6]["tool_calls"][0]["function"] == {"name": "grep", "arguments": "a b"}
    assert messages[7]["content"] == "found"
    assert check_carried(items, READ).pruned
    seen = PruneInput(scripted_policy(removal_cap=0.9)).pruner.view(items, READ)
    for item in (search, image, shell, output):
        assert item in seen


def test_no_failure_of_ours_reaches_the_agent() -> None:
    class Broken:
        """No tool of the SDK: it has no name."""

    model, decisions = says(), list[Decision]()
    prune = PruneInput(scripted_policy(), on_decision=decisions.append)
    agent = agent_of(model)

    async def run() -> None:
        from agents.run import CallModelData, ModelInputData

        given = ModelInputData(input=ITEMS, instructions=None)
        agent.tools = [Broken()]  # type: ignore[list-item]
        assert await prune(CallModelData(given, agent, None)) is given

    asyncio.run(run())
    assert decisions[0].reason is Reason.INTERNAL_FAILURE
    assert "AttributeError" in decisions[0].detail


def test_a_session_in_the_place_of_the_policy() -> None:
    session = scripted_policy().session(Prices(3, 0.3, 3.75, 15), expected_calls=200)
    model = says(2)
    for _ in range(2):
        Runner.run_sync(agent_of(model), ITEMS, run_config=config(session))
    assert session.calls == 2
    assert model.calls[0].input == model.calls[1].input
    assert len(model.calls[0].input) < len(ITEMS)


@settings(max_examples=50)
@given(conversations(min_turns=6, max_turns=10))
def test_any_run_is_carried_over_exactly(run: Conversation) -> None:
    turns = [turn if turn.text or turn.exchanges else turn._replace(text="ok") for turn in run.turns]
    run = run._replace(turns=tuple(turn._replace(reasoning="", user=turn.user or "and?") for turn in turns))
    items = run_items(run)
    expected = run._replace(system=RUN.system).to_openai()["messages"]
    assert [spelled(message) for message in told(items)] == [spelled(message) for message in expected]
    decision = check_carried(items, READ)
    event(f"pruned: {decision.pruned}, reason: {decision.reason}")
    items = run_items(run, reasoning=True)
    sealed = check_carried(items, READ)
    if len({str(item) for item in items}) == len(items):  # no two items alike: then it is plain which are missing
        check_items(Pruner(POLICY, sessions=False).view(items, READ), items)
    event(f"with reasoning: {sealed.pruned}")
