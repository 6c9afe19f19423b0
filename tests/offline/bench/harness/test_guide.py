"""The guide keeps its word: the commands and snippets of docs/guides/measure-your-agent.md run, in its order."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.harness import bundled_manifests
from drsr.offline.bench.harness.agent import Answer
from drsr.offline.bench.harness.bundled_manifests import find_manifest
from drsr.offline.bench.harness.episode import run_episode
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.offline.sandbox.corpus import corpus_tasks
from drsr.offline.sandbox.recorder import Task
from drsr.offline.store import progress
from tests.offline.bench.harness.settings import quick_setting
from tests.offline.bench.harness.test_episode import ToldAgent
from tests.offline.bench.loopback_endpoint import Asked, Reply, completion, loopback_endpoint
from tests.offline.sandbox.conversations import agent

GUIDE = (Path(__file__).parents[4] / "docs" / "guides" / "measure-your-agent.md").read_text()
BLOCKS = re.findall(r"```(console|python|json)\n(.*?)```", GUIDE, re.DOTALL)


def test_there_is_something_to_run() -> None:
    assert [kind for kind, _ in BLOCKS] == ["console", "python", "console", "console", "json", "python"]


def test_the_guide_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path / 'catalog.sqlite'}")
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)
    monkeypatch.setattr(bundled_manifests, "corpus_tasks", _without_pytest_first)
    names: dict[str, Any] = {}
    with loopback_endpoint(_reply) as url:
        for kind, text in BLOCKS:
            if kind == "console":
                (command, shown), *_ = re.findall(r"^\$ drsr (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
                assert main(shlex.split(command.replace("http://127.0.0.1:8000/v1", url))) == 0, command
                said = capsys.readouterr().out.replace(url, "http://127.0.0.1:8000/v1")
                pattern = "".join(_pattern(line) for line in shown.splitlines())
                assert re.match(pattern, said, re.DOTALL), f"drsr {command} no longer prints\n{shown}\nbut\n{said}"
            elif kind == "python":
                exec(compile(text, "measure-your-agent.md", "exec"), names)  # noqa: S102 - our own text
            else:
                (tmp_path / "mine.json").write_text(text)
    manifest = find_manifest(str(tmp_path / "mine.json"))
    said_done = ToldAgent(*(Answer({"role": "assistant", "content": text}, Usage(9, 1)) for text in ("hm", "done")))
    setting = quick_setting()._replace(suite=names["MyBench"](), agent=said_done)
    episode = run_episode(manifest.tasks[0], Baseline(), setting)
    assert (episode.reward, len(episode.sent), episode.tokens.total) == (1.0, 2, 20)


def _without_pytest_first(seed: int, count: int) -> list[Task]:
    """The same tasks from the second on: the first starts pytest again and again, which takes seconds."""
    first, *others = corpus_tasks(seed, count)
    return [*others, first]


def _reply(asked: Asked) -> Reply:
    messages = asked.body["messages"]
    return Reply(completion(agent(messages), len(json.dumps(messages)) // 4, 20))


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return ".*"
    return re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"
