"""What is on the wire: exact bytes, paths, headers, and the ways to leave a request alone."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from drsr.decide.decision import Reason
from drsr.policy.scripted import scripted_policy
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.raw_http import ask, post
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def odd_bytes(body: dict[str, Any]) -> bytes:
    """JSON as no serialiser would write it, so that a rewrite would show."""
    return b"\n  " + json.dumps(body, indent=3, ensure_ascii=True).replace("alpha", "\\u0061lpha").encode() + b" \n"


def sent(http: httpx.Client, proxy: RunningProxy, path: str, content: bytes, **headers: str) -> httpx.Response:
    return http.post(f"{proxy.address}{path}", content=content, headers={"content-type": "application/json", **headers})


@pytest.mark.parametrize(("path", "body"), [(CHAT, openai_body("alpha", 3)), (MESSAGES, anthropic_body("alpha", 3))])
def test_an_unchanged_request_keeps_its_bytes(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    answer = sent(http, proxy, path, odd_bytes(body))
    assert answer.status_code == 200
    assert upstream.latest().body == odd_bytes(body)
    assert answer.headers["x-drsr-reason"] == Reason.TOO_FEW_CANDIDATES
    assert answer.headers["x-drsr-tokens-saved"] == "0"
    assert len(answer.headers["x-drsr-decision"]) == 16


def test_a_pruned_request_is_what_the_policy_says(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    for path, body, form in ((CHAT, openai_body(), "openai"), (MESSAGES, anthropic_body(), "anthropic")):
        decision = scripted_policy().prune(request=body, format=form)  # type: ignore[arg-type]
        answer = sent(http, proxy, path, odd_bytes(body))
        assert decision.pruned
        assert upstream.latest().json() == decision.request
        assert upstream.latest().header("content-length") == str(len(upstream.latest().body))
        assert answer.headers["x-drsr-reason"] == "pruned"
        assert answer.headers["x-drsr-tokens-saved"] == str(decision.tokens_saved)


@pytest.mark.parametrize(
    ("method", "target", "content"),
    [
        ("GET", "/v1/models", None),
        ("GET", "/v1/chat/completions?limit=2&after=a%2Fb", None),
        ("POST", "/v1/messages/count_tokens?beta=true", b'{"messages": []}'),
        ("POST", "/v1/threads/t1/messages", b"not json"),
        ("POST", "/v1/files", bytes(range(256)) * 4_096),
        ("PUT", "/any/%7Epath//with%2Fodd%20parts/?q=%C3%A9&q", b"x"),
        ("DELETE", "/v1/chat/completions/c1", None),
        ("PATCH", "/v1/chat/completions", b"{}"),
        ("OPTIONS", "/v1/chat/completions", None),
        ("POST", "/", b"{}"),
        ("POST", "/metrics", b""),
    ],
)
def test_everything_else_is_forwarded_as_it_is(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, method: str, target: str, content: bytes | None
) -> None:
    url = httpx.URL(proxy.address).copy_with(raw_path=target.encode())
    answer = http.request(method, url, content=content)
    got = upstream.latest()
    assert (got.method, got.target, got.body) == (method, target, content or b"")
    assert answer.headers["x-drsr-reason"] == "unsupported_path"
    assert "x-drsr-tokens-saved" not in answer.headers


def test_headers_pass_but_for_those_of_one_connection(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    given = {
        "authorization": "Bearer secret",
        "x-api-key": "secret too",
        "cookie": "a=1",
        "accept-encoding": "gzip, br",
        "user-agent": "an agent",
        "connection": "keep-alive, x-only-here",
        "x-only-here": "1",
        "keep-alive": "timeout=5",
        "te": "trailers",
        "proxy-authorization": "Basic c2VjcmV0",
        "proxy-connection": "keep-alive",
        "upgrade": "h2c",
        "x-drsr-anything": "for the proxy",
    }
    answer = http.post(f"{proxy.address}/v1/embeddings", content=b"{}", headers=given)
    got = dict(upstream.latest().headers)
    assert got.pop("host") == f"{proxy.app.settings.upstream.host}:{proxy.app.settings.upstream.port}"
    assert got == {
        "authorization": "Bearer secret",
        "x-api-key": "secret too",
        "cookie": "a=1",
        "accept-encoding": "gzip, br",
        "accept": "*/*",
        "user-agent": "an agent",
        "content-length": "2",
    }
    assert answer.headers.get_list("set-cookie") == ["one=1", "two=2"]
    assert answer.headers["x-drsr-reason"] == "unsupported_path"  # the upstream's own is not passed on as ours


def test_cookies_of_one_client_never_reach_another(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    http.get(f"{proxy.address}/v1/models")
    httpx.get(f"{proxy.address}/v1/models", trust_env=False)
    assert [request.header("cookie") for request in upstream.requests] == [None, None]


def test_redirects_are_passed_on_and_not_followed(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    answer = http.post(f"{proxy.address}/redirect", content=b"x")
    assert (answer.status_code, answer.headers["location"]) == (307, "/elsewhere")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/..;/x HTTP/1.1",
        b"GET /v1/%2e%2e;a=b/x HTTP/1.1",
        b"GET /v1/..%5cx HTTP/1.1",
        b"GET http://elsewhere.example/v1/models HTTP/1.1",
        b"POST http://elsewhere.example/v1/chat/completions HTTP/1.1",
        b"CONNECT elsewhere.example:443 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET /v1/../../admin HTTP/1.1",
        b"GET /v1/%2e%2e/admin HTTP/1.1",
        b"GET /v1/..%2fadmin HTTP/1.1",
    ],
)
def test_it_relays_to_no_other_host_or_path(proxy: RunningProxy, upstream: ScriptedUpstream, line: bytes) -> None:
    answer = ask(proxy, line + b"\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"x-drsr-error: bad_target" in answer
    assert upstream.requests == []


def test_the_host_header_chooses_nothing(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    answer = ask(proxy, b"GET //elsewhere.example/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert upstream.latest().target == "//elsewhere.example/x"
    assert upstream.latest().header("host") == proxy.app.settings.upstream.host + f":{proxy.app.settings.upstream.port}"


def test_the_upstreams_path_is_put_in_front(
    start_proxy: StartProxy, upstream_url: str, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(upstream=f"{upstream_url}/below/here/")
    http.get(f"{proxy.address}/v1/models?a=b")
    assert upstream.latest().target == "/below/here/v1/models?a=b"


@pytest.mark.parametrize("value", ["1", "true"])
def test_bypass(proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, value: str) -> None:
    answer = sent(http, proxy, CHAT, odd_bytes(openai_body()), **{"x-drsr-bypass": value})
    assert upstream.latest().body == odd_bytes(openai_body())
    assert upstream.latest().header("x-drsr-bypass") is None
    assert answer.headers["x-drsr-reason"] == "bypass"
    assert "x-drsr-decision" not in answer.headers
    assert (
        sent(http, proxy, CHAT, odd_bytes(openai_body()), **{"x-drsr-bypass": "0"}).headers["x-drsr-reason"] == "pruned"
    )


def test_bypass_lets_even_what_is_not_json_through(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    sent(http, proxy, MESSAGES, b"[1, 2]", **{"x-drsr-bypass": "1"})
    assert upstream.latest().body == b"[1, 2]"


def test_the_kill_switch_works_at_once_and_back(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    content = odd_bytes(openai_body())
    assert sent(http, proxy, CHAT, content).headers["x-drsr-reason"] == "pruned"
    proxy.kill_file.touch()
    answer = sent(http, proxy, CHAT, content)
    assert answer.headers["x-drsr-reason"] == "kill_switch"
    assert upstream.latest().body == content
    assert http.get(f"{proxy.address}/healthz").json()["mode"] == "off"
    proxy.kill_file.unlink()
    assert sent(http, proxy, CHAT, content).headers["x-drsr-reason"] == "pruned"


def test_shadow_decides_and_changes_nothing(
    start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(shadow=True)
    content = odd_bytes(openai_body())
    saved = scripted_policy().prune(request=openai_body()).tokens_saved
    answer = sent(http, proxy, CHAT, content)
    assert upstream.latest().body == content
    assert answer.headers["x-drsr-reason"] == "shadow"
    assert answer.headers["x-drsr-tokens-saved"] == "0"
    assert answer.headers["x-drsr-shadow-reason"] == "pruned"
    assert answer.headers["x-drsr-shadow-tokens-saved"] == str(saved)
    assert eventually(lambda: proxy.count("shadow_saved") == saved)
    assert proxy.count("saved") == 0
    few = sent(http, proxy, CHAT, odd_bytes(openai_body("alpha", 3)))
    assert few.headers["x-drsr-shadow-reason"] == Reason.TOO_FEW_CANDIDATES
    assert few.headers["x-drsr-shadow-tokens-saved"] == "0"


def test_a_compressed_request_is_left_to_the_upstream(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    content = gzip.compress(json.dumps(openai_body()).encode(), mtime=0)
    # The double cannot read it either: its 500 is passed on.
    answer = sent(http, proxy, CHAT, content, **{"content-encoding": "gzip"})
    assert upstream.latest().body == content
    assert upstream.latest().header("content-encoding") == "gzip"
    assert answer.headers["x-drsr-reason"] == "encoded_body"


NOT_JSON = [
    b"",
    b"hello",
    b'{"messages": [',
    b"\xff\xfe{}",
    '{"messages": []}'.encode("utf-16"),
    b'{"a": NaN}',
    b"{}{}",
]


@pytest.mark.parametrize("content", NOT_JSON)
def test_what_is_not_json_is_refused_in_the_protocols_own_shape(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, content: bytes
) -> None:
    chat, messages = sent(http, proxy, CHAT, content), sent(http, proxy, MESSAGES, content)
    assert chat.status_code == messages.status_code == 400
    error = chat.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "not_json")
    assert "not JSON" in error["message"]
    assert messages.json()["type"] == "error"
    assert messages.json()["error"]["type"] == "invalid_request_error"
    assert messages.json()["error"]["message"] == error["message"]
    assert upstream.requests == []


UNREADABLE = [
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b'{"messages": "none"}',
    b'{"messages": [1, 2]}',
    b'{"messages": [{"role": "wizard", "content": []}]}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"messages": [], "n": 1e999}',
    b'{"n": ' + b"9" * 5_000 + b', "messages": []}',
    b"[" * 100_000 + b"]" * 100_000,
    b'{"messages": [], "messages": 3}',
]


@pytest.mark.parametrize("content", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_what_the_core_cannot_read_is_the_upstreams_to_judge(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client, path: str, content: bytes
) -> None:
    answer = sent(http, proxy, path, content)
    assert upstream.latest().body == content
    assert answer.headers["x-drsr-reason"] in (Reason.UNREADABLE_REQUEST, Reason.INVALID_PROTOCOL)
    assert "x-drsr-error" not in answer.headers


def test_a_request_in_the_other_protocols_form_goes_through(
    proxy: RunningProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    content = json.dumps(openai_body()).encode()
    answer = sent(http, proxy, MESSAGES, content)
    assert upstream.latest().body == content
    assert answer.headers["x-drsr-reason"] in (Reason.UNREADABLE_REQUEST, Reason.INVALID_PROTOCOL)


def test_a_chunked_request_and_one_that_waits_for_leave(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    content = json.dumps(openai_body("alpha", 2)).encode()
    chunked = b"%x\r\n%s\r\n" % (10, content[:10]) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(content) - 10, content[10:])
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    head += b"transfer-encoding: chunked\r\n\r\n"
    assert ask(proxy, head + chunked).startswith(b"HTTP/1.1 200 ")
    assert upstream.latest().body == content
    answer = ask(proxy, post(CHAT, content, "expect: 100-continue"))
    assert answer.startswith((b"HTTP/1.1 100 ", b"HTTP/1.1 200 "))
    assert b"HTTP/1.1 200 " in answer
    assert upstream.latest().header("expect") is None


def test_a_length_that_contradicts_the_chunks_is_not_passed_on(proxy: RunningProxy, upstream: ScriptedUpstream) -> None:
    head = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    both = head + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    answer = ask(proxy, both)
    if answer.startswith(b"HTTP/1.1 200 "):
        assert upstream.latest().body == b"hello"
        assert upstream.latest().header("content-length") is None
    else:
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert upstream.requests == []


def test_a_head_request(proxy: RunningProxy, http: httpx.Client) -> None:
    for path in ("/", "/healthz", "/metrics"):
        answer = http.head(f"{proxy.address}{path}")
        assert (answer.status_code, answer.content) == (200, b"")
