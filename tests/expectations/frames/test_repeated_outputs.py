"""Which sentences are a framework's, by how often and where they are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drsr.expectations.frames.repeated_outputs import AT_WORK, IN_TALK, Output, Said, outputs_alone, repeated_outputs
from drsr.offline.ingest.feeds.limits import Limits
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore

SENTENCE = 'He said "stop":\nbudget ' + "used up " * 40


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


def stored(store: ArtifactStore, sentence: str) -> str:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": sentence}]
    return store.put(Trajectory("r", "openai", {"messages": messages}, "x/1").to_json())


def said(blob: str, tasks: list[str], befores: list[str], in_talk: bool = False) -> list[Said]:
    places = zip(tasks, befores, strict=True)
    return [Said(Output("w", before, in_talk), "agents", task, blob, 1) for task, before in places]


def names(count: int, *, different: int | None = None) -> list[str]:
    return [str(number % (different or count)) for number in range(count)]


@pytest.mark.parametrize(
    ("tasks", "befores", "in_talk", "states", "found"),
    [
        (names(3), names(3), False, 100, True),
        (names(2), names(2), False, 100, False),
        (names(9, different=2), names(9), False, 100, False),  # trials of two tasks
        (names(37), names(37, different=1), False, 100, False),  # the same answer to the same result
        (names(9), names(9), False, 10_000, False),  # one in a thousand
        (names(50), names(50), False, 10_000, True),
        (names(28), names(28, different=26), True, 1_833, False),  # "You're welcome! Have a great day!"
        (names(9), names(9), True, 50, False),
        (names(10), names(10), True, 100, True),
    ],
)
def test_how_often_is_too_often(
    store: ArtifactStore, tasks: list[str], befores: list[str], in_talk: bool, states: int, found: bool
) -> None:
    targets = said(stored(store, "Run ended"), tasks, befores, in_talk)
    assert len(repeated_outputs(targets, {"agents": states}, {}, store)) == found


def test_what_is_said_at_work_twice_counts_in_talk_too(store: ArtifactStore) -> None:
    blob = stored(store, "Run ended")
    talk = said(blob, names(2), names(2), in_talk=True)
    for at_work, found in ((1, 0), (2, 1)):
        work = said(blob, [f"w{task}" for task in names(at_work)], [f"r{task}" for task in names(at_work)])
        assert len(repeated_outputs(talk + work, {"agents": 100}, {}, store)) == found


def test_sources_are_judged_apart_and_every_sentence_is_spelled_as_the_file_wants_it(store: ArtifactStore) -> None:
    blob = stored(store, SENTENCE)
    here = said(blob, names(3), names(3))
    there = [one._replace(source="my agents", task=f"{one.task}!") for one in here]
    found = repeated_outputs(here + there[:2], {"agents": 60, "my agents": 60}, {}, store)
    assert found["source"].tolist() == ["agents"]
    found = repeated_outputs(there, {"my agents": 60}, {}, store)
    (row,) = found.to_dict("records")
    words = 'He said \\"stop\\": budget ' + "used up " * 40
    assert row == {"source": '"my agents"', "words": f'"{words[:202]}…"', "tasks": 3, "states": 3, "of_states": 60}
    accepted = {"my agents": Limits(model_says=('He said "stop": …',))}
    assert repeated_outputs(there, {"my agents": 60}, accepted, store).empty
    assert not repeated_outputs(here, {"agents": 60}, accepted, store).empty


def test_the_outputs_that_are_looked_at() -> None:
    def result(text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": text, "content": text}]}

    sentence = {"role": "assistant", "content": [{"type": "text", "text": "Run ended:\n no money"}]}
    short, same = {"role": "assistant", "content": "Yes."}, {"role": "assistant", "content": "Run ended: no money"}
    call = {"role": "assistant", "content": "Run ended: no money", "tool_calls": [{}]}
    messages = [sentence, result("a"), sentence, result("a"), same, {"role": "user", "content": "a"}, sentence]
    messages += [result("b"), short, result("c"), call, {"role": "tool", "tool_call_id": "c", "content": "b"}, same]
    found = outputs_alone(Trajectory("r", "anthropic", {"messages": messages}, "x/1"))
    assert list(found) == [2, 4, 6, 12]
    assert found[2] == found[4]
    assert (found[6].words, found[6].before, found[6].in_talk) == (found[2].words, found[2].before, True)
    assert (found[12].before == found[2].before, found[12].in_talk) == (False, False)


def test_a_share_is_never_less_than_so_many() -> None:
    assert [AT_WORK.reached(count, 10) for count in (2, 3)] == [False, True]
    assert [IN_TALK.reached(count, 1_000) for count in (99, 100)] == [False, True]
