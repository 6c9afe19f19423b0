"""The guide keeps its word: every snippet of docs/guides/adapters.md runs as it stands and prunes what is sent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agents.testing import ScriptedModel, assistant_message

from drsr.policy.scripted import scripted_policy
from drsr.receipts.recall import RECALL
from tests.adapters import langchain_run, pydantic_run
from tests.adapters.items import run_items
from tests.adapters.long_run import RUN, TOOLS
from tests.adapters.scripted_upstream import ScriptedUpstream

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "adapters.md").read_text()
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for title, text in re.findall(r"^#+ (.*?)\n(.*?)(?=^#+ |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
}
TITLE = next(iter(SECTIONS))


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedUpstream]:
    """A scripted provider on loopback, where the environment tells the SDKs to find theirs, and a policy to load."""
    upstream = ScriptedUpstream()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = upstream.answer(httpx2.Request("POST", f"http://loopback{self.path}", content=body))
            self.send_response(answer.status_code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "OPENAI_BASE_URL": f"{here}/v1",
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_BASE_URL": here,
        "ANTHROPIC_API_KEY": "k",
        "DRSR_PRICES": "3,3,3,15",  # a provider without a cache: else a run is not joined in its middle for so little
    }.items():
        monkeypatch.setenv(name, value)
    scripted_policy().save(tmp_path / "policies" / "2026.11.16")
    monkeypatch.chdir(tmp_path)
    yield upstream
    server.shutdown()
    server.server_close()


def names() -> dict[str, Any]:
    """What the guide calls yours, for the wire forms."""
    given = {"messages": RUN.to_openai()["messages"], "anthropic_messages": RUN.to_anthropic()["messages"]}
    return {**given, "tools": TOOLS, "items": run_items(RUN)}


def run(section: str, given: dict[str, Any]) -> dict[str, Any]:
    for source in SECTIONS[TITLE] + SECTIONS[section]:
        exec(compile(source, f"adapters.md: {section}", "exec"), given)  # noqa: S102 - our own text, and the point of it
    return given


TAKE, RECALL_SECTION = "What all of them take", "What the model may get back"


def test_every_snippet_is_run_here() -> None:
    ran = {"OpenAI SDK", "Anthropic SDK", "LangChain and LangGraph", "Pydantic AI", "OpenAI Agents SDK", "LiteLLM"}
    assert {title for title, sources in SECTIONS.items() if sources} == ran | {TITLE, TAKE, RECALL_SECTION}


@pytest.mark.parametrize(("section", "requests"), [("OpenAI SDK", 2), ("Anthropic SDK", 1), ("LiteLLM", 1)])
def test_the_clients(section: str, requests: int, upstream: ScriptedUpstream) -> None:
    given = run(section, names())
    assert "done" in str(given["answer"])
    assert len(upstream.bodies) == requests
    assert ("pruning" in given) is (section == "LiteLLM")
    whole = {name: len(json.dumps(value)) for name, value in names().items()}
    for path, body in zip(upstream.paths, upstream.bodies, strict=True):
        sent = len(json.dumps(body.get("input") or body["messages"]))
        name = "items" if "responses" in path else "anthropic_messages" if path == "/v1/messages" else "messages"
        assert sent < whole[name]


@pytest.mark.usefixtures("upstream")
def test_langchain() -> None:
    model = langchain_run.says("done")
    given = run(
        "LangChain and LangGraph",
        {"model": model, "langchain_tools": [langchain_run.read_file], "history": langchain_run.HISTORY},
    )
    assert len(given["state"]["messages"]) == len(langchain_run.HISTORY) + 1
    assert len(model.shown[0]) < len(langchain_run.HISTORY)


@pytest.mark.usefixtures("upstream")
def test_pydantic_ai() -> None:
    shown = pydantic_run.Shown()
    given = run("Pydantic AI", {"model": shown.model, "history": pydantic_run.HISTORY})
    assert len(given["result"].all_messages()) == len(pydantic_run.HISTORY) + 2
    assert len(shown.histories[0]) < len(pydantic_run.HISTORY)


@pytest.mark.usefixtures("upstream")
def test_openai_agents() -> None:
    model = ScriptedModel([[assistant_message("done")]])
    given = run("OpenAI Agents SDK", {"model": model, "items": run_items(RUN)})
    assert given["result"].to_input_list()[:-1] == run_items(RUN)
    assert model.last_call is not None
    assert len(model.last_call.input) < len(run_items(RUN))


def test_what_the_model_may_get_back(upstream: ScriptedUpstream) -> None:
    given = run("OpenAI SDK", names()) | {"client": None}
    upstream.bodies.clear()
    exec("\n".join(SECTIONS[RECALL_SECTION]), given)  # noqa: S102
    (body,) = upstream.bodies
    assert [tool["function"]["name"] for tool in body["tools"]][-1] == RECALL
    assert len(body["messages"]) < len(given["messages"])


def test_what_all_take(upstream: ScriptedUpstream, capsys: pytest.CaptureFixture[str]) -> None:
    given = run(TAKE, names())
    assert "sets of" in capsys.readouterr().out
    pruned, around = [len(body["messages"]) for body in upstream.bodies]
    assert pruned < around == len(given["messages"])
    given["watching"].chat.completions.create(model="m", messages=given["messages"])
    assert len(upstream.sent) == around
    for client in (given["one_run"], given["many_runs"]):
        client.chat.completions.create(model="m", messages=given["messages"])
        assert len(upstream.sent) < around
