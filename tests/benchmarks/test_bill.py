"""A short run through the real proxy, in both forms, and what the mock endpoint makes of a broken request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bill import chosen, endpoint, in_anthropic_form, main, problem_of, replay, serving, shown, with_mark
from drsr.offline import samples
from drsr.policy.scripted import scripted_policy
from drsr.request.remembered_tokens import RememberedTokens
from drsr.sessions.prices import Prices
from tests.agent_runs import openai_body
from tests.tiny_models import build_tiny

FREE_CACHE = Prices(2, 2, 2, 8)
"""A cached token costs as much as any other: whatever is deleted saves at once."""


def test_runs_through_the_proxy_in_both_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = scripted_policy()
    policy.save(tmp_path / "policy")
    monkeypatch.setenv("DRSR_PRICES", "2,2,2,8")
    counter = RememberedTokens(policy.frozen.representation.tokenizer)
    (run,) = chosen(str(samples.CORPUS), 7, 1)
    with endpoint(counter, FREE_CACHE) as mock, serving(mock.address, str(tmp_path / "policy")) as (address, pid):
        rows = [replay(run, model, mock, address, pid) for model in ("gpt-4o", "claude-sonnet-4-5")]
    for row in rows:
        assert row is not None
        assert (row.calls, len(row.waits), row.invalid) == (7, 7, 0)
        assert row.pruned > 0
        assert row.sent.tokens < row.without.tokens
        assert row.change < 0
        said = shown([row], "gpt-4o", {"money": {"paid": 1.0, "without_pruning": 2.0}})
        assert f"{row.pruned} of 7 requests pruned, 0 invalid" in said


def test_a_full_policy_with_seeded_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = build_tiny("llama", tmp_path / "model")
    options = ["--seeded", f"path:{model}", "--deadline-ms", "60000", "--warm", "--runs", "1", "--calls", "7"]
    monkeypatch.setattr("sys.argv", ["bill", *options, "--json"])
    main()
    (row,) = json.loads(capsys.readouterr().out)
    assert row["calls"] == 7
    assert row["invalid"] == 0
    assert row["pruned"] > 0


def test_a_request_that_a_provider_would_refuse() -> None:
    body = openai_body(steps=3)
    messages: list[dict[str, Any]] = body["messages"]
    assert problem_of(body, "/v1/chat/completions") is None
    answered = next(index for index, message in enumerate(messages) if message["role"] == "tool")
    torn = {**body, "messages": messages[:answered] + messages[answered + 1 :]}
    assert "call_without_result" in str(problem_of(torn, "/v1/chat/completions"))
    assert problem_of({**body, "messages": [{"role": "user", "content": 7}]}, "/v1/chat/completions") is not None


def test_chat_in_anthropic_form() -> None:
    body = in_anthropic_form(openai_body(steps=3))
    assert body["system"] == "You watch logs."
    assert [message["role"] for message in body["messages"][:3]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"][0]["type"] == "tool_result"
    marked = with_mark(body)
    assert problem_of(marked, "/v1/messages") is None
    assert "cache_control" in marked["messages"][-1]["content"][-1]
    assert "cache_control" not in body["messages"][-1]["content"][-1]
