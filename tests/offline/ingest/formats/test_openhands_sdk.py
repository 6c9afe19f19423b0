"""OpenHands SDK events, in one file and one per file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from tests.offline.ingest.formats.files import as_lines, decisions, history, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import OPENHANDS_SDK


def test_events_become_messages() -> None:
    trajectory = one(read_bytes(as_lines(OPENHANDS_SDK)))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == ["system", "user", "assistant+2", "tool", "tool", "assistant"]
    assert messages[1]["content"] == "Fix it\n\nRemember the rules."
    assert (messages[2]["content"], messages[2]["reasoning_content"]) == ("Look at both.", "hm")
    assert [message["content"] for message in messages[3:5]] == ["wheel.py", "Action rejected: no"]
    assert trajectory.request["tools"][0]["function"]["name"] == "terminal"


def test_order_of_time_where_the_names_do_not_sort() -> None:
    shuffled = [OPENHANDS_SDK[0], *reversed(OPENHANDS_SDK[1:])]
    assert one(read_value(shuffled)).request == one(read_value(OPENHANDS_SDK)).request


def test_agent_errors_answer_their_call() -> None:
    error = {**OPENHANDS_SDK[5], "kind": "AgentErrorEvent", "error": "broken"}
    events = [*OPENHANDS_SDK[:5], error, OPENHANDS_SDK[7]]
    trajectory = one(read_value(events))
    assert trajectory.request["messages"][4]["content"] == "broken"
    assert all(step.complete for step in history(trajectory).steps)


def test_older_observations() -> None:
    older = {**OPENHANDS_SDK[4], "observation": {"kind": "X", "output": "old"}}
    events = [*OPENHANDS_SDK[:4], older, *OPENHANDS_SDK[5:]]
    assert one(read_value(events)).request["messages"][3]["content"] == "old"


def test_a_condensation_starts_a_new_stretch_of_the_same_task() -> None:
    forget: dict[str, Any] = {
        "id": "f",
        "timestamp": "2026-01-01T00:00:06",
        "source": "environment",
        "kind": "Condensation",
        "forgotten_event_ids": ["e2", "e3", "e4"],
        "summary": "Looked around.",
        "summary_offset": 2,
    }
    items = [
        item for item in read_value([*OPENHANDS_SDK[:6], forget, OPENHANDS_SDK[7]]) if isinstance(item, Trajectory)
    ]
    assert [shape(item) for item in items] == [
        ["system", "user", "assistant+2", "tool", "tool"],
        ["system", "user", "user", "assistant"],  # the rejection went with its call
    ]
    assert items[1].request["messages"][2]["content"] == "Looked around."
    assert items[0].task is not None
    assert items[0].task == items[1].task


def test_attempts_at_one_issue_are_one_task_wherever_they_lie(tmp_path: Path) -> None:
    """What stands around the quoted issue differs from attempt to attempt."""
    issue = "<issue_description>\nThe wheel  falls off.\n</issue_description>"
    for name, where, what in (("one", "a", issue), ("two", "b", issue.replace("  ", " ")), ("three", "c", "Else.")):
        events = json.loads(json.dumps(OPENHANDS_SDK))
        events[1]["llm_message"]["content"] = [{"type": "text", "text": f"Work in /workspace/{where}. {what}"}]
        folder = tmp_path / name / "events"
        folder.mkdir(parents=True)
        for number, event in enumerate(events):
            (folder / f"event-{number:05d}.json").write_text(json.dumps(event))
    found = [item for file in gather(open_location(str(tmp_path))) for item in read(file)]
    first, third, second = (item.task for item in found if isinstance(item, Trajectory))  # in order of their names
    assert first == second != third


def test_what_a_condensation_preserved_is_history_and_no_decision() -> None:
    forget = {
        "id": "f",
        "timestamp": "2026-01-01T00:00:06",
        "source": "environment",
        "kind": "Condensation",
        "forgotten_event_ids": ["e1"],
        "summary": "Fix it.",
        "summary_offset": 1,
    }
    first, second = read_value([*OPENHANDS_SDK[:6], forget, OPENHANDS_SDK[7]])
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert shape(second) == ["system", "user", "assistant+2", "tool", "tool", "assistant"]
    assert (decisions(first), decisions(second)) == ([2], [5])


def test_the_folder_of_an_attempt_is_no_part_of_its_task() -> None:
    def task(said: str) -> str | None:
        opening = {**OPENHANDS_SDK[1], "llm_message": {"role": "user", "content": said}, "extended_content": []}
        return one(read_value([OPENHANDS_SDK[0], opening, *OPENHANDS_SDK[2:]])).task

    assert task("Mend /workspace/a1/wheel.py") == task("Mend /workspace/b2/wheel.py")
    assert task("Mend it in /tmp/x") == task("Mend it in /tmp/y")
    assert task("Mend /workspace/a1/wheel.py") != task("Mend /workspace/a1/chain.py")


@pytest.mark.parametrize("named", [[], ["f-summary"]])
def test_a_second_summary_stands_where_the_first_stood(named: list[str]) -> None:
    def forget(name: str, second: int, *ids: str, **more: Any) -> dict[str, Any]:
        time = f"2026-01-01T00:00:{second:02d}"
        known = {"timestamp": time, "source": "environment", "kind": "Condensation", "forgotten_event_ids": [*ids]}
        return {"id": name, **known, **more}

    done = OPENHANDS_SDK[7]
    log = [
        *OPENHANDS_SDK[:6],
        forget("f", 6, "e2", "e3", "e4", "e5", summary="Looked.", summary_offset=2),
        done,
        forget("g", 8, "e7", *named, summary="Looked, and is done.", summary_offset=2),
        {**done, "id": "e9", "timestamp": "2026-01-01T00:00:09"},
        forget("h", 10, "e9", summary="It has no place, so nobody sees it."),
        {**done, "id": "e11", "timestamp": "2026-01-01T00:00:11"},
    ]
    runs = [item for item in read_value(log) if isinstance(item, Trajectory)]
    said = [[message["content"] for message in run.request["messages"][2:]] for run in runs]
    assert said[1:] == [["Looked.", "Done."], *[["Looked, and is done.", "Done."]] * 2]


def write_events(folder: Path, *, indent: int | None = None) -> None:
    folder.mkdir(parents=True)
    for number, event in enumerate(OPENHANDS_SDK):
        (folder / f"event-{number:05d}-{event['id']}.json").write_text(json.dumps(event, indent=indent))


def test_a_folder_of_event_files_is_one_run(tmp_path: Path) -> None:
    write_events(tmp_path / "conversations" / "one" / "events")
    write_events(tmp_path / "conversations" / "two" / "events", indent=2)
    (tmp_path / "conversations" / "one" / "base_state.json").write_text('{"id": "one"}')
    files = list(gather(open_location(str(tmp_path))))
    assert [file.relative for file in files] == [
        "conversations/one/base_state.json",
        "conversations/one/events",
        "conversations/two/events",
    ]
    items = [item for file in files for item in read(file)]
    found = [item for item in items if isinstance(item, Trajectory)]
    assert [item.external_id for item in found] == ["one/events", "two/events"]
    assert found[0].request == found[1].request == one(read_value(OPENHANDS_SDK)).request
    assert [item.reason for item in items if not isinstance(item, Trajectory)] == ["unknown_format"]


def test_a_damaged_event_file_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    write_events(tmp_path / "events")
    broken = next((tmp_path / "events").glob("event-00004*"))
    broken.write_text(broken.read_text()[:50])
    (file,) = gather(open_location(str(tmp_path)))
    trajectory, problem = list(read(file))
    assert isinstance(trajectory, Trajectory)
    assert [step.complete for step in history(trajectory).steps] == [False, True]
    assert not isinstance(problem, Trajectory)
    assert (problem.reason, problem.location) == ("truncated_json", str(broken))
