"""`drsr wrap`: a program with a proxy of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.commands.wrap import PROVIDERS, not_through_other_proxies, run_program, said, upstream_of
from drsr.policy.scripted import scripted_policy
from drsr.proxy.app import ProxyApp
from drsr.proxy.settings import ProxySettings, UpstreamUrl
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.running import running_app
from tests.proxy.scripted_upstream import ScriptedUpstream

AGENT = """
import json, os, sys, httpx
bodies = json.load(open(sys.argv[1]))
chat = httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=bodies[0])
messages = httpx.post(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json=bodies[1])
print(chat.headers["x-drsr-reason"], messages.headers["x-drsr-reason"])
sys.exit(7)
"""


@pytest.fixture
def served() -> Iterator[tuple[ScriptedUpstream, str]]:
    upstream = ScriptedUpstream()
    with running_app(upstream) as address:
        yield upstream, address


def test_the_program_is_pruned_and_its_code_returned(
    served: tuple[ScriptedUpstream, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upstream, address = served
    monkeypatch.setenv("OPENAI_BASE_URL", f"{address}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    scripted_policy().save(tmp_path / "policy")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "bodies.json").write_text(json.dumps([openai_body(), anthropic_body()]))
    agent = [sys.executable, str(tmp_path / "agent.py"), str(tmp_path / "bodies.json")]
    options = ["--policy", str(tmp_path / "policy"), "--kill-file", str(tmp_path / "off"), "--no-sessions"]
    assert main(["wrap", *options, *agent]) == 7
    done = capfd.readouterr()
    assert done.out == "pruned pruned\n"
    assert "drsr: 2 requests, 2 of 2 prunable ones were pruned; " in done.err
    assert [request.target for request in upstream.requests] == ["/v1/chat/completions", "/v1/messages"]
    sent, asked = (
        [m for m in body["messages"] if m["role"] == "tool"] for body in (upstream.requests[0].json(), openai_body())
    )
    assert len(sent) < len(asked)
    assert [result for result in asked if result in sent] == sent


@pytest.mark.parametrize("as_json", [False, True])
def test_requests_that_failed_are_said(
    as_json: bool,
    served: tuple[ScriptedUpstream, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A provider that limits the rate, and one that is not there: without a word, nothing saved would be a riddle."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{served[1]}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    scripted_policy().save(tmp_path / "policy")
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "bodies.json").write_text(json.dumps([openai_body(model="status-429"), anthropic_body()]))
    agent = [sys.executable, str(tmp_path / "agent.py"), str(tmp_path / "bodies.json")]
    options = ["--policy", str(tmp_path / "policy"), "--kill-file", str(tmp_path / "off"), "--no-sessions"]
    main(["wrap", *options, *(["--json"] if as_json else []), *agent])
    said = capfd.readouterr().err.splitlines()[-1]
    if as_json:
        assert json.loads(said)["failed"] == 2
    else:
        assert "; 2 were answered with an error, and saved nothing" in said


def test_why_nothing_was_pruned_is_said(tmp_path: Path) -> None:
    app = ProxyApp(
        scripted_policy(), ProxySettings(UpstreamUrl.parse("http://127.0.0.1:1"), kill_file=tmp_path / "off")
    )
    for reason, number in (("not_worth_rewriting", 3), ("over_risk_threshold", 1), ("below_minimum", 5)):
        app.activity.decisions.labels("chat_completions", reason).inc(number)
    assert "mostly because of" not in said([app], as_json=False)
    app.activity.eligible.inc(4)
    assert (
        "0 of 4 prunable ones were pruned; 0 of 0 tokens were not sent; the others were left alone mostly because of "
        in said([app], as_json=False)
    )
    assert "because of not_worth_rewriting" in said([app], as_json=False)


def test_why_nothing_could_be_pruned_is_said(tmp_path: Path) -> None:
    app = ProxyApp(
        scripted_policy(), ProxySettings(UpstreamUrl.parse("http://127.0.0.1:1"), kill_file=tmp_path / "off")
    )
    for reason, number in (("history_upstream", 3), ("below_minimum", 1), ("pruned", 9)):
        app.activity.decisions.labels("responses", reason).inc(number)
    app.activity.requests.labels("responses", "200").inc(4)
    assert "; none was prunable, mostly because of history_upstream" in said([app], as_json=False)
    app.activity.eligible.inc(9)
    assert "none was prunable" not in said([app], as_json=False)


def test_websockets_are_said_since_most_are_not_read(tmp_path: Path) -> None:
    """A program that speaks nothing else would seem to have sent nothing."""
    app = ProxyApp(
        scripted_policy(), ProxySettings(UpstreamUrl.parse("http://127.0.0.1:1"), kill_file=tmp_path / "off")
    )
    assert "WebSocket" not in said([app], as_json=False)
    app.activity.websockets.inc(2)
    assert "; 2 WebSockets, of which only requests of the Responses API are read" in said([app], as_json=False)
    assert json.loads(said([app], as_json=True))["websockets"] == 2


def test_where_requests_go() -> None:
    openai, anthropic = PROVIDERS
    assert upstream_of(openai, None, {}) == ("https://api.openai.com", "/v1")
    assert upstream_of(anthropic, None, {}) == ("https://api.anthropic.com", "")
    there = {"OPENAI_BASE_URL": "https://openrouter.ai/api/v1/", "ANTHROPIC_BASE_URL": "http://gateway:9/claude"}
    assert upstream_of(openai, None, there) == ("https://openrouter.ai/api", "/v1")
    assert upstream_of(anthropic, None, there) == ("http://gateway:9/claude", "")
    assert upstream_of(openai, "http://h", there) == ("http://h", "/v1")
    assert not_through_other_proxies({"no_proxy": "example.com"}) == {"no_proxy": "example.com,127.0.0.1"}
    assert not_through_other_proxies({}) == {"NO_PROXY": "127.0.0.1"}


def test_codes_of_programs() -> None:
    assert run_program([sys.executable, "-c", "raise SystemExit(3)"], os.environ) == 3
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run_program([sys.executable, "-c", killed], os.environ) == 128 + 9


def test_without_a_program_or_with_one_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripted_policy().save(tmp_path / "policy")
    options = ["--policy", str(tmp_path / "policy")]
    assert main(["wrap", *options]) == 2
    assert "names no program" in capsys.readouterr().err
    assert main(["wrap", *options, "--", "no-such-program-here"]) == 2
    assert "cannot be started" in capsys.readouterr().err
