"""Count the agent's turns with a method's own tools. Rules take the agent's place, so no model takes these turns here.

The acting model reads the request as it is at that moment and writes one or more tool calls; both count as auxiliary
tokens, like those that a summariser reads and writes.

Not counted: the tools' definitions and answers, what a model would say in addition to its calls, turns in which it
looks and changes nothing, and all turns of a rewrite in which the summariser then refuses a question.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.summarisers.summariser import Completion
from drsr.request.json_values import canonical_json
from drsr.request.request import Request

TOOL_TURNS = (
    "Each use of a tool counts as a turn of the acting model's: it reads the request as it stands then and writes the "
    "call. The tools' definitions and answers, and turns in which it would decide to leave all as it is, do not count."
)


class ToolCall(NamedTuple):
    """One call of a method's tool, as a rule makes it in the agent's name."""

    name: str
    arguments: dict[str, Any]


def tool_turn(counts: TokenCounts, shown: Request, *calls: ToolCall) -> Completion:
    """Return the cost of one turn, as an answer that was paid for. A call is written as the renderer writes any
    call."""
    written = [canonical_json({"arguments": call.arguments, "name": call.name}) for call in calls]
    return Completion("", counts.request(shown), sum(map(counts.text, written)))
