"""On, off or shadow: by header, by key, by default."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from drsr.errors import SettingsError
from drsr.proxy.http.modes import Mode, Modes, read_keys
from tests.agent_runs import openai_body
from tests.proxy.conftest import StartProxy
from tests.proxy.scripted_upstream import ScriptedUpstream


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


KEYS = {hashed("quiet"): Mode.OFF, hashed("watched"): Mode.SHADOW, hashed("trusted"): Mode.ON}


def mode(default: Mode = Mode.ON, **headers: str) -> Mode:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Modes(default, KEYS).of(given)


def test_a_header_says_more_than_a_key_and_a_key_more_than_the_default() -> None:
    assert mode() is Mode.ON
    assert mode(Mode.SHADOW) is Mode.SHADOW
    assert mode(authorization="Bearer quiet") is mode(x_api_key="quiet") is mode(api_key="quiet") is Mode.OFF
    assert mode(authorization="Bearer watched") is Mode.SHADOW
    assert mode(Mode.SHADOW, authorization="Bearer trusted") is Mode.ON
    assert mode(authorization="Bearer another") is Mode.ON
    assert mode(authorization="Bearer quiet", x_drsr_mode="Shadow") is Mode.SHADOW
    assert mode(x_drsr_mode="on", x_drsr_bypass="1") is Mode.OFF
    assert mode(x_drsr_mode="perhaps") is Mode.OFF  # what cannot be understood leaves the request alone


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# of the team\n{hashed('quiet')}  off  # ours\n\n{hashed('watched')} shadow\n")
    assert read_keys(path) == {hashed("quiet"): Mode.OFF, hashed("watched"): Mode.SHADOW}
    path.write_text(f"{hashed('a')} on\nsk-SECRET off\n")
    with pytest.raises(SettingsError, match="line 2") as caught:
        read_keys(path)
    assert "SECRET" not in str(caught.value)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_requests_go_by_their_mode(start_proxy: StartProxy, upstream: ScriptedUpstream, http: httpx.Client) -> None:
    proxy = start_proxy(keys=KEYS)
    found = {}
    for key in ("quiet", "watched", "another"):
        given = {"authorization": f"Bearer {key}"}
        answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body(), headers=given)
        found[key] = answer.headers["x-drsr-reason"], upstream.latest().json() == openai_body()
    assert found == {"quiet": ("bypass", True), "watched": ("shadow", True), "another": ("pruned", False)}
    answer = http.post(f"{proxy.address}/v1/chat/completions", json=openai_body(), headers={"x-drsr-mode": "shadow"})
    assert answer.headers["x-drsr-shadow-reason"] == "pruned"
    assert upstream.latest().header("x-drsr-mode") is None
