"""Runs that both protocols can tell, to be written in either form."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.messages import texts
from tests.strategies import call_ids, names, objects, perhaps_empty, said


class Exchange(NamedTuple):
    """One call with its answer."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    answer: str


class Turn(NamedTuple):
    """One assistant message with its exchanges, and what the user says behind it ('' for nothing)."""

    reasoning: str
    text: str
    exchanges: tuple[Exchange, ...]
    user: str


class Conversation(NamedTuple):
    """A run that can be written in either protocol."""

    system: str
    task: str
    turns: tuple[Turn, ...]

    def to_openai(self) -> dict[str, Any]:
        """As OpenAI chat."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": self.system}] if self.system else []
        messages.append({"role": "user", "content": self.task})
        for turn in self.turns:
            message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
            if turn.reasoning:
                message["reasoning_content"] = turn.reasoning
            if turn.exchanges:
                message["tool_calls"] = [
                    {"id": i, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                    for i, name, arguments, _ in turn.exchanges
                ]
            messages.append(message)
            messages += [{"role": "tool", "tool_call_id": e.call_id, "content": e.answer} for e in turn.exchanges]
            messages += [{"role": "user", "content": turn.user}] if turn.user else []
        return {"messages": messages}

    def to_anthropic(self) -> dict[str, Any]:
        """As Anthropic messages."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": self.task}]
        for turn in self.turns:
            content: list[dict[str, Any]] = []
            if turn.reasoning:
                content.append({"type": "thinking", "thinking": turn.reasoning, "signature": ""})
            content += texts(turn.text) if turn.text else []
            content += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a, _ in turn.exchanges]
            messages.append({"role": "assistant", "content": content})
            answers: list[dict[str, Any]] = [
                {"type": "tool_result", "tool_use_id": e.call_id, "content": e.answer} for e in turn.exchanges
            ]
            answers += texts(turn.user) if turn.user else []
            messages += [{"role": "user", "content": answers}] if answers else []
        return {**({"system": self.system} if self.system else {}), "messages": messages}


_exchanges = st.lists(st.builds(Exchange, call_ids, names, objects, perhaps_empty), max_size=3).map(tuple)
_turns = st.builds(Turn, perhaps_empty, perhaps_empty, _exchanges, perhaps_empty).filter(
    lambda turn: bool(turn.reasoning or turn.text or turn.exchanges)
)


@st.composite
def conversations(draw: DrawFn, max_turns: int = 8, min_turns: int = 0) -> Conversation:
    """Runs of the plain kind that both protocols write alike."""
    turns = tuple(draw(st.lists(_turns, min_size=min_turns, max_size=max_turns)))
    return Conversation(draw(perhaps_empty), draw(said), turns)
