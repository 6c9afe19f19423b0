"""A short trajectory made for measuring: under two hundred tokens, Blocks of both kinds, three or four candidates."""

from __future__ import annotations

from typing import Any

from drsr.decide.candidates import DecisionState, Ineligible, freeze
from drsr.request.contracts import Backbone, TokenIds
from drsr.request.rendering import render_output
from drsr.request.request import Request, read_request
from drsr.request.view import caps_for

TURNS = [
    ("Which log?", None, "app.log"),
    (None, "read", "error 7 in line 40"),
    ("Error 7: disk full.", None, "Is it?"),
    ("97 percent used.", None, "So?"),
    ("May I remove old.log?", None, "Yes."),
    (None, "remove", "removed old.log"),
    ("The disk was full. I removed old.log.", None, "Thanks!"),
]
"""What the agent says, which tool it calls if any, and what the tool or else the user answers."""


def small_request() -> Request:
    """The whole trajectory as a request."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Why does the app fail?"}]
    for number, (text, name, answer) in enumerate(TURNS):
        if name is None:
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": answer}]
            continue
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": text, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": answer})
    return read_request({"messages": messages})


def small_states(backbone: Backbone, decisions: tuple[int, ...] = (5, 6)) -> list[tuple[DecisionState, TokenIds]]:
    """The states after that many turns, each with the tokens of the output that came next.

    After five turns there are three candidates and seven sets, after six four candidates and fifteen sets.
    """
    request = small_request()
    states = []
    for decision in decisions:
        message = 1 + 2 * decision
        before = request.with_messages(request.messages[:message])
        state = freeze(before, backbone.tokenizer, caps_for(backbone.window).context)
        assert not isinstance(state, Ineligible), state
        states.append((state, render_output(request.messages[message], backbone.tokenizer)))
    return states
