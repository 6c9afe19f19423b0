"""Requests that repeat themselves: few words, paths, identifiers, numbers, errors, tools and objects, drawn again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.decide.candidates import DecisionState, freeze
from drsr.request.rendering import render
from drsr.request.request import read_request

WORDS = (
    "order", "file", "the", "found", "user_17", "W2301", "#W2301", "/a/b.txt", "/a/b.txt:", "src/main.py", "42", "7",
    "1024", "error", "TypeError", "failed", "ok", "done", "line\n", "same line\n", "é9", "C:\\x\\y.ini",
)  # fmt: skip
TOOLS = ("read_file", "bash", "searchOrders", "update_order", "think")
ARGUMENTS: tuple[Any, ...] = (
    {"path": "/a/b.txt"},
    {"path": "src/main.py", "line": 42},
    {"command": "cat /a/b.txt"},
    {"command": "ls"},
    {"order_id": "#W2301"},
    {"order_id": "#W2301", "items": ["1024", {"name": "user_17"}]},
    {"query": "the user"},
    {},
    "no JSON at all",
)

_texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
_perhaps = st.one_of(st.none(), _texts)
_calls = st.lists(
    st.tuples(st.sampled_from(TOOLS), st.sampled_from(ARGUMENTS), st.one_of(_texts, st.just(""))), max_size=2
)
_steps = st.tuples(_perhaps, _calls, _perhaps)


@st.composite
def busy_bodies(draw: DrawFn, min_steps: int = 5) -> list[dict[str, Any]]:
    """Five to nine Steps with up to two calls each, user messages between some of them."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": draw(_texts)},
        {"role": "user", "content": draw(_texts)},
    ]
    for step, (text, calls, asked) in enumerate(draw(st.lists(_steps, min_size=min_steps, max_size=9))):
        message: dict[str, Any] = {"role": "assistant", "content": text if text or calls else "so"}
        if calls:
            message["tool_calls"] = [
                {
                    "id": f"c{step}_{number}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
                    },
                }
                for number, (name, arguments, _) in enumerate(calls)
            ]
        messages.append(message)
        for number, (_, _, result) in enumerate(calls):
            messages.append({"role": "tool", "tool_call_id": f"c{step}_{number}", "content": result})
        if asked is not None:
            messages.append({"role": "user", "content": asked})
    return messages


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _frozen(body: list[dict[str, Any]], share: float) -> Any:
    """The state with a context cap of so much of the request."""
    request, tokenizer = read_request(body), ScriptedTokenizer()
    return freeze(request, tokenizer, int(share * len(render(request, tokenizer))))


busy_states = st.builds(_frozen, busy_bodies(), st.sampled_from((1.0, 0.9))).filter(
    lambda state: isinstance(state, DecisionState)
)
"""Eligible states; of some the view is a part of the request."""

cut_states = st.builds(_frozen, busy_bodies(8), st.sampled_from((0.95, 0.8))).filter(
    lambda state: isinstance(state, DecisionState)
)
"""Eligible states whose view is a part of the request."""
