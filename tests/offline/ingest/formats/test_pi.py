"""pi sessions: the tree, compactions, and what the user ran."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_lines, decisions, history, one, read_bytes, shape
from tests.offline.ingest.formats.miniatures import PI


def runs(values: list[Any]) -> list[Trajectory]:
    return [item for item in read_bytes(as_lines(values)) if isinstance(item, Trajectory)]


def test_the_last_entrys_ancestors_are_the_run() -> None:
    trajectory = one(read_bytes(as_lines(PI)))
    assert shape(trajectory) == ["user", "assistant+2", "tool", "user", "assistant"]
    messages = trajectory.request["messages"]
    assert (messages[1]["content"], messages[1]["reasoning_content"]) == ("I look.", "hm")
    assert messages[3]["content"] == "Ran `make`\n```\nok\n```"
    assert [step.complete for step in history(trajectory).steps] == [False, True]
    assert (trajectory.external_id, trajectory.task) == ("pi-1", "pi-1")


def test_files_from_before_the_tree_are_read_in_order() -> None:
    flat = [{key: value for key, value in entry.items() if key not in ("parentId", "version")} for entry in PI]
    assert shape(runs(flat)[0]) == ["user", "assistant", "assistant+2", "tool", "user", "assistant"]


def test_a_compaction_keeps_what_it_says() -> None:
    compaction = {
        "type": "compaction",
        "id": "h",
        "parentId": "g",
        "timestamp": "t",
        "summary": "Looked.",
        "firstKeptEntryId": "g",
    }
    answer = {**PI[-1], "id": "i", "parentId": "h"}
    first, second = runs([*PI, compaction, answer])
    assert shape(second) == ["user", "assistant", "assistant"]
    assert second.request["messages"][0]["content"] == "Looked."
    assert (first.external_id, second.external_id) == ("pi-1", "pi-1/2")
    assert (decisions(first), decisions(second)) == ([1, 4], [2])


def test_results_whose_call_was_compacted_away_go_with_it() -> None:
    compaction = {
        "type": "compaction",
        "id": "h",
        "parentId": "g",
        "timestamp": "t",
        "summary": "Looked.",
        "firstKeptEntryId": "d",
    }
    assert shape(runs([*PI, compaction, {**PI[-1], "id": "i", "parentId": "h"}])[1]) == [
        *("user", "user", "assistant", "assistant"),
    ]


def test_images_in_the_wire_forms_spelling() -> None:
    picture = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    user = {**PI[1], "message": {"role": "user", "content": [{"type": "text", "text": "see"}, picture]}}
    content = runs([PI[0], user, {**PI[-1], "parentId": "a"}])[0].request["messages"][0]["content"]
    assert content[1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}


def test_parents_that_go_round_in_circles() -> None:
    entries = [{**PI[1], "parentId": "g"}, {**PI[-1], "parentId": "a"}]
    assert shape(runs([PI[0], *entries])[0]) == ["user", "assistant"]
