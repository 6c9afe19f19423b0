"""Run one scripted agent on one task with real tools, and write down what happened.

    prepare the folder -> [agent's message -> tools or user answer]* -> check the folder

The agent is any function from messages to an assistant message, so a later run can put a pruning policy between the
conversation and the agent: it keeps the whole conversation here and shows the agent only what the policy leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.sandbox.agent import next_message
from drsr.offline.sandbox.family import Family, Outcome
from drsr.offline.sandbox.workshop.tools import tool_schemas
from drsr.offline.sandbox.workshop.workspace import Workspace, open_workspace

READER = "sandbox/2"
"""Changes whenever the same task would be recorded differently."""

BRIEF_SHARE = 0.45
"""Part of the tasks whose user wants no report, so that the last message repeats little of what was found out."""

MAX_MESSAGES = 40
"""Assistant messages after which a run is ended: an agent that keeps fetching what is deleted would never finish."""

Json = dict[str, Any]
Agent = Callable[[Sequence[Json]], Json]


@dataclass(frozen=True, slots=True)
class Task:
    """One instance of a family."""

    family: Family
    seed: int
    instance: int

    @property
    def identity(self) -> str:
        """`domain/family/instance`, unique for a corpus seed."""
        return f"{self.family.domain}/{self.family.name}/{self.seed}-{self.instance:03d}"

    def agent(self, messages: Sequence[Json]) -> Json:
        """Return the scripted agent of this task's family."""
        return next_message(messages, self.family.plan)


class PlayedRun(NamedTuple):
    """One agent's run on one task."""

    request: Json
    """The whole conversation, with the tools."""
    reward: float
    """1.0 if the check found the task done, else 0.0."""


def run_task(task: Task, agent: Agent | None = None) -> PlayedRun:
    """Let an agent work on a task in a fresh folder until it answers without a call, or for MAX_MESSAGES messages."""
    agent = agent or task.agent
    family = task.family
    with open_workspace() as workspace:
        scenario = family.prepare(Random(task.identity), workspace.root)
        if Random(f"brief\n{task.identity}").random() < BRIEF_SHARE:
            scenario = scenario.made_brief()
        messages: list[Json] = [
            {"role": "system", "content": family.system},
            {"role": "user", "content": scenario.prompt},
        ]
        replies = list(scenario.replies)
        for _ in range(MAX_MESSAGES):
            message = agent(messages)
            messages.append(message)
            calls = message.get("tool_calls") or []
            if calls:
                messages += [_result(workspace, made) for made in calls]
            elif replies:
                messages.append({"role": "user", "content": replies.pop(0)})
            else:
                break
        answer = str(messages[-1].get("content") or "") if messages[-1]["role"] == "assistant" else ""
        reward = float(family.check(Outcome(scenario, workspace.root, answer)))
    return PlayedRun({"messages": messages, "tools": tool_schemas(family.tools)}, reward)


def record(task: Task, number: int) -> Trajectory:
    """Return the trajectory of the task's own agent; `number` is its place in the corpus."""
    run = run_task(task)
    return Trajectory(
        external_id=f"sandbox-{task.seed}-{number:04d}",
        protocol="openai",
        request=run.request,
        reader=READER,
        task=task.identity,
        domain=task.family.domain,
        reward=run.reward,
    )


def _result(workspace: Workspace, made: Json) -> Json:
    function = made["function"]
    output = workspace.call(function["name"], json.loads(function["arguments"]))
    return {"role": "tool", "tool_call_id": made["id"], "content": output}
