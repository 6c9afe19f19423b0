"""Recalls answered on the way, by the real SDKs and frameworks: the program sees its own answer and nothing else."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from litellm import ModelResponse
from openai import AsyncOpenAI, BadRequestError, InternalServerError, OpenAI

from drsr.adapters import anthropic as anthropic_sdk
from drsr.adapters import bypass, langchain, litellm, openai_agents, openai_chat, pydantic_ai
from drsr.adapters.pruner import Pruner
from drsr.adapters.recall_rounds import (
    CHAT,
    MESSAGES,
    NOT_RUN,
    RESPONSES,
    ROUNDS,
    JsonWire,
    Rounds,
    asked,
    whole_usage,
)
from drsr.adapters.wire_form import openai_body
from drsr.decide.decision import Reason
from drsr.errors import SettingsError
from drsr.policy.answer import Decision
from drsr.policy.scripted import scripted_policy
from drsr.receipts.recall import RECALL
from drsr.receipts.receipt import explain
from drsr.receipts.receipt_file import ReceiptFile, read_receipts
from drsr.receipts.totals import add_up, newest
from tests.adapters.items import run_items
from tests.adapters.langchain_run import HISTORY, read_file, says
from tests.adapters.long_run import RUN, TOOLS
from tests.adapters.recalling_model import EACH, FINAL, ITS_TOOLS, RecallingModel

CHAT_MESSAGES: Any = RUN.to_openai()["messages"]
BODIES: dict[str, Any] = {
    "chat": {"model": "scripted", "messages": CHAT_MESSAGES, "tools": TOOLS},
    "messages": {"model": "scripted", "max_tokens": 9, **RUN.to_anthropic(), "tools": ITS_TOOLS["messages"]},
    "responses": {"model": "scripted", "input": run_items(RUN), "tools": ITS_TOOLS["responses"]},
}
PROTOCOLS = tuple(BODIES)


def transport(model: RecallingModel, fail: Callable[[int], bool] = lambda number: False) -> httpx2.MockTransport:
    def answer(request: httpx2.Request) -> httpx2.Response:
        said = model.answer(json.loads(request.content))
        return httpx2.Response(500 if fail(len(model.bodies)) else 200, json=said)

    return httpx2.MockTransport(answer)


def call_of(model: RecallingModel, decisions: list[Decision], **options: Any) -> Callable[[dict[str, Any]], Any]:
    """The SDK's call for a protocol, through an adapter that answers recalls."""
    http: Any = httpx2.Client(transport=transport(model, options.pop("fail", lambda number: False)))
    policy = options.pop("policy", None) or scripted_policy()
    told: Any = {"on_decision": decisions.append, "recall": True, **options}
    if model.protocol == "messages":
        client = anthropic_sdk.prune_with(policy, Anthropic(api_key="k", http_client=http, max_retries=0), **told)
        return lambda body: client.messages.create(**body)
    openai = openai_chat.prune_with(policy, OpenAI(api_key="k", http_client=http, max_retries=0), **told)
    create: Any = openai.chat.completions.create if model.protocol == "chat" else openai.responses.create
    return lambda body: create(**body)


