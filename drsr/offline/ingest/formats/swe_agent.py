"""SWE-agent `.traj`: `history` is what the model saw and said, as text with a parsed `action`, or with `tool_calls`.

`trajectory` lists the same steps without the prompts and is used only where `history` is missing. Demonstrations keep
their mark, and the message behind a demonstration's last command is the task, never that command's observation.
The instance id stands in the replay configuration, if anywhere; where it does not, the file's stem is used.
"""

from __future__ import annotations

from typing import Any

import orjson

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.openai_chat import reasoning_of
from drsr.offline.ingest.formats.reader import Reader, Run, as_dict, as_list, dig, each, identity, score, stem
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_MESSAGE = frozenset({"role", "content"})
_MARKS = ("agent", "message_type")
"""Speaker and kind of a message: only SWE-agent writes these, one of them into every history."""
_STEP = frozenset({"action", "observation", "response", "state", "thought"})
"""A step of SWE-agent. `state` is that of its environment; other frameworks' steps, whose observation may be the one
before the action, have none."""


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" in value:
        return False
    history = value.get("history")
    if isinstance(history, list) and history:
        return _keys(history[0]) >= _MESSAGE and any(not _keys(one).isdisjoint(_MARKS) for one in history)
    steps = value.get("trajectory")
    return isinstance(steps, list) and bool(steps) and _keys(steps[0]) >= _STEP


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    chat = Chat()
    if value.get("history"):
        _add_history(chat, [as_dict(message, "a message") for message in as_list(value["history"], "history")])
    else:
        steps = as_list(value.get("trajectory"), "trajectory")
        for number, step in enumerate(steps):
            _add_step(chat, as_dict(step, "a step"), number == len(steps) - 1)
    return Run(
        record.place,
        "openai",
        {"messages": chat.messages()},
        task=_instance(value) or stem(record, file),
        domain="code",
        reward=score(dig(value, "info", "resolved")),
    )


def _add_history(chat: Chat, history: list[Json]) -> None:
    observed = False  # whether the message before was a text action, so that this one is its observation
    demonstration = False
    for number, message in enumerate(history):
        role, content, demo = message.get("role"), message.get("content"), message.get("is_demo") is True
        if role == "assistant":
            calls = as_list(message.get("tool_calls") or [], "tool_calls")
            action = message.get("action")
            observed = not calls and isinstance(action, str) and bool(action.strip())
            if observed:
                calls, content = [tool_call("bash", {"command": str(action).rstrip("\n")})], _thought(message)
            decided = not (observed and number == len(history) - 1 and _is_given_up(message, message.get("content")))
            chat.answer(content, calls, reasoning=reasoning_of(message), demo=demo, decided=decided)
            demonstration = demo
        elif role == "tool" or message.get("tool_call_ids"):
            ids = as_list(message.get("tool_call_ids") or [None], "tool_call_ids")
            chat.result(ids[0], content, demo=demo)
        elif observed and role == "user" and demo == demonstration:
            chat.result(None, content, demo=demo)
            observed = False
        else:
            chat.say(str(role), content, demo=demo)
            observed = False


def _add_step(chat: Chat, step: Json, is_last: bool) -> None:
    action = step.get("action")
    if not isinstance(action, str) or not action.strip():
        chat.answer(step.get("response") or step.get("thought"))
        return
    decided = not (is_last and _is_given_up(step, step.get("response")))
    chat.answer(step.get("thought"), [tool_call("bash", {"command": action.rstrip("\n")})], decided=decided)
    if isinstance(step.get("observation"), str):
        chat.result(None, step["observation"])


def _is_given_up(step: Json, response: Any) -> bool:
    """Return whether SWE-agent itself spoke: it ends a run by a thought (`Exit due to ...`) and an action (`exit_cost`)
    that is no part of the response. A model's action is."""
    thought, action = step.get("thought"), step.get("action")
    if not (isinstance(response, str) and isinstance(thought, str) and isinstance(action, str)):
        return False
    return bool(response.strip()) and response.strip() == thought.strip() and action.strip() not in response


def _thought(message: Json) -> Any:
    """The thought as the framework parsed it; the whole text where it did not."""
    thought = message.get("thought")
    return thought.rstrip() if isinstance(thought, str) else message.get("content")


def _instance(value: Json) -> str | None:
    config = value.get("replay_config")
    if isinstance(config, str):  # some versions write the configuration as JSON inside the JSON
        try:
            config = orjson.loads(config)
        except orjson.JSONDecodeError:
            config = None
    found = (
        value.get("instance_id"),
        dig(value, "info", "instance_id"),
        dig(config, "problem_statement", "id"),
    )
    return next((name for name in map(identity, found) if name), None)


def _keys(value: Any) -> set[str]:
    return set(value) if isinstance(value, dict) else set()


READERS = (Reader("swe_agent", 2, "SWE-agent .traj (`history`, `trajectory`)", _recognises, each(_read)),)
