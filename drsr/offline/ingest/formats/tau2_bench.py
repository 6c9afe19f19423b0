"""tau2-bench: `simulations[].messages`, flat calls whose arguments are objects, results with the call's id in `id`.

The simulated user may call tools too (`requestor: "user"`): those calls and results are no part of the agent's history.
The system prompt is the policy, which stands in `info.environment_info`. Where an agent works alone (solo mode) no user
says what to do: the task's `ticket` does, and equal tickets are one task, whatever their ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat
from drsr.offline.ingest.formats.openai_chat import reasoning_of
from drsr.offline.ingest.formats.reader import Found, Reader, Run, as_dict, as_list, dig, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json, Quarantined
from drsr.offline.store.source_files import SourceFile, Unreadable

_RESULTS = frozenset({"timestamp", "info", "tasks", "simulations", "simulation_index"})
"""The keys of a file of results."""


def _recognises(value: Any) -> bool:
    simulations = value.get("simulations") if isinstance(value, dict) else None
    if not isinstance(simulations, list):
        return False
    if not simulations:
        return set(value) <= _RESULTS
    return any(isinstance(dig(one, "messages"), list) and "task_id" in one for one in simulations)


def _is_solo(value: Any) -> bool:
    return _recognises(value) and bool(_tickets(value)) and not any(map(_has_user, value["simulations"]))


def _has_user(simulation: Any) -> bool:
    messages = dig(simulation, "messages")
    return isinstance(messages, list) and any(dig(message, "role") == "user" for message in messages)


def _tickets(value: Json) -> dict[str, str]:
    """The text of every task that has a ticket, by the task's id."""
    tasks = value["tasks"] if isinstance(value.get("tasks"), list) else []
    found = {identity(dig(task, "id")): dig(task, "ticket") for task in tasks}
    return {name: text for name, text in found.items() if name and isinstance(text, str) and text.strip()}


def _read(records: Iterator[Record], file: SourceFile) -> Iterator[Found]:
    for record in records:
        environment = dig(record.value, "info", "environment_info")
        tickets = _tickets(record.value) if _is_solo(record.value) else {}
        for index, simulation in enumerate(as_list(dig(record.value, "simulations"), "simulations")):
            place = f"{record.place} simulations[{index}]"
            try:
                yield _run(as_dict(simulation, "a simulation"), environment, place, tickets)
            except Unreadable as problem:
                yield Quarantined(place, problem.reason, problem.detail)


def _run(simulation: Json, environment: Any, place: str, tickets: dict[str, str]) -> Run:
    domain, task = identity(dig(environment, "domain_name")), identity(simulation.get("task_id"))
    chat = Chat()
    chat.say("system", dig(environment, "policy"))
    if task in tickets:
        chat.say("user", tickets[task])
        task = f"ticket-{hashlib.sha256(' '.join(tickets[task].split()).encode()).hexdigest()[:16]}"
    for message in as_list(simulation.get("messages"), "messages"):
        _add(chat, as_dict(message, "a message"))
    request: Json = {"messages": chat.messages()}
    tools = dig(environment, "tool_defs")
    if tools is not None and as_list(tools, "tool_defs"):
        request["tools"] = tools
    return Run(
        place,
        "openai",
        request,
        run_id=identity(simulation.get("id")),
        task=f"tau2/{domain}/{task}" if domain and task else task,
        domain=domain,
        reward=score(dig(simulation, "reward_info", "reward")),
    )


def _add(chat: Chat, message: Json) -> None:
    role = message.get("role")
    if role == "assistant":
        calls = as_list(message.get("tool_calls") or [], "tool_calls")
        chat.answer(message.get("content"), calls, reasoning=reasoning_of(message))
    elif role == "tool":
        results = message["tool_messages"] if isinstance(message.get("tool_messages"), list) else [message]
        for result in results:
            if dig(result, "requestor") != "user":
                chat.result(dig(result, "id"), dig(result, "content"))
    elif role == "user":
        chat.say("user", message.get("content"))
    else:
        chat.say("system", message.get("content"))


READERS = (
    Reader(
        "tau2_bench",
        1,
        "tau2-bench results (`simulations`)",
        lambda value: _recognises(value) and not _is_solo(value),
        _read,
    ),
    Reader("tau2_solo", 1, "tau2-bench results of an agent alone (`simulations`, `tasks[].ticket`)", _is_solo, _read),
)
