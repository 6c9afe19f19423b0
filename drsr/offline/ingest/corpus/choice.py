"""Choose the runs of a corpus: outcome-blind, by size, task and agent, and drawn by a salted hash.

The rule sees what a run is about and how long it is, never what it scored or what any measurement found. The chosen
runs are written to the corpus's `runs.csv`, which is what an ingest takes; a test chooses again and compares.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from drsr.offline.ingest.trajectories import Trajectory

SALT = "drsr/corpus/1"
DOMAINS = ("code", "office and data", "security", "web and service")


class RunFacts(NamedTuple):
    """All that the rule knows of a run."""

    source: str
    external_id: str
    task: str
    agent: str
    domain: str
    tool_steps: int
    characters: int


class Rule(NamedTuple):
    """The numbers of a rule of choice."""

    tool_steps: int = 7
    """The fewest tool Steps of a run: fewer leave no four candidates behind the latest two."""
    characters: tuple[int, int] = (4_000, 36_000)
    shorter: tuple[str, int] = ("intercode", 2_000)
    """A source whose runs may be shorter, and the fewest characters there."""
    runs_per_task: int = 3
    """Each by another agent."""
    runs_per_domain: int = 300
    test_share: float = 0.12
    """The share of tasks held out for the test corpus, beside the hash split of the rest."""
    test_tasks: str = "agentdojo/travel/"
    """Tasks whose names begin like this are all held out."""


class Chosen(NamedTuple):
    """A run of the corpus. `use`: `test` where its task is held out, else `fit`."""

    run: RunFacts
    use: str


def facts(trajectory: Trajectory, source: str, task: str, agent: str, domain: str) -> RunFacts:
    """Measure a run: tool Steps, and characters of text, calls and results."""
    messages = trajectory.request["messages"]
    steps = sum(bool(message.get("tool_calls")) for message in messages)
    characters = sum(_characters(message) for message in messages)
    return RunFacts(source, trajectory.external_id, task, agent, domain, steps, characters)


def choose(runs: Iterable[RunFacts], rule: Rule = Rule()) -> list[Chosen]:  # noqa: B008  # immutable
    """Apply the rule. The same runs give the same choice in whatever order they come."""
    by_task: defaultdict[str, list[RunFacts]] = defaultdict(list)
    for run in runs:
        if _fits(run, rule):
            by_task[run.task].append(run)
    kept = [run for task in by_task.values() for run in _of_one_task(task, rule)]
    return sorted(Chosen(run, _use(run.task, rule)) for run in _balanced(kept, rule))


def _characters(message: dict[str, object]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    calls = message.get("tool_calls") or []
    assert isinstance(calls, list)
    written = sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) for call in calls)
    return sum(len(text) for text in texts if isinstance(text, str)) + written


def _fits(run: RunFacts, rule: Rule) -> bool:
    source, fewest = rule.shorter
    least, most = rule.characters
    return run.tool_steps >= rule.tool_steps and (fewest if run.source == source else least) <= run.characters <= most


def _of_one_task(runs: Sequence[RunFacts], rule: Rule) -> list[RunFacts]:
    """The first runs of a task in the drawn order, at most one by each agent."""
    drawn = sorted(runs, key=lambda run: _draw(run.source, run.external_id))
    by_agent = {run.agent: run for run in reversed(drawn)}
    first = sorted(by_agent.values(), key=drawn.index)
    return first[: rule.runs_per_task]


def _balanced(runs: Sequence[RunFacts], rule: Rule) -> list[RunFacts]:
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


def _use(task: str, rule: Rule) -> str:
    held_out = task.startswith(rule.test_tasks) or _draw("use", task) < rule.test_share
    return "test" if held_out else "fit"


def _draw(*what: str) -> float:
    digest = hashlib.sha256("\0".join((SALT, *what)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
