"""The sandbox's tasks as a suite: a seeded folder, a goal, tools that really execute, and a check of what was done.

The id of a task is `domain/family/seed-instance`, as in the corpus, and everything follows from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from drsr.errors import ManifestError
from drsr.offline.sandbox.corpus import FAMILIES
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.recorder import BRIEF_SHARE, Task
from drsr.offline.sandbox.workshop.tools import tool_schemas
from drsr.offline.sandbox.workshop.workspace import Workspace, open_workspace

Json = dict[str, Any]
_IDENTITY = re.compile(r"(?P<family>\w+/\w+)/(?P<seed>\d+)-(?P<instance>\d{3,})")


class SandboxSuite:
    """Every family of the corpus, any seed."""

    executes_here = True

    @contextmanager
    def open(self, task: str) -> Iterator[SandboxEnvironment]:
        found = sandbox_task(task)
        with open_workspace() as workspace:
            scenario = found.family.prepare(Random(found.identity), workspace.root)
            if Random(f"brief\n{found.identity}").random() < BRIEF_SHARE:
                scenario = scenario.made_brief()
            yield SandboxEnvironment(found, scenario, workspace)


def sandbox_task(identity: str) -> Task:
    """Return the task with that id."""
    found = _IDENTITY.fullmatch(identity)
    families = {f"{family.domain}/{family.name}": family for family in FAMILIES}
    family = families.get(found["family"]) if found else None
    if found is None or family is None:
        raise ManifestError(f"the sandbox has no task {identity!r}", hint="such as code/crash/640-000")
    return Task(family, int(found["seed"]), int(found["instance"]))


class SandboxEnvironment:
    """One task. The user answers questions as often as they are asked."""

    def __init__(self, task: Task, scenario: Scenario, workspace: Workspace) -> None:
        self._family = task.family
        self._scenario = scenario
        self._workspace = workspace
        self._answered = 0
        self._said = ""

    @property
    def opening(self) -> Json:
        messages = [
            {"role": "system", "content": self._family.system},
            {"role": "user", "content": self._scenario.prompt},
        ]
        return {"messages": messages, "tools": tool_schemas(self._family.tools)}

    def follow(self, message: Json) -> Sequence[Json] | None:
        calls = message.get("tool_calls") or []
        self._said = "" if calls else str(message.get("content") or "")
        if calls:
            return [{"role": "tool", "tool_call_id": made["id"], "content": self._call(made)} for made in calls]
        replies = self._scenario.replies
        if self._answered < len(replies):
            self._answered += 1
        elif not (replies and self._said.rstrip().endswith("?")):
            return None
        return [{"role": "user", "content": replies[self._answered - 1]}]

    def reward(self) -> float:
        return float(self._family.check(Outcome(self._scenario, self._workspace.root, self._said)))

    def _call(self, made: Json) -> str:
        """Execute a call. A model may call anything with anything; what cannot be done is reported as a tool would
        report it."""
        function = made["function"]
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except ValueError:
            return "error: the arguments are not JSON"
        if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
            return "error: every argument is a text"
        if function["name"] not in self._family.tools:
            return f"error: there is no tool {function['name']}"
        try:
            return self._workspace.call(function["name"], arguments)
        except KeyError as missing:
            return f"error: the argument {missing.args[0]!r} is missing"
        except (OSError, ValueError) as error:
            return f"error: {type(error).__name__}"
