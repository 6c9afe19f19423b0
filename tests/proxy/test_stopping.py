"""The end of a proxy: decisions are given up at once, answers on their way are finished, and it is quick."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from drsr.policy.scripted import scripted_policy
from drsr.proxy.app import ProxyApp
from drsr.proxy.server import address_of, bind, make_server
from drsr.proxy.settings import ProxySettings, UpstreamUrl
from tests.agent_runs import openai_body
from tests.proxy.running import PATIENCE, eventually
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.proxy.test_cli import serving
from tests.proxy.test_limits import GatedScorer

AT_MOST = 3.0
"""Seconds."""


def test_a_decision_that_is_being_made_is_given_up_and_its_request_finished(
    upstream: ScriptedUpstream, upstream_url: str, http: httpx.Client, tmp_path: Path
) -> None:
    scorer = GatedScorer()
    settings = ProxySettings(UpstreamUrl.parse(upstream_url), tmp_path / "off", deadline=PATIENCE)
    app = ProxyApp(scripted_policy(scorer=scorer), settings)
    server, bound = make_server(app), bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    assert eventually(lambda: server.started)
    url = f"{address_of(bound)}/v1/chat/completions"
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(http.post, url, json=openai_body())
        assert scorer.asked.acquire(timeout=PATIENCE)
        start = time.monotonic()
        server.should_exit = True
        thread.join(PATIENCE)
        took = time.monotonic() - start
        assert answer.result().headers["x-drsr-reason"] == "stopping"
    scorer.go.set()
    assert upstream.latest().json() == openai_body()
    assert took <= AT_MOST


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_told_twice_it_waits_for_nobody(
    how: signal.Signals, upstream: ScriptedUpstream, upstream_url: str, tmp_path: Path
) -> None:
    scripted_policy().save(tmp_path / "policy")
    with (
        serving(tmp_path, "--upstream", upstream_url, "--policy", str(tmp_path / "policy"), "--json") as running,
        ThreadPoolExecutor(1) as threads,
    ):
        url = f"{json.loads(running.first_line)['address']}/v1/chat/completions"
        answer = threads.submit(httpx.post, url, json=openai_body(model="silent"), trust_env=False, timeout=PATIENCE)
        assert eventually(lambda: len(upstream.requests) == 1)
        running.process.send_signal(how)
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.5)  # the answer on its way is waited for
        start = time.monotonic()
        running.process.send_signal(how)
        running.process.wait(PATIENCE)
        assert time.monotonic() - start <= AT_MOST
        cut_off = answer.exception(timeout=PATIENCE)
        assert isinstance(cut_off, httpx.TransportError) or answer.result().status_code == 500
