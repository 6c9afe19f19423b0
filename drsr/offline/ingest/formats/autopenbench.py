"""AutoPenBench: `steps` of thought, action and observation, each with its own prefix.

The first step does nothing; its observation is the task. Only the file's name says which task it is:
`<mode>_<task>` or, for repeated runs, `reliability_<task>_<number>`. What a summariser wrote between the steps is not
part of the history.
"""

from __future__ import annotations

import re
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, stem
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile, Unreadable

_PREFIXES = {"thought": "Thought: ", "action": "Action: ", "observation": "Observation: "}
_ACTION = re.compile(r"(\w+)\((.*)\)", re.S)
_NO_ACTION = "Action: str()"
_TASK = re.compile(r"(?:auto|assisted|reliability)_(.*?_vm\d+)(?:_\d+)?")


def _recognises(value: Any) -> bool:
    steps = value.get("steps") if isinstance(value, dict) else None
    if not isinstance(steps, list) or not steps:
        return False
    found = {key: dig(steps[0], key) for key in _PREFIXES}
    return all(isinstance(found[key], str) and found[key].startswith(prefix) for key, prefix in _PREFIXES.items())


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    steps = [_parts(as_dict(step, "a step")) for step in as_list(value["steps"], "steps")]
    chat = Chat()
    if as_dict(value["steps"][0], "a step")["action"] == _NO_ACTION:
        chat.say("user", steps.pop(0)["observation"])
    for step in steps:
        chat.answer(step["thought"] or None, [_call(step["action"])])
        chat.result(None, step["observation"])
    return Run(record.place, "openai", {"messages": chat.messages()}, task=_task(stem(record, file)), domain="security")


def _parts(step: Json) -> dict[str, str]:
    """The three texts of a step, word for word after their prefixes."""
    found = {}
    for key, prefix in _PREFIXES.items():
        text = step.get(key)
        if not isinstance(text, str) or not text.startswith(prefix):
            raise Unreadable("malformed", f"the {key} of a step should start with {prefix!r}")
        found[key] = text.removeprefix(prefix)
    return found


def _call(action: str) -> Json:
    """`ExecuteBash(machine_ipaddr='...' cmd='...')`: the name and, word for word, the text in parentheses."""
    match = _ACTION.fullmatch(action.strip())
    return tool_call(match[1], {"input": match[2]}) if match else tool_call("act", {"input": action})


def _task(name: str | None) -> str | None:
    match = _TASK.fullmatch(name or "")
    return f"autopenbench/{match[1]}" if match else None


READERS = (
    Reader("autopenbench", 1, "AutoPenBench logs (`steps` of thought, action, observation)", _recognises, each(_read)),
)
