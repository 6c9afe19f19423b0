"""Gemini CLI sessions: documents, lines, rewinds."""

from __future__ import annotations

from typing import Any

from tests.offline.ingest.formats.files import as_lines, one, read_bytes, read_value, shape
from tests.offline.ingest.formats.team_miniatures import ANSWER, GEMINI_CLI_HEAD, GEMINI_CLI_MESSAGES, TASK

Json = dict[str, Any]
WHOLE = ["user", "assistant+1", "tool", "assistant"]


def test_a_document_and_its_lines() -> None:
    trajectory = one(read_value({**GEMINI_CLI_HEAD, "messages": GEMINI_CLI_MESSAGES}))
    messages = trajectory.request["messages"]
    assert shape(trajectory) == WHOLE
    assert [messages[0]["content"], messages[1]["content"], messages[3]["content"]] == [TASK, "I look.", ANSWER]
    assert (messages[1]["reasoning_content"], messages[2]["content"]) == ("Chain: It may be dry.", "rusty")
    assert trajectory.external_id == "cli-1"
    assert one(read_bytes(as_lines([GEMINI_CLI_HEAD, *GEMINI_CLI_MESSAGES]))).request == trajectory.request


def test_messages_written_again_rewinds_and_updates() -> None:
    first = {**GEMINI_CLI_MESSAGES[1], "toolCalls": []}
    wrong = {"id": "m9", "timestamp": "t", "type": "gemini", "content": "Wrong."}
    lines = [GEMINI_CLI_HEAD, GEMINI_CLI_MESSAGES[0], first, *GEMINI_CLI_MESSAGES[1:2], wrong, {"$rewindTo": "m9"}]
    info = {"id": "i", "timestamp": "t", "type": "info", "content": "Shown to people."}
    trajectory = one(read_bytes(as_lines([*lines, info, {"$set": {"lastUpdated": "u"}}, GEMINI_CLI_MESSAGES[2]])))
    assert shape(trajectory) == WHOLE
    whole = one(read_bytes(as_lines([GEMINI_CLI_HEAD, wrong, {"$set": {"messages": GEMINI_CLI_MESSAGES}}])))
    assert whole.request == trajectory.request


def test_calls_that_were_cancelled_have_no_result() -> None:
    call = {**GEMINI_CLI_MESSAGES[1]["toolCalls"][0], "result": None, "status": "cancelled"}
    messages: list[Json] = [GEMINI_CLI_MESSAGES[0], {**GEMINI_CLI_MESSAGES[1], "toolCalls": [call]}]
    assert shape(one(read_value({**GEMINI_CLI_HEAD, "messages": messages}))) == WHOLE[:2]
