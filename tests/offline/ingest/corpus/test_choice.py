"""The rule that chooses runs: outcome-blind by construction, the same in whatever order runs come, and balanced."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import InputError
from drsr.offline.ingest.corpus.choice import (
    CHOSEN,
    ChoiceRule,
    RunFacts,
    candidates,
    choose,
    facts,
    is_held_out,
    load_chosen,
    write_chosen,
)
from drsr.offline.ingest.corpus.table import Corpus, load_corpus
from drsr.offline.ingest.corpus.task_names import load_task_names
from drsr.offline.ingest.trajectories import Trajectory
from tests.trajectory_files import trajectories_folder

RULE = ChoiceRule(runs_per_domain=12)
RUNS = st.builds(
    RunFacts,
    source=st.sampled_from(["alpha", "beta", "intercode"]),
    external_id=st.uuids().map(str),
    task=st.integers(0, 9).map("task-{}".format),
    group=st.just("group"),
    agent=st.sampled_from("ABCD"),
    domain=st.sampled_from(["code", "security"]),
    tool_steps=st.integers(5, 12),
    characters=st.integers(1_000, 40_000),
)


@given(st.lists(RUNS, max_size=60, unique_by=lambda run: run.external_id), st.randoms(use_true_random=False))
def test_what_the_rule_promises(runs: list[RunFacts], random: object) -> None:
    chosen = choose(runs, RULE)
    shuffled = list(runs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose(shuffled, RULE) == chosen
    assert set(chosen) <= set(runs)
    assert all(run.tool_steps >= 7 and run.characters <= 36_000 for run in chosen)
    assert all(run.characters >= (2_000 if run.source == "intercode" else 4_000) for run in chosen)
    by_agent = Counter((run.task, run.agent) for run in chosen)
    assert max(by_agent.values(), default=1) == 1
    assert max(Counter(run.task for run in chosen).values(), default=0) <= 3
    assert max(Counter(run.domain for run in chosen).values(), default=0) <= 12


def test_every_task_has_a_run_before_any_has_two() -> None:
    runs = [RunFacts("a", f"{task}/{agent}", task, task, agent, "code", 9, 9_000) for task in "xyz" for agent in "AB"]
    assert {run.task for run in choose(runs, ChoiceRule(runs_per_domain=3))} == {"x", "y", "z"}


def test_a_run_is_measured_by_steps_and_characters() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "abc"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1234"},
        {"role": "assistant", "content": "done"},
    ]
    run = Trajectory("id", "openai", {"messages": messages}, "openai_chat/1", reward=1.0)
    assert facts(run, "s", "t", "g", "a", "code")[-2:] == (1, 3 + 4 + 2 + 4 + 4)


def test_held_out_are_the_travel_suite_and_a_share_of_the_rest() -> None:
    assert is_held_out("agentdojo/travel/user_task_1")
    drawn = sum(is_held_out(f"group-{number}") for number in range(5_000)) / 5_000
    assert 0.05 < drawn < 0.07


def test_the_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    runs = [RunFacts("a", 'id,"1"', "t", "g", "A", "code", 9, 9_000)]
    write_chosen(tmp_path / CHOSEN, runs)
    assert list(load_chosen(Corpus("small", tmp_path, ())).values()) == runs
    (tmp_path / CHOSEN).write_text("source\n")
    with pytest.raises(InputError, match="the columns must be"):
        load_chosen(Corpus("small", tmp_path, ()))


def test_the_public_corpus_is_what_its_rule_chooses() -> None:
    corpus = load_corpus("public")
    chosen = list(load_chosen(corpus).values())
    assert len(chosen) >= 650
    assert len({run.task for run in chosen}) >= 450
    assert len({run.domain for run in chosen}) == 4
    folder = trajectories_folder()
    if folder is None:
        pytest.skip("the runs of the public corpus are not here: drsr corpus fetch public")
    assert choose(candidates(corpus, load_task_names("public"), folder)) == chosen
