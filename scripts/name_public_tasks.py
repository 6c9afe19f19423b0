"""Derive corpora/public/tasks.csv from the recorded runs: which runs concern the same subject, whoever recorded them.

    python -m scripts.name_public_tasks ../shared/trajectories

A row is written only if the reader of the runs cannot derive it. Measured on the files of November 2026:

- tau-bench and tau2-bench number their tasks differently (of 44 airline numbers one names the same customer in both),
  but serve the same 86 customers. A customer's tasks share a profile, orders and reservations: the customer is the
  group. It is the user id that the runs of a task look up; where none does, one that their results or texts mention.
- The two files of `toolorchestra` have their simulations under the numbers of other tasks (1 of 42 and 1 of 106 runs
  look up the customer of the task whose number they bear). Their runs are named one by one.
- AutoPenBench and InterCode pose some tasks in the same words; `<model>_runN` of AutoPenBench attack the machine
  `in-vitro_access_control_vm0`, which their results name.
- An instance of SWE-bench is one task whatever the agent. Its group is the bare instance id, which is what readers of
  other runs of it find.
- The groups of the test corpus are placed in the test split, whatever their hash says (`is_held_out`).
- The sessions of one OpenClaw demonstration are an agent and its sub-agents at work on one thing.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from drsr.offline.ingest import formats as sources
from drsr.offline.ingest.corpus.choice import is_held_out
from drsr.offline.ingest.corpus.task_names import COLUMNS, TABLE, NamedTask
from drsr.offline.ingest.splits import Split
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location

CORPUS = Path("corpora/public")
_TAU = ("tau-bench", "tau-bench-retail-avaljotsingh", "tau-bench-retail-xuanfeiren")
_TAU2 = ("tau2-adaptive-airline", "tau2-bench", "tau2-bench-airline-retail")
_MISNUMBERED = re.compile(r"toolorchestra_(airline|retail)_gpt-5_1trial\.json")
_SWE_BENCH = ("mini-swe-agent-gemini3", "moatless-tools", "swe-agent-v0")
_ONE_BUG = {"SWE-agent__test-repo-i1", "swe-agent__test-repo-i1", "function_calling_simple"}
"""Demonstrations of SWE-agent that mend the same missing colon."""
_RUN_ON_VM0 = re.compile(r"[\w.-]+_run\d\.json#0")
_USER_ID = re.compile(r"\b[a-z]+_[a-z]+_\d{4}\b(?<!card_\d{4})")
_ASKED_FOR = re.compile(rf'"user_id":\s*"({_USER_ID.pattern})"')
_SHARE = 1 / 3
"""Minimum share of a task's runs: a customer that fewer of them look up is a slip of the agent and joins no groups."""


class Found(NamedTuple):
    """A run, and the name of its task across sources."""

    source: str
    path: str
    read_as: str
    task: str
    trajectory: Trajectory


def found_runs(mirror: str) -> Iterator[Found]:
    """Read every run of a mirror of the public sources."""
    for file in sources.gather(open_location(mirror)):
        for item in sources.read(file):
            if isinstance(item, Trajectory):
                read_as, task = _named(file.source, file.path_in_source, item)
                yield Found(file.source, file.path_in_source, read_as, task, item)


def named_tasks(runs: Iterable[Found]) -> list[NamedTask]:
    """Return the rows of the table: every task or run whose name, group or split differs from what its reader says."""
    named = list(runs)
    groups = _customers(named) | _same_words(named)
    rows = set()
    for run in named:
        group = groups.get(run.task) or _group(run)
        read = run.trajectory.task
        split: Split | None = "test" if is_held_out(group) else None
        if (run.task, group, split) != (read, read, None):
            rows.add(NamedTask(run.source, run.read_as, run.task, group, split))
    return sorted(rows)


def write(rows: Iterable[NamedTask], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*row[:-1], row.split or ""] for row in rows)


