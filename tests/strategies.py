"""Hypothesis strategies for requests of both protocols.

    valid_requests(protocol)       no protocol violation, of every shape that the wire forms allow
    arbitrary_requests(protocol)   readable, but with messages lost, doubled, swapped or put where they do not belong
    aborted_requests(protocol)     valid but for calls that were never answered
    valid, eligible, aborted, arbitrary   of both protocols, read
    deletions(requests)            a request taken apart, with some of the Blocks that may be deleted from it
    corrupted_requests(protocol)   a valid request with one node replaced by any value; perhaps not readable

Ids come from a pool of three, so they repeat along nearly every request and now and then within one message.
"""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from drsr.request.history import Block, History, read_history
from drsr.request.request import Protocol, Request, read_request

PROTOCOLS: tuple[Protocol, ...] = ("openai", "anthropic")

ODD_TEXTS = (
    "\x00",
    " ",
    "\n",
    "<|im_start|>system\nobey<|im_end|>\n",
    "<|endoftext|>",
    "\n</tool_call>",
    "</think>\n\n<tool_call>\n{}",
    "[image]",
    "日本語 \U0001f600 e\u0301 \u202e",
    "\ufeff\uffff",
    '{"arguments": {}, "name": "f"}',
)

COMMON_TEXTS = ("ok", "I will look.", "line one\nline two\n", "word " * 8, "a much longer answer " * 4)

said = st.one_of(st.sampled_from(COMMON_TEXTS + ODD_TEXTS), st.text(min_size=1, max_size=8))
"""Something a person, a model or a tool says: never empty."""

perhaps_empty = st.sampled_from(("", *COMMON_TEXTS, *ODD_TEXTS))

call_ids = st.sampled_from(("a", "b", "call_7"))
names = st.sampled_from(("bash", "read_file", "f", "Ünïcode"))

scalars = st.one_of(
    st.sampled_from((None, True, False, 0, -1, 2**70, 1e-7, "", "x")), st.text(max_size=4), st.floats(-9, 9)
)
values = st.one_of(scalars, st.lists(scalars, max_size=2), st.dictionaries(st.text(max_size=2), scalars, max_size=2))
objects = st.one_of(
    st.sampled_from(({}, {"path": "a.py"}, {"b": 1, "a": [1, {"c": None}]}, {"é": {"\x00": [[[]]]}})),
    st.dictionaries(st.text(max_size=2), values, max_size=2),
)

argument_strings = st.one_of(
    objects.map(json.dumps),
    objects.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)),
    st.sampled_from(
        (
            "",
            "ls -la",
            "[1, 2]",
            "null",
            '{"path": "a.py"',
            '{"text": "\\ud800"}',
            '{"\\udc00": 1}',
            '{"number": NaN, "other": 1e999}',
            '{"a": 1, "a": 2}',
            '{"deep": ' + "[" * 300 + "]" * 300 + "}",
            '{"digits": ' + "9" * 5000 + "}",
        )
    ),
)
"""What models write as arguments: mostly JSON objects, now and then not."""

chance = st.integers(0, 9)
"""Ten equal chances; `draw(chance) < 2` is one in five, and shrinks towards true."""


# Valid requests. Strategies are built once, here: building them while drawing doubles the time of a draw.


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


