"""smolagents: an agent's memory as a list of steps (`agent.memory.get_full_steps()`), one per line, or a run's result.

A step is what the model said, its call (for a CodeAgent the code itself), and the observation or error that came back.
Code that stands in what the model said is the call and not said twice. The system prompt is that of the first
recorded request (`model_input_messages`), where steps are exported in full.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, read_call, text_of, tool_call
from drsr.offline.ingest.formats.logged_calls import spelled_out
from drsr.offline.ingest.formats.reader import Format, Pieces, Run, as_dict, as_list, dig, identity, whole_or_in_pieces
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_ACTION = frozenset({"step_number", "observations", "tool_calls", "model_output"})
_LEADS = ("<code>", "```py", "```python", "```", "Code:")
"""The text between a thought and its code."""


def is_step(value: Any) -> bool:
    """Return whether a value is one step of a memory."""
    if not isinstance(value, dict) or "messages" in value:
        return False
    if value.keys() >= _ACTION or {"task", "task_images"} == value.keys():
        return True
    return {"plan", "model_output_message"} <= value.keys() or value.keys() == {"system_prompt"}


def _recognises(value: Any) -> bool:
    steps = value if isinstance(value, list) else dig(value, "steps")
    if isinstance(value, dict) and "messages" in value:
        return False
    return isinstance(steps, list) and bool(steps) and all(is_step(step) for step in steps[:3])


def _read(value: Any, record: Record, file: SourceFile) -> Run:
    steps = as_list(value if isinstance(value, list) else value.get("steps"), "steps")
    chat = Chat()
    _say_system(chat, steps)
    for step in steps:
        _add(chat, as_dict(step, "a step"))
    return Run(place=record.place, protocol="openai", request={"messages": chat.messages()})


def _say_system(chat: Chat, steps: list[Any]) -> None:
    for step in steps:
        sent = dig(step, "model_input_messages")
        first = sent[0] if isinstance(sent, list) and sent else None
        if dig(first, "role") == "system":
            chat.say("system", text_of(dig(first, "content")))
            return


def _add(chat: Chat, step: Json) -> None:
    if isinstance(step.get("system_prompt"), str):
        chat.say("system", step["system_prompt"])
    elif "task" in step:
        chat.say("user", f"New task:\n{step['task']}")
    elif "plan" in step:
        chat.answer(step["plan"])
        chat.say("user", "Now proceed and carry out this plan.")
    elif "step_number" in step:
        _act(chat, step)


def _act(chat: Chat, step: Json) -> None:
    calls = [_call(as_dict(call, "a tool call")) for call in as_list(step.get("tool_calls") or [], "tool_calls")]
    said = text_of(step.get("model_output"))
    chat.answer((_thought(said, step.get("code_action")) if calls else said) or None, calls)
    told = [text for text in (_observed(step), _error(step)) if text]
    if not told:
        return
    if calls:
        chat.result(calls[0]["id"], "\n".join(told))
    else:
        chat.say("user", "\n".join(told))


def _call(call: Json) -> Json:
    """A call; code that is to be run is its argument `code`."""
    arguments = dig(call, "function", "arguments")
    if isinstance(arguments, str) and not isinstance(spelled_out(arguments), dict):
        return tool_call(dig(call, "function", "name") or "", {"code": arguments}, identity(call.get("id")))
    return read_call(call)


def _thought(said: str, code: Any) -> str:
    """Return the text before the code that it called; the whole text if the code is not in it."""
    before, found, _ = said.partition(code.strip()) if isinstance(code, str) and code.strip() else (said, "", "")
    if not found:
        return said.strip()
    for lead in _LEADS:
        before = before.rstrip().removesuffix(lead)
    return before.strip()


def _observed(step: Json) -> str:
    observed = step.get("observations")
    return observed if isinstance(observed, str) else ""


def _error(step: Json) -> str:
    error = step.get("error")
    message = dig(error, "message")
    return message if isinstance(message, str) else error if isinstance(error, str) else ""


READERS = whole_or_in_pieces(
    Format("smolagents", "smolagents runs (`steps`, or a list of steps)", _recognises, _read),
    Pieces("steps", "smolagents steps one by one (`step_number`, `model_output`, `observations`)", is_step),
)
