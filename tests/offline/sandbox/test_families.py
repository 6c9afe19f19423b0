from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from drsr.offline.sandbox.agent import task_dice
from drsr.offline.sandbox.corpus import FAMILIES
from drsr.offline.sandbox.family import Family, Outcome
from drsr.offline.sandbox.recorder import Task, run_task
from drsr.offline.sandbox.visible import user_replies

# One instance beyond the committed corpus: the families must not only work for the seeds that were looked at.
QUICK = [family for family in FAMILIES if family.name != "failing_test"]


def _name(family: Family) -> str:
    return f"{family.domain}/{family.name}"


@pytest.mark.parametrize("family", FAMILIES, ids=_name)
def test_an_untouched_folder_does_not_pass_the_check(family: Family, tmp_path: Path) -> None:
    scenario = family.prepare(Random("check"), tmp_path)
    everything = " ".join(scenario.truth.values())
    assert not family.check(Outcome(scenario, tmp_path, everything)), "words alone are not enough"


@pytest.mark.parametrize("family", QUICK, ids=_name)
def test_a_good_folder_with_a_wrong_answer_does_not_pass_the_check(family: Family) -> None:
    task = Task(family, seed=7, instance=0)

    def vague(messages: list[dict]) -> dict:
        message = task.agent(messages)
        if message.get("tool_calls") or _questions_left(task, messages):
            return message
        return {"role": "assistant", "content": "All done."}

    assert run_task(task).reward == 1.0
    assert run_task(task, vague).reward == 0.0  # type: ignore[arg-type]


def _questions_left(task: Task, messages: list[dict]) -> bool:
    questions = sum(planned.asks for planned in task.family.plan(task_dice(messages)))
    return len(user_replies(messages)) < questions


@pytest.mark.parametrize("family", FAMILIES, ids=_name)
def test_plans_and_folders_differ_between_instances(family: Family, tmp_path: Path) -> None:
    prompts, plans = set(), set()
    for instance in range(12):
        scenario = family.prepare(Random(f"differ {instance}"), tmp_path / str(instance))
        prompts.add(scenario.prompt)
        plans.add(tuple(planned.name for planned in family.plan(Random(instance))))
    assert len(prompts) >= 11
    assert len(plans) >= 6


def test_every_family_has_its_own_system_prompt() -> None:
    assert len({family.system for family in FAMILIES}) == len(FAMILIES)
