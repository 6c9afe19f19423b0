"""Settings: what the upstream's address may be, and values that make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drsr.errors import SettingsError
from drsr.proxy.settings import ProxySettings, SessionSettings, UpstreamUrl
from drsr.sessions.prices import Prices

GOOD = UpstreamUrl.parse("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("text", "parts", "shown"),
    [
        ("https://api.example.com", ("https", "api.example.com", 443, ""), "https://api.example.com"),
        ("https://api.example.com/", ("https", "api.example.com", 443, ""), "https://api.example.com"),
        ("http://h:8000/a/b/", ("http", "h", 8000, "/a/b"), "http://h:8000/a/b"),
        ("http://[::1]:8000", ("http", "::1", 8000, ""), "http://[::1]:8000"),
        ("HTTPS://H/v1beta/openai", ("https", "h", 443, "/v1beta/openai"), "https://h/v1beta/openai"),
    ],
)
def test_an_upstream(text: str, parts: tuple[object, ...], shown: str) -> None:
    assert UpstreamUrl.parse(text) == parts
    assert str(UpstreamUrl.parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "not the URL"),
        ("api.example.com", "not the URL"),
        ("ftp://h", "not the URL"),
        ("file:///etc/passwd", "not the URL"),
        ("http://", "not the URL"),
        ("http://h:port", "not a URL"),
        ("http://h:99999", "not a URL"),
        ("http://[::1", "not a URL"),
        ("https://user:SECRET@h", "a user, a password"),
        ("https://h/?key=SECRET", "a user, a password"),
        ("https://h/a b", "not percent-encoded"),
        ("https://h/\u00e9", "not percent-encoded"),
        ("https://h/v1", "ends in /v1"),
        ("https://h/api/v1/", "--upstream https://h/api"),
    ],
)
def test_what_is_no_upstream(text: str, what: str) -> None:
    with pytest.raises(SettingsError, match=what) as caught:
        UpstreamUrl.parse(text)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"deadline": 0}, "--deadline-ms"),
        ({"workers": 0}, "--workers"),
        ({"max_body": 0}, "--max-body-mb"),
        ({"max_concurrent": 0}, "--max-concurrent"),
        ({"patience": -1}, "--queue-seconds"),
        ({"upstream_timeout": 0}, "--upstream-timeout"),
        ({"queued_decisions": -1}, "queued decisions"),
        ({"deadline": float("nan")}, "--deadline-ms"),
    ],
)
def test_values_that_make_no_sense(values: dict[str, Any], option: str) -> None:
    with pytest.raises(SettingsError, match=option):
        ProxySettings(GOOD, Path("off"), **values)


@pytest.mark.parametrize("values", [{"expected_calls": 0}, {"limit": 0}])
def test_sessions_that_make_no_sense(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        SessionSettings(Prices(1, 1, 1, 1), **values)
