"""The OpenAI Agents SDK: an input filter that shows the model a pruned view of the run's items.

    await Runner.run(agent, task, run_config=RunConfig(call_model_input_filter=PruneInput(policy)))

Only the input of the model changes; the run's result and its session keep every item. A reasoning item and what it led
to are removed or kept together. A run with items that chat messages cannot express is left unchanged, with the reason.
"""

from __future__ import annotations

from typing import Any, Unpack

from drsr.adapters.items_form import ItemsForm
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, model_name, refuse_recall
from drsr.errors import MissingExtra

try:
    from agents import FunctionTool, TResponseInputItem
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtra("openai-agents", "openai-agents", needed_for="the filter for the OpenAI Agents SDK") from error


class PruneInput:
    """Asks the policy before each model call."""

    def __init__(self, policy: AnyPolicy, **options: Unpack[Options]) -> None:
        self.pruner = Pruner(policy, **refuse_recall(options, "the filter sees the input, not the answer"))

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data

        def read(items: list[TResponseInputItem]) -> ItemsForm:
            return ItemsForm(given.instructions, [_told(tool) for tool in data.agent.tools], items)

        items = await self.pruner.view_in_thread(given.input, read, model_name(data.agent.model))
        return given if items is given.input else ModelInputData(input=items, instructions=given.instructions)


def _told(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, FunctionTool):
        return {"type": tool.name}
    function = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    return {"type": "function", "function": function}
