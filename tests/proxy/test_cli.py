"""`drsr serve` as people run it: a process of its own, its log, its end, and what it says to bad options."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from drsr.cli import main
from drsr.policy.scripted import scripted_policy
from drsr.receipts.receipt_file import read_receipts
from tests.agent_runs import anthropic_body, openai_body
from tests.proxy.running import PATIENCE
from tests.proxy.scripted_upstream import ScriptedUpstream


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    scripted_policy().save(tmp_path / "policy")
    return tmp_path / "policy"


class Serving:
    """A running `drsr serve`."""

    def __init__(self, process: subprocess.Popen[str], first_line: str) -> None:
        self.process = process
        self.first_line = first_line
        self.log = ""

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        _, self.log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Serving]:
    command = [sys.executable, "-m", "drsr", "serve", "--port", "0", *arguments]
    # A shell's background job ignores SIGINT, and whatever it starts would, too.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=PATIENCE)[1])
        yield Serving(process, line)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_logs_and_ends(
    policy: Path, tmp_path: Path, upstream: ScriptedUpstream, upstream_url: str, http: httpx.Client, how: signal.Signals
) -> None:
    options = ["--upstream", upstream_url, "--policy", str(policy), "--json", "--receipts", "out/receipts.jsonl"]
    with serving(tmp_path, *options, "--sessions", "--prices", "3,0.3,3.75,15", "--expected-calls", "40") as running:
        said = json.loads(running.first_line)
        assert said["mode"] == "pruning"
        assert said["upstream"] == upstream_url
        url = said["address"]
        secret = {"authorization": "Bearer SECRET"}
        first = http.post(f"{url}/v1/chat/completions?key=SECRET", json=openai_body(), headers=secret)
        assert first.headers["x-drsr-reason"] == "pruned"
        assert upstream.latest().header("authorization") == "Bearer SECRET"
        kill_file = tmp_path / said["kill_file"]
        kill_file.parent.mkdir(exist_ok=True)
        kill_file.touch()
        second = http.post(f"{url}/v1/messages", json=anthropic_body(), headers=secret)
        assert second.headers["x-drsr-reason"] == "kill_switch"
        with http.stream("POST", f"{url}/v1/messages", json=anthropic_body(model="gated", stream=True)) as third:
            upstream.gate.set()
            third.read()
        code = running.end(how)
        assert code in (-signal.SIGTERM, 130)
        lines = [json.loads(line) for line in running.log.splitlines() if line.startswith("{")]
    assert [(line["path"], line["reason"]) for line in lines if "path" in line] == [
        ("/v1/chat/completions", "pruned"),
        ("/v1/messages", "kill_switch"),
        ("/v1/messages", "kill_switch"),
    ]
    assert "Traceback" not in running.log
    assert "SECRET" not in running.log
    (record,) = read_receipts(tmp_path / "out" / "receipts.jsonl")  # written before the end
    assert record["id"] == first.headers["x-drsr-decision"] == lines[0]["decision"]
    assert main(["explain", record["id"], "--receipts", str(tmp_path / "out" / "receipts.jsonl")]) == 0


def test_a_person_sees_where_it_listens(
    policy: Path, tmp_path: Path, upstream: ScriptedUpstream, upstream_url: str, http: httpx.Client
) -> None:
    with serving(tmp_path, "--upstream", upstream_url, "--policy", str(policy), "--shadow", "--no-sessions") as running:
        address = running.first_line.split(" ")[0]
        assert running.first_line == f"{address} -> {upstream_url}, policy scripted.0, shadow\n"
        http.post(f"{address}/v1/chat/completions", json=openai_body())
        running.end(signal.SIGTERM)
    (line,) = [line for line in running.log.splitlines() if "POST" in line]
    assert "/v1/chat/completions  200" in line
    assert "shadow  would have saved" in line


def test_requests_on_their_way_are_finished_first(
    policy: Path, tmp_path: Path, upstream: ScriptedUpstream, upstream_url: str, http: httpx.Client
) -> None:
    with serving(tmp_path, "--upstream", upstream_url, "--policy", str(policy)) as running:
        address = running.first_line.split(" ")[0]
        body = openai_body("alpha", model="gated", stream=True)
        with http.stream("POST", f"{address}/v1/chat/completions", json=body) as answer:
            pieces = answer.iter_text()
            found = next(pieces)
            running.process.send_signal(signal.SIGTERM)
            upstream.gate.set()
            found += "".join(pieces)
        assert found.endswith("data: [DONE]\n\n")
        assert running.process.wait(PATIENCE) == -signal.SIGTERM


URL = ["--upstream", "http://127.0.0.1:9"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--upstream", "nowhere"], "not the URL of an HTTP server"),
        (["--upstream", "https://u:SECRET@h"], "a user, a password"),
        (["--upstream", "https://h/v1"], "ends in /v1"),
        ([*URL, "--deadline-ms", "0"], "--deadline-ms: must be more than 0"),
        ([*URL, "--max-body-mb", "0"], "--max-body-mb: must be more than 0"),
        ([*URL, "--max-concurrent", "0"], "--max-concurrent: must be at least 1"),
        ([*URL, "--keep-text"], "add --receipts FILE"),
        ([*URL, "--no-sessions", "--prices", "1,2,3,4"], "need --sessions"),
        ([*URL, "--no-sessions", "--max-sessions", "3"], "need --sessions"),
        ([*URL, "--prices", "1,2,-3,4"], "must be a number from 0 on"),
        ([*URL, "--sessions", "--prices", "cheap"], "four numbers"),
        ([*URL, "--sessions", "--prices", "1,2,3,4", "--max-sessions", "0"], "--max-sessions: must be at least 1"),
        ([*URL, "--protect", "everything"], "is not a rule for what to protect"),
        ([*URL, "--receipts", "policy/policy.json/receipts"], "receipts cannot be written"),
        ([*URL, "--port", "70000"], "--port: must be from 0 to 65535"),
        ([*URL, "--host", "256.1.1.1"], "cannot listen there"),
    ],
)
def test_bad_options_are_said_and_nothing_starts(
    policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--policy", str(policy), "--port", "0", *options]) == 2
    said = capsys.readouterr()
    assert what in said.err
    assert said.out == ""
    assert "SECRET" not in said.err
    assert sorted(os.listdir(tmp_path)) == ["policy"]


def test_without_a_policy_the_installed_one_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *URL]) == 2
    assert "no policy is installed" in capsys.readouterr().err


def test_a_policy_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *URL, "--policy", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["starlette", "httpx", "uvicorn"])
def test_without_its_extra(policy: Path, package: str) -> None:
    """In a process of its own, from which one package is hidden."""
    hide = f"import sys; sys.modules[{package!r}] = None; from drsr.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", hide, "serve", *URL, "--policy", str(policy), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert "pip install 'drsr[proxy]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", *URL, "--policy", str(policy), "--port", port]) == 2
        assert "cannot listen there: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("upstream", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_its_own_address_is_no_upstream(
    policy: Path, capsys: pytest.CaptureFixture[str], host: str, upstream: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    options = ["--policy", str(policy), "--host", host, "--port", str(port)]
    assert main(["serve", "--upstream", f"http://{upstream}:{port}", *options]) == 2
    assert "this proxy's own address" in capsys.readouterr().err


def test_pinned_blocks_stay(
    policy: Path, tmp_path: Path, upstream: ScriptedUpstream, upstream_url: str, http: httpx.Client
) -> None:
    options = ["--upstream", upstream_url, "--policy", str(policy), "--protect", "tool=read_log", "--quiet", "--json"]
    with serving(tmp_path, *options) as running:
        url = json.loads(running.first_line)["address"]
        body = openai_body()
        http.post(f"{url}/v1/chat/completions", json=body)
        sent = upstream.latest().json()["messages"]
        running.end(signal.SIGTERM)
    kept = [message for message in sent if message["role"] == "tool"]
    assert kept == [message for message in body["messages"] if message["role"] == "tool"]
    assert running.log == ""