def text_of(answer: Any) -> str:
    """What the program is given to read."""
    if hasattr(answer, "choices"):
        message = answer.choices[0].message
        assert not message.tool_calls
        return str(message.content)
    return str(answer.output_text if hasattr(answer, "output") else answer.content[0].text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_program_gets_its_answer_and_the_model_what_was_removed(protocol: str) -> None:
    model, decisions = RecallingModel(protocol), list[Decision]()
    body = copy.deepcopy(BODIES[protocol])
    answer = call_of(model, decisions)(body)
    assert text_of(answer) == FINAL
    assert body == BODIES[protocol]

    first, again, last = model.bodies
    assert len(first[model.history]) < len(body[model.history])
    assert again["tools"] == last["tools"] == first["tools"]
    assert again[model.history][: len(first[model.history])] == first[model.history]
    assert last[model.history][: len(again[model.history])] == again[model.history]
    removed = decisions[0].receipt["removed"]
    listed, part = model.results
    assert listed.startswith("Removed, by id:")
    assert part == decisions[0].recall(removed[0]["block"])

    before, after = decisions
    assert (before.recalled, after.id) == (None, before.id)
    assert after.recalled == (2, (removed[0]["block"],))
    assert f"recalled: {removed[0]['block']}, for 2 further calls of the model" in explain(after.receipt)
    usage = answer.usage
    assert (getattr(usage, "prompt_tokens", None) or usage.input_tokens) == 3 * EACH
    assert (getattr(usage, "completion_tokens", None) or usage.output_tokens) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_other_calls_beside_a_recall_are_said_not_to_have_run(protocol: str) -> None:
    model = RecallingModel(protocol, also="read_file")
    assert text_of(call_of(model, [])(BODIES[protocol])) == FINAL
    assert json.dumps(model.bodies[1]).count(json.dumps(NOT_RUN)[1:-1]) == 1
    assert json.dumps(model.bodies[2]).count(json.dumps(NOT_RUN)[1:-1]) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_model_that_never_has_enough_is_sent_the_request_as_it_came(protocol: str) -> None:
    model, decisions = RecallingModel(protocol, endless=True), list[Decision]()
    answer = call_of(model, decisions)(BODIES[protocol])
    assert text_of(answer) == FINAL
    assert len(model.bodies) == ROUNDS + 2
    assert model.bodies[-1] == BODIES[protocol]
    assert decisions[-1].recalled is not None
    assert decisions[-1].recalled.calls == ROUNDS + 1


def test_where_asking_again_fails_the_request_is_sent_as_it_came() -> None:
    model = RecallingModel("chat")
    answer = call_of(model, [], fail=lambda number: number == 2)(BODIES["chat"])
    assert text_of(answer) == FINAL
    assert model.bodies[-1] == BODIES["chat"]
    assert len(model.bodies) == 3
    with pytest.raises(InternalServerError):  # the program's own request fails: that is the program's to know
        call_of(RecallingModel("chat"), [], fail=lambda number: number > 1)(BODIES["chat"])
    model = RecallingModel("chat")
    with pytest.raises(InternalServerError):  # also the first of all
        call_of(model, [], fail=lambda number: True)(BODIES["chat"])
    assert len(model.bodies) == 1


def test_nothing_is_offered_where_a_call_could_not_be_answered() -> None:
    model = RecallingModel("chat")
    http = httpx2.Client(transport=transport(model))
    plain = OpenAI(api_key="k", http_client=http, max_retries=0)
    client = openai_chat.prune_with(scripted_policy(), plain, recall=True)
    body = BODIES["chat"]
    client.chat.completions.with_raw_response.create(**body)
    client.chat.completions.create(**body, n=2)
    client.chat.completions.create(**body, extra_body={"stream": True})
    with bypass():
        client.chat.completions.create(**body)
    own = {"type": "function", "function": {"name": RECALL, "parameters": {}}}
    openai_chat.prune_with(scripted_policy(), plain, recall=True, shadow=True).chat.completions.create(**body)
    openai_chat.prune_with(scripted_policy(), plain).chat.completions.create(**body)
    assert all(sent["tools"] == TOOLS for sent in model.bodies)
    assert len(model.bodies) == 6
    assert CHAT.offered({**body, "tools": [*TOOLS, own]}) is None
    assert RESPONSES.offered({"input": "a question"}) is None
    assert RESPONSES.offered({"input": [], "previous_response_id": "r"}) is None
    tools = ITS_TOOLS["messages"]
    assert MESSAGES.offered({"messages": [], "tools": tools}) == {"messages": [], "tools": [*tools, MESSAGES._tool]}
    assert MESSAGES.offered({"messages": []}) is None
    assert MESSAGES.offered({"messages": [], "tools": []}) is None


def test_a_call_whose_result_has_another_form_ends_it() -> None:
    """A patch, a shell: the provider's own forms of calls beside a recall."""
    recall = {"type": "function_call", "call_id": "a", "name": RECALL, "arguments": "{}"}
    shell = {"type": "local_shell_call", "call_id": "b", "action": {}}
    came: dict[str, Any] = {"input": [1]}
    sent: dict[str, Any] = {"input": []}
    rounds = Rounds(RESPONSES, came, sent, None)
    assert rounds.following({"output": [recall, shell]}) is came
    assert rounds.following({"output": [recall]}) is None  # whatever comes now is the program's
    odd_ones: list[Any] = [{}, {"output": [{}]}, {"output": 3}]
    for odd in odd_ones:
        assert Rounds(RESPONSES, came, sent, None).following(odd) is None  # the program's, and not asked for again
    rounds = Rounds(RESPONSES, came, sent, None)
    assert rounds.following({"output": [recall, {}]}) is came
    assert len(rounds.unseen) == 1


def test_a_provider_s_own_call_without_an_id_is_none_of_ours() -> None:
    search = {"type": "tool_search_call", "id": "x", "status": "completed", "arguments": {}}
    recall = {"type": "function_call", "call_id": "a", "name": RECALL, "arguments": "{}"}
    assert Rounds(RESPONSES, {}, {"input": []}, None).following({"output": [search]}) is None
    following: Any = Rounds(RESPONSES, {}, {"input": []}, None).following({"output": [search, recall]})
    assert [item.get("call_id") for item in following["input"]] == [None, "a", "a"]


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"id": 7}', '{"id": "\\u0000"}'])
def test_odd_arguments_get_the_list(arguments: str) -> None:
    decision = scripted_policy().prune(CHAT_MESSAGES, tools=TOOLS, session=None, recall=True)
    call = {"id": "r", "type": "function", "function": {"name": RECALL, "arguments": arguments}}
    answer = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    rounds = Rounds(CHAT, BODIES["chat"], decision.request, decision.outcome)
    following: Any = rounds.following(answer)
    assert "Removed, by id:" in following["messages"][-1]["content"]
    assert rounds.recalled == (1, ())


