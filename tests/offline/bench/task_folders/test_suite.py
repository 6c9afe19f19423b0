"""A task of our own in the published layout, from its first command to its reward. A double stands for Docker."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import AgentFailed, ManifestError, SuiteNotInstalled
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.harness.agent import Answer
from drsr.offline.bench.harness.episode import run_episode
from drsr.offline.bench.harness.manifest import ManifestTask
from drsr.offline.bench.harness.suite import find_suite
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.offline.bench.task_folders.folder import find_task
from drsr.offline.bench.task_folders.suite import LONGEST_OUTPUT, TaskFolders
from tests.offline.bench.harness.settings import quick_setting
from tests.offline.bench.harness.test_episode import ToldAgent

DOUBLE = """#!{python}
# A double of the command docker: a container is a folder, and its absolute paths are rewritten to lie in it.
import os, pathlib, shutil, subprocess, sys
home = pathlib.Path({home!r})
what, *words = sys.argv[1:]
with (home / "log").open("a") as log:
    print(what, *words, file=log)
inside = lambda root, text: text.replace("/tests", f"{{root}}/tests").replace("/logs", f"{{root}}/logs")
if what == "build":
    assert (pathlib.Path(words[-1]) / "Dockerfile").is_file()
elif what == "run":
    (name,) = [word.removeprefix("--name=") for word in words if word.startswith("--name=")]
    (home / name / "work").mkdir(parents=True)
elif what == "cp":
    name, _, place = words[1].partition(":")
    root = home / name
    shutil.copytree(words[0], f"{{root}}{{place}}", dirs_exist_ok=True)
    for path in pathlib.Path(f"{{root}}{{place}}").rglob("*.sh"):
        path.write_text(inside(root, path.read_text()))
elif what == "exec":
    root = home / words[0]
    sys.exit(subprocess.run([inside(root, word) for word in words[1:]], cwd=root / "work").returncode)
elif what == "rm":
    shutil.rmtree(home / words[-1], ignore_errors=True)
"""
TASK = "write-the-answer"
TOML = "[verifier]\ntimeout_sec = 30\n[environment]\ncpus = 2\nmemory_mb = 512\nallow_internet = false\n"
TESTS = 'if [ "$(cat answer.txt)" = 42 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0.25 > /logs/verifier/reward.txt; fi\n'  # noqa: E501


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A subset with one task."""
    folder = tmp_path / "datasets" / "wb-bench-code-v1.0" / "tasks" / TASK
    for name, text in {
        "instruction.md": "Write 42 into answer.txt.\n",
        "task.toml": TOML,
        "environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /work\n",
        "tests/test.sh": TESTS,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return tmp_path / "datasets"


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    home = tmp_path / "containers"
    home.mkdir()
    path = tmp_path / "docker"
    path.write_text(DOUBLE.format(python=sys.executable, home=str(home)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def shell(command: str, number: int = 0) -> dict[str, Any]:
    function = {"name": "shell", "arguments": json.dumps({"command": command})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"c{number}", "function": function}]}


@pytest.mark.parametrize(("command", "reward"), [("echo 42 > answer.txt", 1.0), ("echo 41 > answer.txt", 0.25)])
def test_a_task_from_its_first_command_to_its_reward(root: Path, docker: Path, command: str, reward: float) -> None:
    call = shell(command)
    call["tool_calls"][0]["type"] = "function"
    agent = ToldAgent(Answer(call, Usage(9, 1)), Answer({"role": "assistant", "content": "Done."}, Usage(20, 1)))
    setting = quick_setting()._replace(suite=TaskFolders(root, str(docker)), agent=agent)
    episode = run_episode(ManifestTask(TASK, "code"), Baseline(), setting)
    assert (episode.reward, episode.ending, len(episode.sent)) == (reward, "answered", 2)
    home = docker.parent / "containers"
    assert [path.name for path in home.iterdir()] == ["log"], "no container is left"
    started = [line for line in (home / "log").read_text().splitlines() if line.startswith("run ")]
    assert "--cpus=2 --memory=512m --network=none" in started[0]


def test_the_tests_are_not_there_while_the_agent_works(root: Path, docker: Path) -> None:
    with TaskFolders(root, str(docker)).open(TASK) as environment:
        assert environment.opening["messages"][1]["content"] == "Write 42 into answer.txt.\n"
        (seen,) = (
            environment.follow(shell("ls /tests; mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt")) or ()
        )
        assert "No such file" in seen["content"]
        assert environment.reward() == 0.25, "a reward that the agent wrote does not count"


def test_what_a_command_says(root: Path, docker: Path) -> None:
    with TaskFolders(root, str(docker)).open(TASK) as environment:
        (failed,) = environment.follow(shell("echo out; echo err >&2; exit 3")) or ()
        assert failed["content"] == "out\nerr\n\n[exit code 3]"
        (long,) = environment.follow(shell("seq 1 20000")) or ()
        assert len(long["content"]) < LONGEST_OUTPUT + 100
        assert "characters left out" in long["content"]
        odd = {"id": "x", "function": {"name": "browser", "arguments": "{}"}}
        (refused,) = environment.follow({"tool_calls": [odd]}) or ()
        assert refused["content"].startswith("error: the only tool is shell")


@pytest.mark.parametrize("wrote", ["", "echo 2 > /logs/verifier/reward.txt", "echo nan > /logs/verifier/reward.txt"])
def test_tests_that_leave_no_reward_are_no_failure_of_the_agent(root: Path, docker: Path, wrote: str) -> None:
    (root / "wb-bench-code-v1.0" / "tasks" / TASK / "tests" / "test.sh").write_text(wrote + "\n")
    with TaskFolders(root, str(docker)).open(TASK) as environment, pytest.raises(AgentFailed):
        environment.reward()


def test_a_reward_in_json(root: Path, docker: Path) -> None:
    script = """echo '{"reward": 0.5}' > /logs/verifier/reward.json\n"""
    (root / "wb-bench-code-v1.0" / "tasks" / TASK / "tests" / "test.sh").write_text(script)
    with TaskFolders(root, str(docker)).open(TASK) as environment:
        assert environment.reward() == 0.5


@pytest.mark.parametrize("task", ["..", "a/b", "", "not-there", "write-*"])
def test_only_tasks_of_the_folder_are_found(root: Path, task: str) -> None:
    with pytest.raises(ManifestError):
        find_task(root, task)


@pytest.mark.parametrize("line", ["docker_image = 3", "cpus = -1", 'memory_mb = "all"'])
def test_settings_that_cannot_be_meant_are_refused(root: Path, line: str) -> None:
    (root / "wb-bench-code-v1.0" / "tasks" / TASK / "task.toml").write_text(f"[environment]\n{line}\n")
    with pytest.raises(ManifestError):
        find_task(root, TASK)


def test_without_docker_the_command_says_so(root: Path, tmp_path: Path) -> None:
    suite = TaskFolders(root, str(tmp_path / "no-docker"))
    with pytest.raises(SuiteNotInstalled, match="there is no command"), suite.open(TASK):
        raise AssertionError("never")


def test_the_folder_is_named_in_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRSR_WORKBUDDYBENCH", str(root))
    suite = find_suite("workbuddybench")
    assert isinstance(suite, TaskFolders)
    assert suite.executes_here is False
