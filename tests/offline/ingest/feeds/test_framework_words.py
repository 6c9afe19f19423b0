"""A sentence that a framework says in the model's place, from the night that finds it to the line that settles it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.expectations.inputs import Fingerprints
from drsr.expectations.judging import judge
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import DecisionState, Trajectory
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.framework_words import Words, words_alone
from drsr.offline.ingest.feeds.limits import load_words
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory as Recorded
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.verdicts import Verdict
from drsr.request.view import Caps
from tests.offline.chat_files import write_json, write_lines, write_text

GAVE_UP = "Run ended: the budget is used up."
STEPS = 6
REPEATED = "states: no sentence is the next output of several tasks"
NO_DECISION = "states: a state is a decision that a model made behind its request"


@pytest.fixture
def database() -> str:
    """One kind is enough: nothing here is written for a database, and every night is judged by the real library."""
    return "sqlite"


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A working directory without feeds, and files that are not doubted because they are new."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)


def swe_agent(task: int, last: str) -> dict[str, Any]:
    """A run as SWE-agent 1 writes it: the sentence that ends it has no action."""
    history = [
        {"role": "system", "content": "You use a shell.", "message_type": "system_prompt"},
        {"role": "user", "content": f"Mend fault {task}", "message_type": "observation"},
    ]
    for step in range(STEPS):
        said, action = f"Thought {task} {step}", f"cat file{step}_{task}"
        content = f"{said}\n```\n{action}\n```"
        history.append({"role": "assistant", "content": content, "thought": said, "action": action})
        history.append({"role": "user", "content": f"content {task} {step} " * (step + 2)})
    history.append({"role": "assistant", "content": last, "thought": last, "action": ""})
    return {"environment": "main", "history": history, "info": {}}


def claude_code(task: int, last: str) -> list[dict[str, Any]]:
    """A session as Claude Code writes it."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, message: dict[str, Any]) -> None:
        parent = lines[-1]["uuid"] if lines else None
        known = {"sessionId": f"s{task}", "uuid": f"{task}-{len(lines)}", "parentUuid": parent, "isSidechain": False}
        lines.append({"type": kind, "message": message, **known, "timestamp": "2026-01-01T00:00:00Z"})

    def say(block: dict[str, Any]) -> None:
        add("assistant", {"id": f"m{task}-{len(lines)}", "role": "assistant", "model": "claude", "content": [block]})

    add("user", {"role": "user", "content": f"Mend fault {task}"})
    for step in range(STEPS):
        say({"type": "tool_use", "id": f"c{step}", "name": "Read", "input": {"path": f"file{step}_{task}"}})
        result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": f"content {task} {step} " * (step + 2)}
        add("user", {"role": "user", "content": [result]})
    say({"type": "text", "text": last})
    return lines


FORMS = {
    "swe-agent": lambda path, task, last: write_json(path.with_suffix(".traj"), swe_agent(task, last)),
    "claude-code": lambda path, task, last: write_lines(path.with_suffix(".jsonl"), claude_code(task, last)),
}


def deliver(folder: Path, form: str, given_up: int, honest: int = 4) -> None:
    for task in range(given_up + honest):
        last = GAVE_UP if task < given_up else f"I have mended fault {task} in its own way."
        FORMS[form](folder / f"task{task}", task, last)


def night(catalog: Catalog, artifacts: ArtifactStore, folder: Path) -> list[Verdict]:
    """Read, freeze and judge as a night does; return the rules that are broken."""
    ingest(catalog, artifacts, str(folder), source="agents", words_of=load_words())
    freeze(catalog, artifacts, ScriptedTokenizer(), Caps(10_000, 1_000))
    return [verdict for verdict in judge(catalog, artifacts, ("states",)) if not verdict.passed]


