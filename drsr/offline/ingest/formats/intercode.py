"""InterCode: one object of runs per file; `turn_history.actions[i]` is answered by `turn_history.observations[i]`.

The prompts are not recorded: a run is its query, its actions and what the environment answered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, tool_call
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_TOOLS = {"ic_sql": ("sql", "query"), "ic_bash": ("bash", "command"), "ic_ctf": ("bash", "command")}
"""Tool and argument of every environment's actions."""
_DOMAINS = {"ic_sql": "office and data", "ic_bash": "code", "ic_ctf": "security"}
_FILE_SYSTEM = re.compile(r"nl2bash_fs_(\d+)")


def _recognises(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and _is_run(next(iter(value.values())))


def _is_run(value: Any) -> bool:
    history = dig(value, "turn_history")
    return isinstance(history, dict) and {"actions", "observations"} <= history.keys() and "query" in value


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    for record in records:
        for key, run in record.value.items():
            place = f"{record.place} {key}"
            try:
                yield _run(key, as_dict(run, "a run"), place)
            except Unreadable as problem:
                yield Quarantined(place, problem.reason, problem.detail)


def _run(key: str, run: Json, place: str) -> Run:
    environment = run.get("environment")
    if not isinstance(environment, str) or environment not in _TOOLS:
        known = ", ".join(_TOOLS)
        raise Unreadable("malformed", f"environment should be one of {known} and is {str(environment)[:60]!r}")
    tool, argument = _TOOLS[environment]
    actions = as_list(dig(run, "turn_history", "actions"), "actions")
    observations = as_list(dig(run, "turn_history", "observations"), "observations")
    if len(actions) != len(observations):
        raise Unreadable("malformed", f"{len(actions)} actions and {len(observations)} observations")
    chat = Chat()
    chat.say("user", run.get("query"))
    for action, observation in zip(actions, observations, strict=True):
        chat.answer(None, [tool_call(tool, {argument: action})])
        chat.result(None, observation if isinstance(observation, str) else str(observation))
    return Run(
        place,
        "openai",
        {"messages": chat.messages()},
        local_id=key,
        task=_task(run, environment),
        domain=_DOMAINS[environment],
        reward=score(dig(run, "summary", "max_reward")),
    )


def _task(run: Json, environment: str) -> str | None:
    """`intercode/sql/17`: tasks are numbered within their data set, of which bash has one per file system."""
    number, dataset = identity(run.get("task_id")), str(run.get("dataset") or "")
    if number is None:
        return None
    name = environment.removeprefix("ic_")
    file_system = _FILE_SYSTEM.search(dataset)
    part = f"/fs{file_system[1]}" if file_system else ""
    return f"intercode/{name}{part}/{number}"


READERS = (
    Reader("intercode", 1, "InterCode results (an object of runs with `query` and `turn_history`)", _recognises, _read),
)