def test_reports_of_usage_are_added_up_field_by_field() -> None:
    one = {"input": 1, "details": {"cached": 2, "kind": "a"}, "only": 5, "rate": 0.5, "flag": True, "none": None}
    other = {"input": 3, "details": {"cached": 4, "kind": "b"}, "rate": 0.25, "flag": True, "none": 1}
    assert whole_usage([one, None, other]) == {
        "input": 4,
        "details": {"cached": 6, "kind": "b"},
        "only": 5,
        "rate": 0.75,
        "flag": True,
        "none": 1,
    }


def test_the_async_client() -> None:
    model = RecallingModel("chat")
    http = httpx2.AsyncClient(transport=transport(model))
    client = openai_chat.prune_with(scripted_policy(), AsyncOpenAI(api_key="k", http_client=http), recall=True)

    async def call() -> Any:
        return await client.chat.completions.create(**BODIES["chat"])

    answer = asyncio.run(call())
    assert text_of(answer) == FINAL
    assert (answer.usage.total_tokens, answer.usage.prompt_tokens_details.cached_tokens) == (33, 15)
    assert len(model.bodies) == 3


def test_litellm() -> None:
    model = RecallingModel("chat")

    def completion(**body: Any) -> ModelResponse:
        return ModelResponse(**model.answer(body))

    async def acompletion(**body: Any) -> ModelResponse:
        return completion(**body)

    answer = litellm.prune_with(scripted_policy(), completion, recall=True)(**BODIES["chat"])
    assert (text_of(answer), answer.usage.prompt_tokens) == (FINAL, 30)
    assert len(model.bodies) == 3
    answered = asyncio.run(litellm.prune_with(scripted_policy(), acompletion, recall=True)(**BODIES["chat"]))
    assert text_of(answered) == FINAL
    assert len(model.bodies) == 6


