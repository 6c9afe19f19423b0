"""Claude Code sessions: pieces, branches, sub-agents, compactions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.offline.ingest.formats.claude_code import in_order
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from tests.offline.ingest.formats.files import as_lines, decisions, history, one, read_bytes, shape
from tests.offline.ingest.formats.miniatures import CLAUDE_CODE

Json = dict[str, Any]


def runs(values: list[Json]) -> list[Trajectory]:
    items = read_bytes(as_lines(values))
    assert not [item for item in items if isinstance(item, Quarantined)]
    return [item for item in items if isinstance(item, Trajectory)]


def say(uuid: str, parent: str | None, text: str, **more: Any) -> Json:
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "sess-1", "message": message, **more}


def reply(uuid: str, parent: str | None, text: str, **more: Any) -> Json:
    message = {"role": "assistant", "id": f"msg_{uuid}", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "sess-1", "message": message, **more}


def said(trajectory: Trajectory) -> list[str]:
    messages = trajectory.request["messages"]
    return [m["content"] if isinstance(m["content"], str) else m["content"][0].get("text", "") for m in messages]


def test_pieces_of_one_message_are_put_together_across_a_result() -> None:
    trajectory = one(read_bytes(as_lines(CLAUDE_CODE)))
    assert shape(trajectory) == ["user", "assistant+2", "user=2", "assistant"]
    kinds = [block["type"] for block in trajectory.request["messages"][1]["content"]]
    assert kinds == ["thinking", "tool_use", "tool_use"]
    assert all(step.complete for step in history(trajectory).steps)
    assert "API Error" not in said(trajectory)


def test_a_rewound_session_keeps_the_last_branch() -> None:
    values = [
        *(say("1", None, "one"), reply("2", "1", "two")),
        *(say("3", "2", "wrong turn"), reply("4", "3", "wrong answer")),
        *(say("5", "2", "right turn"), reply("6", "5", "right answer")),
    ]
    assert said(runs(values)[0]) == ["one", "two", "right turn", "right answer"]


def test_sub_agents_are_runs_of_their_own() -> None:
    side = {"isSidechain": True, "agentId": "a1"}
    values = [*CLAUDE_CODE, say("s1", None, "sub task", **side), reply("s2", "s1", "sub answer", **side)]
    main, sub = runs(values)
    assert (main.external_id, sub.external_id) == ("sess-1", "sess-1/agent-a1")
    assert main.task == sub.task == "sess-1"
    assert said(sub) == ["sub task", "sub answer"]
    assert runs(values[len(CLAUDE_CODE) :])[0].external_id == "sess-1/agent-a1"


def test_a_compaction_starts_a_new_stretch() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "sessionId": "sess-1"}
    values = [
        *(say("1", None, "one"), reply("2", "1", "two"), boundary),
        say("3", "b", "summary", isCompactSummary=True),
        *(say("4", "3", "go on"), reply("5", "4", "done")),
    ]
    first, second = runs(values)
    assert said(first) == ["one", "two"]
    assert said(second) == ["summary", "go on", "done"]
    assert (first.external_id, second.external_id) == ("sess-1", "sess-1/2")


def use(uuid: str, parent: str, call: str) -> Json:
    line = reply(uuid, parent, "")
    line["message"]["content"] = [{"type": "tool_use", "id": call, "name": "ls", "input": {}}]
    return line


def result(uuid: str, parent: str, call: str) -> Json:
    line = say(uuid, parent, "")
    line["message"]["content"] = [{"type": "tool_result", "tool_use_id": call, "content": "a file"}]
    return line


BY_NAME = {"preservedMessages": {"anchorUuid": "s", "uuids": ["3", "4", "5", "6"]}}
BY_ENDS = {"preservedSegment": {"headUuid": "3", "anchorUuid": "s", "tailUuid": "6"}}


def compacted(metadata: Json, parent: str) -> list[Json]:
    return [
        *(say("1", None, "one"), reply("2", "1", "two")),
        *(say("3", "2", "look"), use("4", "3", "t1"), result("5", "4", "t1"), reply("6", "5", "looked")),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b",
            "parentUuid": None,
            "sessionId": "sess-1",
            "compactMetadata": metadata,
        },
        say("s", "b", "summary", isCompactSummary=True),
        *(say("7", parent, "go on"), reply("8", "7", "done")),
    ]


@pytest.mark.parametrize("metadata", [BY_NAME, BY_ENDS])
@pytest.mark.parametrize("parent", ["s", "6"], ids=["follows the summary", "follows what was preserved"])
def test_what_a_compaction_preserved_stands_behind_its_summary(metadata: Json, parent: str) -> None:
    first, second = runs(compacted(metadata, parent))
    assert said(first) == ["one", "two", "look", "", "", "looked"]
    assert said(second)[0] == "summary"
    assert shape(second)[-5:] == ["assistant+1", "user=1", "assistant", "user", "assistant"]
    texts = [block.get("text") for message in second.request["messages"] for block in _blocks(message)]
    assert [text for text in texts if text] == ["summary", "look", "looked", "go on", "done"]
    assert all(step.complete for step in history(second).steps)
    assert decisions(second) == [len(shape(second)) - 1]
    assert decisions(first) == [at for at, role in enumerate(shape(first)) if role.startswith("assistant")]


def test_a_result_that_was_logged_before_its_call_follows_it() -> None:
    moved = [*CLAUDE_CODE]
    call, result = (next(at for at, line in enumerate(moved) if line.get("uuid") == name) for name in ("l5", "l6"))
    moved[call], moved[result] = moved[result], moved[call]
    assert one(read_bytes(as_lines(moved))).request == one(read_bytes(as_lines(CLAUDE_CODE))).request
    alone = [{**line, "isSidechain": True, "agentId": "a"} for line in moved if line.get("uuid") in ("l1", "l5", "l6")]
    assert shape(runs(alone)[0]) == ["user", "assistant+1", "user=1"]


def test_lines_follow_their_parents_wherever_they_stand() -> None:
    lines: list[Json] = [{"uuid": name, "parentUuid": parent} for name, parent in (("c", "b"), ("b", "a"), ("a", None))]
    assert [line["uuid"] for line in in_order(lines)] == ["a", "b", "c"]
    ring: list[Json] = [{"uuid": "a", "parentUuid": "b"}, {"uuid": "b", "parentUuid": "a"}, {"parentUuid": "x"}]
    assert sorted(map(str, in_order(ring))) == sorted(map(str, ring))


@given(st.permutations(range(7)))
def test_a_session_in_another_order_of_lines_is_the_same_run(order: list[int]) -> None:
    def use(name: str) -> Json:
        return {"type": "tool_use", "id": name, "name": "Read", "input": {}}

    def result(name: str) -> Json:
        return {"type": "tool_result", "tool_use_id": name, "content": name}

    contents: list[tuple[str, str | None, Any]] = [
        ("user", None, "go"),
        ("assistant", "0", [use("a")]),
        ("assistant", "1", [use("b")]),  # both at once
        ("user", "1", [result("a")]),
        ("user", "2", [result("b")]),
        ("assistant", "4", "half of it"),
        ("user", "5", "on"),
    ]
    lines: list[Json] = [
        {
            "type": role,
            "uuid": str(at),
            "parentUuid": parent,
            "sessionId": "sess-1",
            "timestamp": f"2026-01-01T00:00:0{at}Z",
            "message": {"role": role, "content": content},
        }
        for at, (role, parent, content) in enumerate(contents)
    ]
    trajectory = one(read_bytes(as_lines([lines[at] for at in order])))
    assert trajectory.content_hash == one(read_bytes(as_lines(lines))).content_hash
    assert shape(trajectory) == ["user", "assistant+1", "user=1", "assistant+1", "user=1", "assistant", "user"]


def test_what_the_program_says_itself_is_history_and_no_decision() -> None:
    made_up = reply("9", "l8", "No response requested.")
    made_up["message"]["model"] = "<synthetic>"
    trajectory = one(read_bytes(as_lines([*CLAUDE_CODE, made_up])))
    assert shape(trajectory)[-1] == "assistant"
    assert decisions(trajectory) == decisions(one(read_bytes(as_lines(CLAUDE_CODE))))


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"preservedMessages": {"uuids": ["nobody", 7]}},
        {"preservedMessages": "all"},
        {"preservedSegment": {"headUuid": "6", "tailUuid": "3"}},
        {"preservedSegment": {"headUuid": "nobody", "tailUuid": "6"}},
    ],
)
def test_a_compaction_that_preserved_nothing_that_is_there(metadata: Json) -> None:
    _, second = runs(compacted(metadata, "s"))
    assert said(second) == ["summary", "go on", "done"]


def test_a_damaged_line_does_not_cut_the_session() -> None:
    values = [say("1", None, "one"), reply("2", "1", "two"), say("3", "2", "three"), reply("4", "3", "four")]
    data = as_lines(values).splitlines(keepends=True)
    items = read_bytes(data[0] + data[1] + data[2][:20] + b"\n" + data[3])
    assert isinstance(items[0], Trajectory)
    assert said(items[0]) == ["one", "two", "four"]
    assert isinstance(items[1], Quarantined)
    assert items[1].location.endswith("runs.json:3")


def test_the_printed_stream() -> None:
    values: list[Json] = [
        {"type": "system", "subtype": "init", "session_id": "p1", "tools": ["Bash"]},
        {"type": "user", "session_id": "p1", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None},
        {"type": "assistant", "session_id": "p1", "message": reply("x", None, "done")["message"]},
        {"type": "result", "subtype": "success", "session_id": "p1", "result": "done"},
    ]
    (trajectory,) = runs(values)
    assert (trajectory.external_id, said(trajectory)) == ("p1", ["go", "done"])


def test_a_resumed_file_is_named_after_its_own_session() -> None:
    values = [say("1", None, "one", sessionId="old"), reply("2", "1", "two")]
    values[0]["sessionId"] = "old"
    assert runs(values)[0].external_id == "sess-1"


def test_parents_that_go_round_in_circles() -> None:
    assert sorted(said(runs([say("1", "2", "one"), reply("2", "1", "two")])[0])) == ["one", "two"]
