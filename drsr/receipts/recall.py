"""Recall: a tool that lets the model ask for history that was removed. Off unless a program turns it on.

    decision = policy.prune(messages, tools=tools, recall=True)     # decision.request["tools"] has one more tool
    ...
    if call.function.name == RECALL:                                # among the program's own tools
        result = decision.recall(json.loads(call.function.arguments).get("id"))

Or an adapter or the proxy answers, if it has `recall=True`: see `drsr/adapters/recall_rounds.py`.

The tool is in every request of a run, pruned or not, and always the same: tools come before everything that a provider
caches. So it cannot name what was removed; the model asks for the list first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.errors import RequestError
from drsr.request.history import Block
from drsr.request.parts import Call, Reasoning, Result, Text
from drsr.request.request import Protocol, Request, read_request

if TYPE_CHECKING:
    from drsr.decide.decision import Outcome

RECALL = "recall_history"
_DESCRIPTION = (
    "Some old parts of this conversation were removed to keep it short. Without an id, lists what was removed; "
    "with an id, returns that part."
)
_PARAMETERS = {"type": "object", "properties": {"id": {"type": "string", "description": "Which removed part."}}}


class Recalled(NamedTuple):
    """The Blocks that a model got back before its answer."""

    calls: int
    """Number of answers of the model that only asked for more, and were paid for; 0 if the tool itself was refused."""
    blocks: tuple[str, ...]
    """The removed Blocks that it asked for."""


def recall_tool(protocol: Protocol) -> dict[str, Any]:
    """Return the tool's definition in the form of a protocol."""
    if protocol == "anthropic":
        return {"name": RECALL, "description": _DESCRIPTION, "input_schema": _PARAMETERS}
    return {
        "type": "function",
        "function": {"name": RECALL, "description": _DESCRIPTION, "parameters": _PARAMETERS},
    }


def with_recall(body: Any, protocol: Protocol | None) -> Any:
    """Return the request with the tool added if it does not have it yet; a request that cannot be read comes back
    unchanged."""
    try:
        tool = recall_tool(read_request(body, protocol=protocol).protocol)
    except RequestError:
        return body
    fields = dict(body) if isinstance(body, Mapping) else {"messages": body}
    tools = list(fields.get("tools") or ())
    return {**fields, "tools": tools if tool in tools else [*tools, tool]}


def recalled(outcome: Outcome | None, name: str | None) -> str:
    """Return the tool's answer: the removed part of that name, or the list of all."""
    removed = outcome.removed if outcome is not None else ()
    if outcome is None or not removed:
        return "Nothing was removed."
    request = outcome.evidence.original.request
    by_name = {block.name: block for block in removed}
    if name in by_name:
        return _told(request, by_name[name])
    lines = [f"{block.name}: {_in_short(request, block)}" for block in removed]
    missing = [] if name is None else [f"No removed part is called {json.dumps(name)}."]
    return "\n".join([*missing, "Removed, by id:", *lines])


def _parts(request: Request, block: Block) -> list[Any]:
    return [request.messages[ref.message].parts[ref.part] for ref in block.parts]


def _in_short(request: Request, block: Block) -> str:
    parts = _parts(request, block)
    said = next((f"{part.name} {_json(part.arguments)}" for part in parts if isinstance(part, Call)), "what you said")
    size = sum(len(part.text) for part in parts if isinstance(part, Text | Reasoning | Result))
    return f"{said[:200]}, {size:,} characters"


def _told(request: Request, block: Block) -> str:
    lines = []
    for part in _parts(request, block):
        if isinstance(part, Call):
            lines.append(f"call: {part.name} {_json(part.arguments)}")
        elif isinstance(part, Result):
            lines.append(f"result: {part.text}")
        elif isinstance(part, Text | Reasoning):
            lines.append(part.text)
    return "\n".join(lines)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
