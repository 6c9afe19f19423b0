"""Keys and messages appear nowhere but at the upstream: not in the log, the receipts, the metrics, the page."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import httpx
import pytest

from drsr.proxy.log import JsonLines, TextLines
from drsr.receipts.receipt_file import read_receipts
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_http import ask
from tests.proxy.running import eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

SECRETS = {
    "authorization": "Bearer SECRET-bearer",
    "x-api-key": "SECRET-key",
    "proxy-authorization": "Basic SECRET-basic",
    "cookie": "session=SECRET-cookie",
    "x-drsr-admin": "SECRET-other",
}
MARKER = "CONFIDENTIAL"


@pytest.mark.parametrize("sessions", [False, True])
def test_no_secret_and_no_text_is_written_down(
    start_proxy: StartProxy,
    upstream: ScriptedUpstream,
    http: httpx.Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    sessions: bool,
) -> None:
    from drsr.proxy.settings import SessionSettings
    from drsr.sessions.prices import Prices

    caplog.set_level(logging.DEBUG, logger="drsr")
    receipts = tmp_path / "receipts.jsonl"
    proxy = start_proxy(receipts=receipts, sessions=SessionSettings(Prices(3, 0.3, 3.75, 15), 40) if sessions else None)
    url = proxy.address
    asked = 0
    for path, make in (("/v1/chat/completions", openai_body), ("/v1/messages", anthropic_body)):
        for content in (
            json.dumps(make(MARKER)),
            json.dumps(make(MARKER, 2)),
            json.dumps(make(MARKER, model="status-500")),
            json.dumps(make(MARKER, model="broken", stream=True)),
            '{"messages": [{"role": "CONFIDENTIAL", "content": 3}]}',
            "CONFIDENTIAL, and not JSON",
        ):
            asked += 1
            with http.stream("POST", f"{url}{path}?key=SECRET-query", content=content, headers=SECRETS) as answer:
                try:
                    said = answer.read().decode()
                except httpx.RemoteProtocolError:
                    continue
                if answer.headers.get("x-drsr-error"):
                    assert MARKER not in said
    http.get(f"{url}/v1/models?key=SECRET-query", headers=SECRETS)
    ask(
        proxy,
        b"GET http://user:SECRET-password@elsewhere.example/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )
    assert any(request.header("authorization") == SECRETS["authorization"] for request in upstream.requests)
    assert any("key=SECRET-query" in request.target for request in upstream.requests)
    assert eventually(lambda: len(proxy.app.activity.recent) == asked)
    assert eventually(lambda: proxy.count("receipts", "written") == 10)
    records = [record for record in caplog.records if record.name.startswith("drsr")]
    assert len(records) >= asked
    written = {
        "log": "\n".join(record.getMessage() for record in records),
        "text log": "\n".join(map(TextLines().format, records)),
        "JSON log": "\n".join(map(JsonLines().format, records)),
        "receipts": receipts.read_text(),
        "metrics": http.get(f"{url}/metrics").text,
        "state": http.get(f"{url}/drsr/state.json").text,
        "page": http.get(f"{url}/").text,
        "health": http.get(f"{url}/healthz").text,
    }
    for where, text in written.items():
        assert text, where
        assert "SECRET" not in text, where
        assert MARKER not in text, where
    for line in written["JSON log"].splitlines():
        json.loads(line)


def test_receipts_say_what_became_of_the_request(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "receipts.jsonl"
    proxy = start_proxy(receipts=path)
    answers = [http.post(f"{proxy.address}/v1/messages", json=anthropic_body(steps=steps)) for steps in (8, 2)]
    assert eventually(lambda: proxy.count("receipts", "written") == 2)
    found = {record["id"]: record for record in read_receipts(path)}
    pruned, unchanged = (found[answer.headers["x-drsr-decision"]] for answer in answers)
    assert pruned["proxy"] == {
        "endpoint": "messages",
        "reason": "pruned",
        "applied": True,
        "status": 200,
        "bill": None,  # the answer says no usage
    }
    assert pruned["tokens"]["saved"] == int(answers[0].headers["x-drsr-tokens-saved"])
    assert unchanged["proxy"] == {
        "endpoint": "messages",
        "reason": "too_few_candidates",
        "applied": False,
        "status": 200,
        "bill": None,
    }
    assert path.stat().st_mode & 0o077 == 0
    assert "text" not in pruned


def test_receipts_in_shadow_mode_and_with_text(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path
) -> None:
    proxy = start_proxy(receipts=tmp_path / "r.jsonl", shadow=True, keep_text=True)
    http.post(f"{proxy.address}/v1/messages", json=anthropic_body(), headers=SECRETS)
    assert eventually(lambda: proxy.count("receipts", "written") == 1)
    (record,) = read_receipts(tmp_path / "r.jsonl")
    assert record["proxy"] == {
        "endpoint": "messages",
        "reason": "shadow",
        "applied": False,
        "status": 200,
        "bill": None,
    }
    assert record["pruned"] is True
    assert record["text"]["before"] == anthropic_body()
    assert "SECRET" not in (tmp_path / "r.jsonl").read_text()


def test_a_full_disk_stops_nobody(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client, tmp_path: Path
) -> None:
    proxy = start_proxy(receipts=Path("/dev/full"))
    assert http.post(f"{proxy.address}/v1/messages", json=anthropic_body()).headers["x-drsr-reason"] == "pruned"
    assert eventually(lambda: proxy.count("receipts", "failed") == 1)
