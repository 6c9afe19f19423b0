"""The OpenAI Agents SDK's `ToolOutputTrimmer`: long tool outputs of older turns become a preview.

The package's own filter does it, with its defaults, on items of the Responses form. It counts turns by messages of the
user, so on a run with one task and no further message of the user it does nothing.

Assumptions. A system prompt is passed as an item among the others, which the filter ignores. Images and files are
passed as a word for their kind.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.peer_messages import Left, Told, arguments, carry_back, running, tell
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request


class OpenAiAgentsTrimmer(PlainMethod):
    """Asks the package."""

    name = "openai_agents_trimmer"
    title = "OpenAI Agents ToolOutputTrimmer"
    package = "openai-agents"
    assumptions = (
        "The package's defaults: two recent turns of the user, outputs over 500 characters, 200 shown.",
        "Images and files in an output are told as a word for their kind.",
    )
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.USER})

    def load(self) -> Any:
        from agents.extensions import ToolOutputTrimmer
        from agents.run_config import CallModelData, ModelInputData

        return ToolOutputTrimmer, CallModelData, ModelInputData

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        told = tell(request)
        items: list[tuple[Told, Any]] = [(one, item) for one in told for item in _items(one)]
        with running(self.package):
            trimmer, call_data, input_data = self.load()
            given = input_data(input=[item for _, item in items], instructions=None)
            # The filter looks at the items alone; an agent would only be carried along.
            trimmed: list[Any] = list(trimmer()(call_data(given, None, None)).input)
            outputs = {
                id(one): after["output"] for (one, _), after in zip(items, trimmed, strict=True) if _is_output(after)
            }
        left = [Left(one, outputs.get(id(one), one.text)) for one in told]
        return Rewrite(carry_back(request, left))


def _is_output(item: Any) -> bool:
    return bool(item.get("type") == "function_call_output")


def _items(told: Told) -> list[dict[str, Any]]:
    if told.role in ("tool", "function"):
        return [{"type": "function_call_output", "call_id": told.call_id, "output": told.text or ""}]
    said = [{"role": told.role, "content": told.text}] if told.text else []
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments(call)}
        for call in told.calls
    ]
    return [*said, *calls]
