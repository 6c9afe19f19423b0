"""tau-bench: a list of runs, `traj` holds OpenAI chat messages. Four trials of a task share its identity."""

from __future__ import annotations

import re
from typing import Any

from drsr.offline.ingest.formats.chat_form import text_of
from drsr.offline.ingest.formats.openai_chat import conversation, is_message
from drsr.offline.ingest.formats.reader import Reader, Run, as_list, dig, each, identity, score
from drsr.offline.ingest.formats.records import Record
from drsr.offline.ingest.trajectories import Json
from drsr.offline.store.source_files import SourceFile

_POLICY = re.compile(r"#\s*(\w+) agent policy", re.I)


def _recognises(value: Any) -> bool:
    if not isinstance(value, dict) or "task_id" not in value:
        return False
    messages = value.get("traj")
    if not isinstance(messages, list):
        return False
    return is_message(messages[0]) if messages else {"reward", "info"} <= value.keys()  # empty: the run failed


def _read(value: Json, record: Record, file: SourceFile) -> Run:
    messages = conversation(as_list(value.get("traj"), "traj"))
    task, trial = identity(value.get("task_id")), identity(value.get("trial"))
    domain = _domain(messages)
    return Run(
        record.place,
        "openai",
        {"messages": messages},
        local_id=f"{task}/{trial}" if task and trial else task,
        task=f"{domain or 'tau-bench'}/{task}" if task else None,
        domain=domain,
        reward=score(value.get("reward", dig(value, "info", "reward_info", "reward"))),
    )


def _domain(messages: list[Json]) -> str | None:
    """`airline` or `retail`, from the heading of the policy in the system prompt: the run names it nowhere else."""
    system = text_of(messages[0].get("content")) if messages and messages[0]["role"] == "system" else ""
    match = _POLICY.match(system.lstrip())
    return match[1].lower() if match else None


READERS = (Reader("tau_bench", 1, "tau-bench runs (`task_id`, `reward`, `traj`)", _recognises, each(_read)),)