def states(catalog: Catalog) -> int:
    """Count the states of current runs."""
    query = select(func.count()).select_from(DecisionState).join(Trajectory).where(Trajectory.is_current())
    with catalog.reading() as connection:
        return connection.execute(query).scalar_one()


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_sentence_turns_the_night_red_until_somebody_says_whose_it_is(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, form: str
) -> None:
    deliver(tmp_path / "runs", form, given_up=3)
    for _ in range(2):  # also on a night that finds nothing new
        (broken,) = night(catalog, artifacts, tmp_path / "runs")
        assert broken.check == REPEATED
        assert f'source agents, words "{GAVE_UP}", tasks 3, states 3, of_states {states(catalog)}' in broken.detail
        assert f'under [agents], who says it: framework_says = ["{GAVE_UP}"]' in broken.detail
    before = states(catalog)

    write_text(tmp_path / "feeds.toml", f'[agents]\nmodel_says = ["{GAVE_UP}"]\n')
    assert (night(catalog, artifacts, tmp_path / "runs"), states(catalog)) == ([], before)

    write_text(tmp_path / "feeds.toml", f'[agents]\nframework_says = ["{GAVE_UP}"]\n')
    assert night(catalog, artifacts, tmp_path / "runs") == []
    with catalog.reading() as connection:
        versions = connection.execute(select(Trajectory.external_id).where(Trajectory.version == 2)).scalars().all()
    assert len(versions) == 3, "only the runs that say it were read otherwise"
    deliver(tmp_path / "runs", form, given_up=5)
    assert night(catalog, artifacts, tmp_path / "runs") == [], "a later delivery makes no such states"

    (tmp_path / "feeds.toml").unlink()
    assert [broken.check for broken in night(catalog, artifacts, tmp_path / "runs")] == [REPEATED]


def test_words_in_runs_that_are_not_read_again_are_named_one_by_one(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    """A night that reads a new folder every day does not see the older ones; two states of theirs are enough."""
    deliver(tmp_path / "old", "swe-agent", given_up=2)
    assert night(catalog, artifacts, tmp_path / "old") == []
    write_text(tmp_path / "feeds.toml", '[default]\nframework_says = ["Run ended: …"]\n')
    deliver(tmp_path / "new", "claude-code", given_up=1)
    (broken,) = night(catalog, artifacts, tmp_path / "new")
    assert broken.check == NO_DECISION
    assert broken.detail.startswith("2 of ")
    assert "drsr withdraw 'agents/task0.traj#0' --reason" in broken.detail
    assert night(catalog, artifacts, tmp_path / "old") == []


def test_a_longer_export_of_a_run_whose_words_are_known_by_now_is_the_same_run(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_lines(tmp_path / "runs" / "b.jsonl", claude_code(1, GAVE_UP))
    night(catalog, artifacts, tmp_path / "runs")
    write_text(tmp_path / "feeds.toml", f'[agents]\nframework_says = ["{GAVE_UP}"]\n')
    longer = claude_code(1, GAVE_UP)
    longer.append({**longer[0], "uuid": "later", "parentUuid": longer[-1]["uuid"]})
    write_lines(tmp_path / "runs" / "a.jsonl", longer)
    night(catalog, artifacts, tmp_path / "runs")
    with catalog.reading() as connection:
        current = connection.execute(select(Trajectory.messages).where(Trajectory.is_current())).scalars().all()
    assert current == [15], "not a fork beside it"


@pytest.mark.parametrize("dataset", ["trajectories", "states"])
def test_what_was_judged_is_judged_again_when_the_file_changes(catalog: Catalog, tmp_path: Path, dataset: str) -> None:
    before = Fingerprints(catalog).of(dataset)
    write_text(tmp_path / "feeds.toml", f'[agents]\nmodel_says = ["{GAVE_UP}"]\n')
    assert Fingerprints(catalog).of(dataset) != before


def test_words_are_compared_but_for_white_space() -> None:
    words = Words(("Run ended:  budget", "Stopped by …"))
    assert words.hold("Run ended:\n budget ")
    assert words.hold("Stopped by host 17 at noon")
    assert not words.hold("Run ended: budget used up")
    assert not words.hold("It was Stopped by")
    assert (Words(()).stamp, Words(("a",)).stamp == Words(("b",)).stamp) == ("", False)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": " Run\nended \x1b"}, "Run ended"),
        ({"content": [{"type": "text", "text": "Run"}, {"type": "text", "text": "ended"}]}, "Run ended"),
        ({"content": "Run ended", "tool_calls": [{}]}, None),
        ({"content": "Run ended", "reasoning_content": "hm"}, None),
        ({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Run ended"}]}, None),
        ({"content": [{"type": "tool_use"}]}, None),
        ({"content": None}, ""),
        ({"role": "user", "content": "Run ended"}, None),
    ],
)
def test_words_alone(message: dict[str, Any], expected: str | None) -> None:
    assert words_alone({"role": "assistant"} | message) == expected


def test_nothing_but_the_mark_changes() -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": GAVE_UP}]
    run = Recorded("r", "openai", {"messages": messages, "tools": []}, "x/1", task="t", only_session=True)
    marked = Words((GAVE_UP,)).marked(run)
    assert marked.request == {"messages": [messages[0], {**messages[1], "is_decision": False}], "tools": []}
    assert (marked.only_session, messages[1]) == (True, {"role": "assistant", "content": GAVE_UP})
    assert Words(("other",)).marked(run) is run