def test_langchain_keeps_the_recall_out_of_the_state() -> None:
    def recalls(call_id: str, **given: str) -> AIMessage:
        calls: Any = [{"type": "tool_call", "id": call_id, "name": RECALL, "args": given}]
        usage: Any = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
        return AIMessage("", tool_calls=calls, usage_metadata=usage)

    decisions = list[Decision]()
    final = AIMessage(FINAL, usage_metadata={"input_tokens": 10, "output_tokens": 1, "total_tokens": 11})
    model = says(recalls("a"), recalls("b", id="1.1"), final)
    pruning = langchain.PruneHistory(scripted_policy(), recall=True, on_decision=decisions.append)
    agent: Any = create_agent(model, [read_file], system_prompt=RUN.system, middleware=[pruning])
    state = agent.invoke({"messages": HISTORY})
    assert len(model.shown) == 3
    told = model.shown[-1][-1].content
    assert "Removed, by id:" in str(model.shown[1][-1].content)
    assert told == decisions[0].recall("1.1")
    assert len(state["messages"]) == len(HISTORY) + 1
    assert state["messages"][-1].content == FINAL
    assert state["messages"][-1].usage_metadata["total_tokens"] == 33
    assert decisions[-1].recalled is not None


def test_adapters_that_cannot_answer_say_so_at_once() -> None:
    for refuses in (openai_agents.PruneInput, pydantic_ai.PruneHistory, litellm.PruningHook):
        with pytest.raises(SettingsError, match=r"recall=True.*cannot be answered here"):
            refuses(scripted_policy(), recall=True)


def test_receipts_count_a_recalled_decision_once_and_as_no_saving(tmp_path: Path) -> None:
    path = tmp_path / "receipts.jsonl"
    policy = scripted_policy(receipts=ReceiptFile(path))
    call_of(RecallingModel("chat"), [], policy=policy)(BODIES["chat"])
    assert len(list(read_receipts(path))) == 2
    (record,) = newest(read_receipts(path))
    assert record["recalled"]["calls"] == 2
    total = add_up([record])["all"]
    assert (total.decisions, total.tokens_without - total.tokens_sent, total.priced) == (1, 0, 0)


@pytest.mark.parametrize("status", [400, 422])
def test_a_tool_that_the_provider_does_not_take_is_left_out(status: int) -> None:
    model, decisions = RecallingModel("chat"), list[Decision]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        said = model.answer(json.loads(request.content))
        return httpx2.Response(status if RECALL in json.dumps(said) else 200, json=said)

    for options in ({"recall": True}, {"recall": True, "on_decision": decisions.append}):
        http = httpx2.Client(transport=httpx2.MockTransport(answer))
        plain = OpenAI(api_key="k", http_client=http, max_retries=0)
        client: Any = openai_chat.prune_with(scripted_policy(), plain, **options)
        assert text_of(client.chat.completions.create(**BODIES["chat"])) == FINAL
    assert model.bodies[-1] == BODIES["chat"]
    assert len(model.bodies) == 4
    assert decisions[-1].recalled == (0, ())
    assert "sent as it came" in explain(decisions[-1].receipt)


def test_an_error_of_the_request_itself_is_the_program_s() -> None:
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(400, json={"error": {}})))
    plain = OpenAI(api_key="k", http_client=http, max_retries=0)
    client: Any = openai_chat.prune_with(scripted_policy(), plain, recall=True)
    with pytest.raises(BadRequestError):
        client.chat.completions.create(**BODIES["chat"])