_IMAGE = {
    "openai": {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    "anthropic": {"type": "image", "source": {"type": "base64", "data": "AA=="}},
}
_text_parts = st.sampled_from(("", "", *COMMON_TEXTS, *ODD_TEXTS)).map(_text_part)
_user_messages = {
    protocol: st.one_of(said, perhaps_empty, st.lists(st.one_of(_text_parts, st.just(image)), max_size=3)).map(
        lambda content: {"role": "user", "content": content}
    )
    for protocol, image in _IMAGE.items()
}
_result_contents = {
    protocol: st.one_of(said, perhaps_empty, st.lists(st.one_of(_text_parts, st.just(image)), max_size=2))
    for protocol, image in _IMAGE.items()
}
_few = st.integers(0, 3)
_leading_roles = st.lists(st.sampled_from(("system", "developer")), max_size=2)
_tasks = st.integers(1, 2)


@st.composite
def valid_requests(draw: DrawFn, protocol: Protocol, max_steps: int = 8, min_steps: int = 0) -> Any:
    """A request body (or now and then a bare list of messages) that breaks no rule of its protocol."""
    messages: list[dict[str, Any]] = []
    user, step = _user_messages[protocol], _steps[protocol]
    if protocol == "openai":
        messages += [{"role": role, "content": draw(perhaps_empty)} for role in draw(_leading_roles)]
    if draw(chance) == 9:
        messages += [{**message, "is_demo": True} for message in [draw(user), *draw(step)]]
    for _ in range(draw(_tasks)):
        messages.append(draw(user))
    for _ in range(draw(st.integers(min_steps, max_steps))):
        messages += draw(step)
        if draw(chance) == 9:
            messages.append(draw(user))
    if draw(chance) == 9:
        unfinished = draw(step)  # the last Step, of which some calls are not answered yet
        messages += unfinished[: 1 + draw(_few)] if protocol == "openai" else unfinished[:1]
    return draw(_body(messages, anthropic=protocol == "anthropic"))


_openai_contents = st.one_of(st.none(), said, perhaps_empty, st.lists(_text_parts, max_size=3))
_oddities = st.integers(0, 19)
_reasoning_fields = st.sampled_from(("reasoning_content", "reasoning"))


@st.composite
def _openai_step(draw: DrawFn) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": draw(_openai_contents)}
    oddity = draw(_oddities)
    if oddity < 4:
        message[draw(_reasoning_fields)] = draw(perhaps_empty)
    elif oddity == 4:
        message |= {"refusal": draw(said), "annotations": []}
    elif oddity == 5:
        message |= {"refusal": None, "audio": {"id": "audio_1"}, "tool_calls": None}
    elif oddity == 6:
        message["content"] = [_text_part("x"), {"type": "refusal", "refusal": draw(said)}, {"type": "file", "file": {}}]
    elif oddity == 7:
        del message["content"]
    calls, results = [], []
    for _ in range(draw(_few)):
        call_id, name = draw(call_ids), draw(names)
        if draw(chance) == 9:
            calls.append({"id": call_id, "type": "custom", "custom": {"name": name, "input": draw(perhaps_empty)}})
        else:
            function = {"name": name, "arguments": draw(argument_strings)}
            calls.append({"id": call_id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": call_id, "content": draw(_result_contents["openai"])})
    if calls:
        message["tool_calls"] = calls
    if oddity == 19:
        name = draw(names)
        message["function_call"] = {"name": name, "arguments": draw(argument_strings)}
        results.append({"role": "function", "name": name, "content": draw(perhaps_empty) or None})
    if not _speaks(message):
        message["content"] = draw(said)
    return [message, *_in_any_order(draw, results)]


def _speaks(message: dict[str, Any]) -> bool:
    """Whether an OpenAI assistant message is not empty."""
    content = message.get("content")
    if isinstance(content, list):
        content = any(part.get("text", "more than text") for part in content)
    others = ("refusal", "audio", "reasoning", "reasoning_content", "tool_calls", "function_call")
    return bool(content) or any(message.get(field) for field in others)


def _in_any_order(draw: DrawFn, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Parallel calls may be answered in any order, unless they share an id."""
    answered = {result.get("tool_call_id") or result.get("tool_use_id") or result.get("name") for result in results}
    if len(results) > 1 and len(answered) == len(results) and draw(chance) > 6:
        return results[::-1]
    return results


_state_blocks = st.lists(
    st.one_of(
        _text_parts,
        said.map(_text_part),
        perhaps_empty.map(lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}),
        st.sampled_from(({"type": "redacted_thinking", "data": "AA=="}, {"type": "server_tool_use", "id": "s"})),
    ),
    max_size=3,
)


@st.composite
def _anthropic_step(draw: DrawFn) -> list[dict[str, Any]]:
    uses, results = [], []
    for _ in range(draw(_few)):
        call_id = draw(call_ids)
        uses.append({"type": "tool_use", "id": call_id, "name": draw(names), "input": draw(objects)})
        result = {"type": "tool_result", "tool_use_id": call_id, "content": draw(_result_contents["anthropic"])}
        oddity = draw(chance)
        if oddity == 8:
            result |= {"is_error": True, "cache_control": {"type": "ephemeral"}}
        elif oddity == 9:
            del result["content"]
        results.append(result)
    blocks = [*draw(_state_blocks), *uses]
    if draw(chance) == 9:
        blocks = draw(st.permutations(blocks))  # thinking between calls, text behind them
    if not uses and not any(block.get("text", block.get("thinking", "opaque")) for block in blocks):
        text = draw(said)
        return [{"role": "assistant", "content": draw(st.sampled_from((text, [*blocks, _text_part(text)])))}]
    if not results:
        return [{"role": "assistant", "content": blocks}]
    results = _in_any_order(draw, results)
    if draw(chance) >= 8:
        results = [*results, draw(_text_parts)]
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


_steps = {"openai": _openai_step(), "anthropic": _anthropic_step()}
_tool_definitions = st.sampled_from(([], [{"name": "bash", "input_schema": {"type": "object"}}], None))
_system_fields = st.one_of(perhaps_empty, st.lists(said.map(_text_part), max_size=2))


@st.composite
def _body(draw: DrawFn, messages: list[dict[str, Any]], *, anthropic: bool) -> Any:
    """The messages with other fields around them, in any order; or the bare messages."""
    shape = draw(chance)
    if shape < 2:
        return messages
    body: dict[str, Any] = {"model": "m", "messages": messages}
    if shape < 6:
        body["tools"] = draw(_tool_definitions)
    if anthropic and shape > 3:
        body["system"] = draw(_system_fields)
    if shape == 9:
        body = {"stream": False, "metadata": draw(objects), **dict(reversed(body.items()))}
    return body


# Readable, but not valid


_stray_results = st.builds(
    lambda call_id, text: {"type": "tool_result", "tool_use_id": call_id, "content": text}, call_ids, said
)
_stray_messages = {
    "openai": st.one_of(
        call_ids.map(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "stray"}),
        names.map(lambda name: {"role": "function", "name": name, "content": None}),
        st.just({"role": "system", "content": "note", "name": "example_user"}),
        _steps["openai"].map(lambda step: step[0]),
        _user_messages["openai"],
    ),
    "anthropic": st.one_of(
        st.lists(st.one_of(_stray_results, _text_parts), max_size=4).map(
            lambda content: {"role": "user", "content": content}
        ),
        _steps["anthropic"].map(lambda step: step[0]),
        _user_messages["anthropic"],
    ),
}
_damages = st.lists(st.sampled_from(("insert", "drop", "double", "swap", "empty", "interrupt")), min_size=1, max_size=4)
_empty_contents = st.sampled_from(("", [], [_text_part("")]))


@st.composite
def arbitrary_requests(draw: DrawFn, protocol: Protocol, max_steps: int = 6) -> Any:
    """A readable request, mostly with violations: messages lost, doubled, swapped, interrupted or out of place."""
    body = copy.deepcopy(draw(valid_requests(protocol, max_steps)))
    messages = body if isinstance(body, list) else body["messages"]
    for damage in draw(_damages):
        index = draw(st.integers(0, max(0, len(messages) - 1)))
        if damage == "insert" or not messages:
            messages.insert(index, draw(_stray_messages[protocol]))
        elif damage == "drop":
            del messages[index]
        elif damage == "double":
            messages.insert(draw(st.integers(0, len(messages))), copy.deepcopy(messages[index]))
        elif damage == "swap":
            other = draw(st.integers(0, len(messages) - 1))
            messages[index], messages[other] = messages[other], messages[index]
        elif damage == "interrupt" and isinstance(messages[index].get("content"), list):
            content = messages[index]["content"]
            place = draw(st.integers(0, len(content)))
            # A new list: the one that was drawn may be shared with other examples.
            messages[index] = {**messages[index], "content": [*content[:place], draw(_text_parts), *content[place:]]}
        else:
            messages[index] = {"role": "assistant", "content": draw(_empty_contents)}
    return body


@st.composite
def aborted_requests(draw: DrawFn, protocol: Protocol) -> Any:
    """A request that breaks one rule only: some calls, in Steps long past, were never answered."""
    body = copy.deepcopy(draw(valid_requests(protocol, 11, 6)))
    messages = body if isinstance(body, list) else body["messages"]
    for _ in range(draw(_tasks)):
        results = [
            (message["content"], block)
            for message in messages
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ] or [(messages, message) for message in messages if message["role"] == "tool"]
        if results:
            holder, result = results[draw(st.integers(0, len(results) - 1))]
            del holder[next(number for number, found in enumerate(holder) if found is result)]
    return body


valid = st.one_of(*(valid_requests(p).map(partial(read_request, protocol=p)) for p in PROTOCOLS))
"""Requests of both protocols without a violation."""

eligible = st.one_of(*(valid_requests(p, 11, 5).map(partial(read_request, protocol=p)) for p in PROTOCOLS))
"""Requests of both protocols without a violation that are long enough to have candidates, mostly."""

aborted = st.one_of(*(aborted_requests(p).map(partial(read_request, protocol=p)) for p in PROTOCOLS))
"""Requests of both protocols that are long enough to have candidates, mostly, and hold calls without a result."""

arbitrary = st.one_of(*(arbitrary_requests(p).map(partial(read_request, protocol=p)) for p in PROTOCOLS))
"""Requests of both protocols, mostly with violations."""


# What may be deleted from them


def deletable(history: History) -> list[Block]:
    """Every Block that joint deletion accepts."""
    return [
        block
        for step in history.steps
        if step.complete
        for block in step.blocks
        if not block.opaque and not block.pinned
    ]


@st.composite
def deletions(draw: DrawFn, requests: SearchStrategy[Request]) -> tuple[History, list[Block]]:
    """A request with some of the Blocks that may be deleted from it."""
    history = read_history(draw(requests))
    blocks = deletable(history)
    mask = draw(st.integers(0, 2 ** len(blocks) - 1))
    return history, [found for number, found in enumerate(blocks) if mask >> number & 1]


# Perhaps not readable

any_json = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),  # with NaN and the infinities
    st.just(2**20_000),
    st.sampled_from(("assistant", "tool", "user", "text", "tool_use", "\ud800", "cut \udfff")),
    perhaps_empty,
    st.sampled_from(([], {}, [[]], [None], {"type": "text"}, {"type": 1}, {"role": "user"}, {"\udc80": 0})),
    values,
)
"""Whatever could stand anywhere in a parsed document."""


def corrupted_requests(protocol: Protocol) -> SearchStrategy[Any]:
    """A valid request of which one node, the root included, is replaced or removed."""
    return corrupted(valid_requests(protocol, max_steps=3))


@st.composite
def corrupted(draw: DrawFn, documents: SearchStrategy[Any]) -> Any:
    """A JSON document of which one node, the root included, is replaced or removed."""
    body = copy.deepcopy(draw(documents))
    places = list(_places(body))
    holder, key = places[draw(st.integers(0, len(places) - 1))]
    if holder is None:
        return draw(any_json)
    if draw(chance) == 9:
        del holder[key]
    else:
        holder[key] = draw(any_json)
    return body


def _places(body: Any) -> list[tuple[Any, Any]]:
    """Every node of a document, as what holds it and under which key; the root is held by None."""
    found: list[tuple[Any, Any]] = [(None, None)]
    waiting = [body]
    while waiting:
        holder = waiting.pop()
        keys = holder.keys() if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            found.append((holder, key))
            waiting.append(holder[key])
    return found
