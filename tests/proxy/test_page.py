"""The page, in a real browser: what it shows, that it goes on asking, light and dark."""

from __future__ import annotations

import html.parser
import json
from typing import Any

import httpx
import pytest

from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.exchange import Ending, Exchange
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.running import RunningProxy, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.real_browser import Browser
from tests.seeded_policies import light_policy, with_distribution

CLOCK = "--virtual-time-budget=5000"
"""Milliseconds of the page's own clock, which runs as fast as it can."""


class Page(html.parser.HTMLParser):
    """Texts of the elements with an id, and the rows of tables."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.hidden: set[str] = set()
        self.tables: dict[str, list[list[str]]] = {}
        self._id = self._table = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self._id = found.get("id") or ""
        if "hidden" in found:
            self.hidden.add(self._id)
        if tag == "table":
            self._table = self._id
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("td", "th"):
            self.tables[self._table][-1].append("")
            self._id = "cell"

    def handle_endtag(self, tag: str) -> None:
        self._id = ""

    def handle_data(self, data: str) -> None:
        if self._id == "cell":
            self.tables[self._table][-1][-1] += data
        elif self._id:
            self.texts[self._id] = self.texts.get(self._id, "") + data


def dom(browser: Browser, proxy: RunningProxy) -> Page:
    return Page(browser.open(f"{proxy.address}/", CLOCK, "--dump-dom"))


def some_traffic(proxy: RunningProxy, http: httpx.Client) -> None:
    chat, messages = f"{proxy.address}/v1/chat/completions", f"{proxy.address}/v1/messages"
    for steps in (2, 7, 8, 9):
        http.post(chat, json=openai_body("CONFIDENTIAL", steps), headers={"authorization": "Bearer SECRET"})
    http.post(messages, json=anthropic_body(model="status-529"))
    http.post(messages, json=anthropic_body(), headers={"x-drsr-bypass": "1"})
    http.post(messages, content=b"not json")
    assert eventually(lambda: len(proxy.app.activity.recent) == 7)


def test_it_shows_what_happened(
    browser: Browser, start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy()
    some_traffic(proxy, http)
    state = http.get(f"{proxy.address}/drsr/state.json").json()
    source = browser.open(f"{proxy.address}/", CLOCK, "--dump-dom")
    assert "CONFIDENTIAL" not in source
    assert "SECRET" not in source
    page = Page(source)
    assert page.texts["mode"] == "pruning"
    assert "policy scripted.0 with scripted" in page.texts["about"]
    assert not page.texts.get("compared")
    assert page.texts["requests"] == "7"
    assert page.texts["requests-note"] == "0 on their way, 0 waiting, 2 answered with an error"
    assert page.texts["pruned"] == "4"
    assert page.texts["saved"] == f"{state['tokens_saved']:,}"
    assert page.texts["decision"].endswith("ms")
    assert page.texts["upstream"].endswith("ms")
    assert page.tables["reasons"][1:] == [
        ["pruned", "4", "66.7 %", ""],
        ["bypass", "1", "16.7 %", ""],
        ["too few candidates", "1", "16.7 %", ""],
    ]
    recent = page.tables["recent"][1:]
    assert [(row[1], row[2], row[3]) for row in recent] == [
        ("messages", "400", "not json"),
        ("messages", "200", "bypass"),
        ("messages", "529", "pruned"),
        ("chat completions", "200", "pruned"),
        ("chat completions", "200", "pruned"),
        ("chat completions", "200", "pruned"),
        ("chat completions", "200", "too few candidates"),
    ]
    assert [row[9] for row in recent] == [each["decision"] or "–" for each in state["recent"]]
    assert [row[5] for row in recent if row[3] == "pruned"] == [
        f"{each['tokens_saved']:,}" for each in state["recent"] if each["reason"] == "pruned"
    ]
    assert {"trouble", "reasons-empty", "recent-empty"} <= page.hidden


def test_before_the_first_request_and_in_other_modes(
    browser: Browser, start_proxy: StartProxy, http: httpx.Client
) -> None:
    proxy = start_proxy(shadow=True)
    page = dom(browser, proxy)
    assert page.texts["mode"] == "shadow: changes nothing"
    assert (page.texts["requests"], page.texts["decision"]) == ("0", "–")
    assert {"reasons", "recent"} <= page.hidden
    assert page.texts["recent-empty"] == "No request yet."
    proxy.kill_file.touch()
    assert dom(browser, proxy).texts["mode"] == "off: kill switch"


def test_it_goes_on_asking_and_says_when_nobody_answers(
    browser: Browser, start_proxy: StartProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = start_proxy()
    asked, tell = 0, proxy.app.activity.to_json

    def counted() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {**tell(), "requests": 41 + asked}

    monkeypatch.setattr(proxy.app.activity, "to_json", counted)
    page = dom(browser, proxy)
    assert asked >= 2
    assert page.texts["requests"] == str(41 + asked)  # the latest answer is shown
    assert "trouble" in page.hidden

    def answers_once() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return tell() if asked == 1 else {"not": "what the page expects"}

    asked = 0
    monkeypatch.setattr(proxy.app.activity, "to_json", answers_once)
    page = dom(browser, proxy)
    assert asked >= 2
    assert "trouble" not in page.hidden
    assert page.texts["trouble"] == "The proxy does not answer; the numbers below are old."
    assert page.texts["requests"] == "0"


def test_a_banner_says_that_most_decisions_are_late(browser: Browser, start_proxy: StartProxy) -> None:
    proxy = start_proxy(deadline=0.3)

    def came(reason: str) -> None:
        about = Exchange(Endpoint.MESSAGES, "POST", "/v1/messages", status=200, ending=Ending.COMPLETED, reason=reason)
        proxy.app.activity.record(about)

    for reason in ("pruned", "over_risk_threshold", "deadline_exceeded", "busy", "too_few_candidates"):
        came(reason)
    assert proxy.app.activity.mostly_late() is None  # four that could be pruned are too few to tell
    assert "late" in dom(browser, proxy).hidden
    came("deadline_exceeded")
    assert proxy.app.activity.mostly_late() == {"late": 3, "of": 5}
    page = dom(browser, proxy)
    assert "late" not in page.hidden
    assert page.texts["late"].startswith("Most decisions are late: 3 of the last 5 were not made within 300 ms")
    assert page.texts["late"].endswith("Use a light policy, a GPU or a longer --deadline-ms; drsr doctor says which.")
    came("pruned")
    assert proxy.app.activity.mostly_late() is None  # half are not most


def test_a_light_policy_that_is_late_is_not_told_to_be_one(browser: Browser, start_proxy: StartProxy) -> None:
    proxy = start_proxy(policy=light_policy())
    for _ in range(5):
        proxy.app.activity.record(Exchange(Endpoint.MESSAGES, "POST", "/v1/messages", status=200, reason="busy"))
    said = dom(browser, proxy).texts["late"]
    assert "so other work is using the processor" in said
    assert "Use a light policy" not in said


def test_light_and_dark(
    browser: Browser, start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy()
    some_traffic(proxy, http)
    ground = browser.grounds(f"{proxy.address}/", CLOCK)
    assert ground["light"] > 0.9
    assert ground["dark"] < 0.2


def test_it_loads_nothing_from_elsewhere(proxy: RunningProxy, http: httpx.Client) -> None:
    for path in ("/", "/drsr/page.js", "/drsr/page.css"):
        answer = http.get(f"{proxy.address}{path}")
        assert answer.status_code == 200
        assert "://" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


NOT_SHOWN = {"held_bytes", "deciding", "undecided", "late_decisions", "client_disconnects", "refusals", "websockets"}
"""What the state says and the page does not: it is in the metrics."""


def test_the_state_is_what_the_page_reads(proxy: RunningProxy, http: httpx.Client) -> None:
    script = http.get(f"{proxy.address}/drsr/page.js").text
    state = http.get(f"{proxy.address}/drsr/state.json")
    assert state.headers["cache-control"] == "no-store"
    for key in json.loads(state.text):
        if key not in NOT_SHOWN:
            assert f"state.{key}" in script, key


def test_it_says_which_requests_the_policy_was_not_calibrated_on(
    browser: Browser, start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client
) -> None:
    proxy = start_proxy(policy=with_distribution(light_policy(), 1e-6))
    http.post(f"{proxy.address}/v1/chat/completions", json=openai_body(steps=7))
    assert eventually(lambda: proxy.count("compared", "outside") == 1)
    page = Page(browser.open(f"{proxy.address}/", CLOCK, "--dump-dom"))
    assert "light policy seeded," in page.texts["about"]
    assert page.texts["compared"].startswith("1 of 1 requests that were read are unlike")