def test_recalls_before_an_error_are_told() -> None:
    decisions = list[Decision]()
    with pytest.raises(InternalServerError):
        call_of(RecallingModel("chat"), decisions, fail=lambda number: number > 2)(BODIES["chat"])
    assert decisions[-1].recalled is not None
    assert decisions[-1].recalled.calls == 2


def test_nothing_is_offered_with_an_idempotency_key() -> None:
    model = RecallingModel("chat")
    http = httpx2.Client(transport=transport(model))
    key = {"Idempotency-Key": "a"}
    plain = OpenAI(api_key="k", http_client=http, max_retries=0)
    for client, headers in ((plain, key), (plain.with_options(default_headers=key), {})):
        create: Any = openai_chat.prune_with(scripted_policy(), client, recall=True).chat.completions.create
        assert text_of(create(**BODIES["chat"], extra_headers=headers)) == FINAL

    def completion(**body: Any) -> ModelResponse:
        return ModelResponse(**model.answer(body))

    litellm.prune_with(scripted_policy(), completion, recall=True)(**BODIES["chat"], extra_headers=key)
    litellm.prune_with(scripted_policy(), completion, recall=True)(**BODIES["chat"], headers=key)
    assert [sent["tools"] for sent in model.bodies] == [TOOLS] * 4


def test_reasoning_is_repeated_with_the_call_that_it_led_to() -> None:
    """Claude's, through a gateway with OpenAI's form: without it the provider refuses the next request."""
    call = {"id": "r", "type": "function", "function": {"name": RECALL, "arguments": "{}"}}
    led = {"thinking_blocks": [{"type": "thinking", "signature": "s"}], "reasoning_details": [{"data": "e"}]}
    message = {"role": "assistant", "content": None, "tool_calls": [call], **led, "annotations": [], "audio": None}
    following: Any = Rounds(CHAT, {}, {"messages": []}, None).following({"choices": [{"message": message}]})
    assert following["messages"][0] == {"role": "assistant", "tool_calls": [call], **led}


def test_usage_that_one_answer_does_not_say_is_not_made_up() -> None:
    said = {"usage": {"prompt_tokens": 1}}
    assert CHAT.reckoned({"id": "c"}, [said]) == {"id": "c"}
    assert CHAT.reckoned(said, [said]) == {"usage": {"prompt_tokens": 2}}


def test_a_request_that_cannot_be_given_the_tool_is_sent_without_it() -> None:
    class Broken(JsonWire):
        def offered(self, body: Any) -> Any:
            raise TypeError

    model = RecallingModel("chat")
    wire = Broken("messages", {}, lambda _: [], lambda *_: [])
    pruner = Pruner(scripted_policy(), recall=True)
    asked(pruner, wire, BODIES["chat"], openai_body, lambda body: model.answer(dict(body)))
    assert model.bodies[0]["tools"] == TOOLS


def test_langchain_s_cached_answers_stay_as_they_are() -> None:
    usage: Any = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    calls: Any = [{"type": "tool_call", "id": "a", "name": RECALL, "args": {}}]
    final = AIMessage(FINAL, usage_metadata=dict(usage))
    first = AIMessage("", tool_calls=calls, usage_metadata=dict(usage))
    pruning = langchain.PruneHistory(scripted_policy(), recall=True)
    agent: Any = create_agent(says(first, final), [read_file], middleware=[pruning])
    state = agent.invoke({"messages": HISTORY})
    assert state["messages"][-1].usage_metadata["total_tokens"] == 22
    assert final.usage_metadata == usage


def test_a_failure_of_the_policy_still_answers() -> None:
    """Nothing was removed then, and that is what the model is told."""
    model, decisions = RecallingModel("chat"), list[Decision]()
    answer = call_of(model, decisions, protect=lambda block, request: 1 / 0)(BODIES["chat"])
    assert text_of(answer) == FINAL
    assert decisions[0].reason is Reason.INTERNAL_FAILURE
    assert model.results == ["Nothing was removed."]