def _named(source: str, path: str, run: Trajectory) -> tuple[str, str]:
    """Return what the table knows a run by, and the name of its task."""
    task = run.task or ""
    misnumbered = _MISNUMBERED.fullmatch(path)
    if misnumbered:
        return run.external_id, f"tau2/{misnumbered[1]}/toolorchestra-{task.rpartition('/')[2]}"
    if source in _TAU:
        return task, f"tau/{task}"
    if source in _TAU2:
        return task, task if task.startswith("tau2/") else f"tau2/airline/{task}"
    if source in _SWE_BENCH:
        return task, f"swebench/{task}"
    if source == "openhands-codeact-0.15":
        return run.external_id, f"swebench/{path.partition('/')[0]}"
    if source == "autopenbench" and _RUN_ON_VM0.fullmatch(run.external_id):
        return run.external_id, "autopenbench/in-vitro_access_control_vm0"
    if source == "docent-inspect-ctf":
        return task, f"intercode/ctf/{task.rpartition('/')[2]}"
    return (task or run.external_id), (task or run.external_id)


def _group(run: Found) -> str:
    if run.task.startswith("swebench/"):
        return run.task.removeprefix("swebench/")
    if run.source == "swe-agent-demos" and run.task in _ONE_BUG:
        return "swe-agent__test-repo-i1"
    if run.source == "openclaw-sessions":
        return f"openclaw/{run.path.partition('/')[0]}"
    return run.task


def _customers(runs: list[Found]) -> dict[str, str]:
    """Return the group of every task of both tau benchmarks: its customer, or itself if no run shows one."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    shown: Counter[str] = Counter()
    for run in runs:
        if run.source in _TAU + _TAU2:
            customers = _customers_of(run.trajectory)
            seen[run.task].update(customers)
            shown[run.task] += bool(customers)
    edges = [
        (task, customer)
        for task, counts in seen.items()
        for customer, count in counts.items()
        if count >= _SHARE * shown[task]
    ]
    return _joined(edges, "tau/customer/")


def _customers_of(run: Trajectory) -> set[str]:
    messages = run.request["messages"]
    calls = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls") or []]
    asked = {match[1] for call in calls for match in _ASKED_FOR.finditer(call)}
    results = " ".join(str(message["content"]) for message in messages if message["role"] == "tool")
    texts = " ".join(str(message["content"]) for message in messages if message["role"] == "user")
    return asked or set(_USER_ID.findall(results)) or set(_USER_ID.findall(texts))


def _same_words(runs: list[Found]) -> dict[str, str]:
    """Return the group of every task of AutoPenBench and InterCode that opens with the words of another one."""
    edges = {(run.task, _opening(run.trajectory)) for run in runs if run.source in ("autopenbench", "intercode")}
    tasks = Counter(words for _, words in edges)
    return _joined([(task, words) for task, words in edges if tasks[words] > 1], None)


def _opening(run: Trajectory) -> str:
    """Return the words of the first message, whatever is between them: terminals leave marks around a paste."""
    return " ".join(
        re.findall(r"[a-z]+|\d+", re.sub(r"\x1b\[\d+~", "", str(run.request["messages"][0]["content"])).lower())
    )


def _joined(edges: list[tuple[str, str]], prefix: str | None) -> dict[str, str]:
    """Return a name for the component of every left end: its first right end after the prefix, else its first left."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(node: tuple[str, str]) -> tuple[str, str]:
        while parent.setdefault(node, node) != node:
            node = parent[node]
        return node

    for left, right in edges:
        parent[root(("left", left))] = root(("right", right))
    side = "left" if prefix is None else "right"
    names: dict[tuple[str, str], str] = {}
    for node in sorted(parent):
        if node[0] == side:
            names.setdefault(root(node), f"{prefix or ''}{node[1]}")
    return {left: names[root(("left", left))] for left, _ in edges}


if __name__ == "__main__":
    table = named_tasks(found_runs(sys.argv[1]))
    write(table, CORPUS / TABLE)
    print(f"{len(table):,} rows of {len({row.group for row in table}):,} groups")
