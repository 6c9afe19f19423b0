"""Choose the runs of a corpus: outcome-blind, by size, task and agent, and drawn by a salted hash.

The rule sees what a run is about and how long it is, never what it scored or what any measurement found. The chosen
runs are written to the corpus's `runs.csv`, which is what an ingest takes; a test chooses again and compares.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from drsr.errors import InputError
from drsr.offline.ingest.corpus.table import Corpus, sound_rows
from drsr.offline.ingest.corpus.task_names import TaskNames
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location

SALT = "drsr/corpus/1"
CHOSEN = "runs.csv"


class RunFacts(NamedTuple):
    """Facts about a run that the rule may know, and no others."""

    source: str
    external_id: str
    task: str
    group: str
    """Group that must stay on one side of a split: the task, or the subject of several tasks."""
    agent: str
    domain: str
    tool_steps: int
    characters: int


class ChoiceRule(NamedTuple):
    """The numbers of a rule of choice."""

    tool_steps: int = 7
    """The fewest tool Steps of a run: with fewer, there are no four candidates before the latest two."""
    characters: tuple[int, int] = (4_000, 36_000)
    shorter: tuple[str, int] = ("intercode", 2_000)
    """A source whose runs may be shorter, and the fewest characters there."""
    left_out: str = "/injection_task_"
    """Tasks with this in their name: AgentDojo's injected goals also occur in the tool results of other tasks' runs."""
    runs_per_task: int = 3
    """Each by another agent."""
    runs_per_domain: int = 300
    test_share: float = 0.06
    """The share of groups held out for the test corpus, beside the hash split of the rest."""
    test_groups: str = "agentdojo/travel/"
    """Groups whose names begin like this are all held out."""


def candidates(corpus: Corpus, names: TaskNames, folder: Path) -> Iterator[RunFacts]:
    """Measure every run of a fetched corpus."""
    files = {file.local: file for file in corpus.files}
    for found in gather(open_location(str(folder))):
        file = files.get(f"{found.source}/{found.path_in_source}")
        for run in read(found) if file is not None else ():
            if isinstance(run, Trajectory):
                assert file is not None
                row = names.find(file.source, run.external_id, run.task)
                task = row.task if row else run.task or f"{file.source}/{run.external_id}"
                yield facts(run, file.source, task, row.group if row else task, file.agent, file.domain)


def facts(trajectory: Trajectory, source: str, task: str, group: str, agent: str, domain: str) -> RunFacts:
    """Measure a run: tool Steps, and characters of text, calls and results."""
    messages = trajectory.request["messages"]
    steps = sum(bool(message.get("tool_calls")) for message in messages)
    characters = sum(_characters(message) for message in messages)
    return RunFacts(source, trajectory.external_id, task, group, agent, domain, steps, characters)


def choose(runs: Iterable[RunFacts], rule: ChoiceRule = ChoiceRule()) -> list[RunFacts]:  # noqa: B008  # immutable
    """Apply the rule. The order of the runs does not matter."""
    by_task: defaultdict[str, list[RunFacts]] = defaultdict(list)
    for run in runs:
        if _fits(run, rule):
            by_task[run.task].append(run)
    kept = [run for task in by_task.values() for run in _of_one_task(task, rule)]
    return sorted(_balanced(kept, rule))


def is_held_out(group: str, rule: ChoiceRule = ChoiceRule()) -> bool:  # noqa: B008  # immutable
    """Return whether a group belongs to the test corpus: `tasks.csv` places such a group in the test split."""
    return group.startswith(rule.test_groups) or _draw("use", group) < rule.test_share


def write_chosen(path: Path, chosen: Sequence[RunFacts]) -> None:
    """Write the chosen runs as the table that an ingest takes."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(RunFacts._fields)
        writer.writerows(chosen)


def load_chosen(corpus: Corpus) -> dict[tuple[str, str], RunFacts]:
    """Load the chosen runs of a corpus by source and external id. Raises InputError where there are none."""
    path = corpus.folder / CHOSEN
    try:
        runs = [run_facts(row) for _, row in sound_rows(path, RunFacts._fields)]
    except (InputError, ValueError) as error:
        hint = f"drsr corpus choose {corpus.name} writes it from the fetched files"
        raise InputError(f"the table of chosen runs cannot be read: {error}", where=str(path), hint=hint) from None
    return {(run.source, run.external_id): run for run in runs}


def run_facts(row: list[str]) -> RunFacts:
    """Return a row of the table as a value. Raises ValueError where a size is not a whole number."""
    return RunFacts(row[0], row[1], row[2], row[3], row[4], row[5], int(row[6]), int(row[7]))


def _characters(message: dict[str, object]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    calls = message.get("tool_calls") or []
    assert isinstance(calls, list)
    written = sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) for call in calls)
    return sum(len(text) for text in texts if isinstance(text, str)) + written


def _fits(run: RunFacts, rule: ChoiceRule) -> bool:
    source, fewest = rule.shorter
    least, most = rule.characters
    if rule.left_out in run.task:
        return False
    return run.tool_steps >= rule.tool_steps and (fewest if run.source == source else least) <= run.characters <= most


def _of_one_task(runs: Sequence[RunFacts], rule: ChoiceRule) -> list[RunFacts]:
    """The first runs of a task in the drawn order, at most one by each agent."""
    drawn = sorted(runs, key=lambda run: _draw(run.source, run.external_id))
    by_agent = {run.agent: run for run in reversed(drawn)}
    first = sorted(by_agent.values(), key=drawn.index)
    return first[: rule.runs_per_task]


def _balanced(runs: Sequence[RunFacts], rule: ChoiceRule) -> list[RunFacts]:
    """At most so many runs of a domain: its sources in turn, and every task's first run before any task's second."""
    of_task, of_source, taken = Counter[str](), Counter[str](), Counter[str]()
    drawn = sorted(runs, key=lambda run: _draw(run.source, run.external_id))
    turns = {run: _next(of_task, run.task) for run in drawn}
    by_task = sorted(drawn, key=lambda run: (turns[run], _draw(run.task)))
    places = {run: _next(of_source, run.source) for run in by_task}
    in_turn = sorted(by_task, key=lambda run: (places[run], run.source))
    return [run for run in in_turn if _next(taken, run.domain) < rule.runs_per_domain]


def _next(counter: Counter[str], key: str) -> int:
    counter[key] += 1
    return counter[key] - 1


def _draw(*what: str) -> float:
    digest = hashlib.sha256("\0".join((SALT, *what)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
