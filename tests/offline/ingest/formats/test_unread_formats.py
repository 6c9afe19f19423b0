"""Formats that are known but not read say what to export instead, and nothing of them is taken for a run."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.offline.ingest.formats import READERS
from tests.offline.ingest.formats.files import only_problem, read_bytes, read_value
from tests.offline.ingest.formats.team_miniatures import CHAT


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": CHAT}}, "custom_id"),
        ({"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": {"choices": []}}}, "custom_id"),
        ({"custom_id": "1", "method": "POST", "url": "/v1/responses", "body": {"input": "go"}}, "custom_id"),
        ({"id": "b", "custom_id": "1", "response": None, "error": {"message": "expired"}}, "custom_id"),
        (
            {"task_name": "t", "task": "Oil it.", "agent": "mechanic", "output": "Oiled.", "status": "completed"},
            "CrewAI",
        ),
        ({"raw": "Oil it.", "tasks_output": [{"raw": "Oil it."}], "token_usage": {}}, "CrewAI"),
        ({"info": {"trace_id": "t", "state": "OK"}, "data": {"spans": [{"name": "a"}]}}, "MLflow"),
        ({"v": 4, "channel_values": {"messages": []}, "channel_versions": {}}, "LangSmith"),
        ({"schema_version": "ATIF-v1.4", "agent": {"name": "a"}, "steps": [{"step_id": 1}]}, "ATIF"),
        ({"object": "list", "data": [{"id": "msg_1"}], "first_id": "msg_1", "has_more": False}, "`input`"),
        ({"prompt": "a", "completion": "b"}, "history"),
        ({"instruction": "a", "input": "", "output": "b"}, "history"),
        ({"chosen": [], "rejected": []}, "preferred"),
        ({"chat_history": [{"role": "assistant", "content": "go"}], "summary": "s"}, "`name`"),
        ({"ts": 1, "type": "say", "say": "text", "text": "fix"}, "api_conversation_history.json"),
        ({"ts": 1, "type": "ask", "ask": "tool", "text": "{}"}, "api_conversation_history.json"),
        ({"type": "human", "data": {"content": "hi"}}, "convert_to_openai_messages"),
    ],
)
def test_what_to_export_instead(value: Any, told: str) -> None:
    assert [reader.name for reader in READERS if reader.recognises(value)] == []
    problem = only_problem(read_value(value))
    assert problem.reason == "unknown_format"
    assert told in problem.detail


def test_text_files() -> None:
    aider = only_problem(read_bytes(b"\n# aider chat started at 2026-01-01 00:00:00\n\n> Aider v1\n"))
    assert (aider.reason, "LiteLLM" in aider.detail) == ("not_data", True)
    calls = only_problem(read_bytes(b"TO LLM 2026-01-01T00:00:00\n-------\nSYSTEM You edit files.\n"))
    assert (calls.reason, calls.detail) == (aider.reason, aider.detail)
    table = only_problem(read_bytes(b"id,task,messages\n1,a,[]\n"))
    assert (table.reason, "Parquet" in table.detail) == ("not_data", True)
