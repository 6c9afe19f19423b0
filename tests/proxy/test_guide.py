"""docs/guides/proxy.md keeps its word: its Python runs, its commands do what is shown, every option is in its table."""

from __future__ import annotations

import argparse
import re
import shlex
import signal
from pathlib import Path

import pytest

from drsr.cli import build_parser
from tests.proxy.running import RunningProxy
from tests.proxy.scripted_upstream import ScriptedUpstream
from tests.proxy.test_cli import serving

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "proxy.md").read_text()
COMMANDS = re.findall(r"^\$ drsr serve (.*)\n((?:(?!\$ |```).*\n)*)", GUIDE, re.MULTILINE)
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
LISTENS, UPSTREAM = "http://127.0.0.1:8787", "http://127.0.0.1:8000"


def execute(source: str) -> None:
    exec(compile(source, "proxy.md", "exec"), {})  # noqa: S102 - our own text, and the point of the test


def test_there_is_something_to_run() -> None:
    assert (len(COMMANDS), len(PYTHON)) == (3, 3)


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=range(len(COMMANDS)))
def test_the_commands_start_what_they_say(
    command: str, shown: str, tmp_path: Path, upstream_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    execute(PYTHON[0])
    with serving(tmp_path, *shlex.split(command.replace(UPSTREAM, upstream_url))) as running:
        assert running.process.stdout is not None
        said = running.first_line + running.process.stdout.readline()
        address = said.partition(" ")[0]
        assert said.replace(address, LISTENS).replace(upstream_url, UPSTREAM) == shown
        running.end(signal.SIGTERM)


@pytest.mark.parametrize("source", PYTHON[1:], ids=["openai", "anthropic"])
def test_the_clients_reach_the_upstream(
    source: str, proxy: RunningProxy, upstream: ScriptedUpstream, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(source.replace(LISTENS, proxy.address).replace("your-model", "echo"))
    assert capsys.readouterr().out in ("too_few_candidates 0\n", "hello\n")
    assert len(upstream.requests) == 1
    assert any("your own key" in value for _, value in upstream.latest().headers)


def test_every_option_is_in_the_table() -> None:
    commands = next(action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    options = {name for action in commands.choices["serve"]._actions for name in action.option_strings}
    table = GUIDE.partition("## All options")[2]
    assert set(re.findall(r"--[a-z][a-z-]+", table)) == options - {"-h", "--help", "--debug"}
