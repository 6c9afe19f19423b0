"""Tasks in folders as a suite: the agent has one tool, a shell in the task's container, and tests judge what it left.

The container is started by the `docker` command, and is gone when the task is over. The tests come into it after the
agent has ended, so that it cannot read them. Nothing that the agent writes runs outside the container.
"""

from __future__ import annotations

import json
import math
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drsr.errors import AgentFailed, SuiteNotInstalled
from drsr.offline.bench.task_folders.folder import TaskFolder, find_task

Json = dict[str, Any]

COMMAND_SECONDS = 120.0
"""A command of the agent that runs longer is ended."""
LONGEST_OUTPUT = 30_000
"""Characters of a result: the beginning and the end of what is longer."""
_SYSTEM = "You work in a container. Do the task with the tool `shell`. When it is done, answer without calling a tool."
_TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command by bash in the container; every call starts in the working directory.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}


class TaskFolders:
    """The tasks of a folder."""

    executes_here = False

    def __init__(self, root: Path, docker: str = "docker") -> None:
        """`docker` is the command that starts containers."""
        self._root = root
        self._docker = docker

    @contextmanager
    def open(self, task: str) -> Iterator[InContainer]:
        found = find_task(self._root, task)
        name = f"drsr-task-{uuid.uuid4().hex}"
        image = found.image or self._built(found, name)
        limits = [] if found.processors is None else [f"--cpus={found.processors:g}"]
        limits += [] if found.memory_mb is None else [f"--memory={found.memory_mb}m"]
        limits += [] if found.network else ["--network=none"]
        try:
            self._run("run", "--detach", f"--name={name}", *limits, image, "sleep", "infinity", seconds=600)
            yield InContainer(found, self._docker, name)
        finally:
            self._run("rm", "--force", "--volumes", name, check=False, seconds=60)
            if found.image is None:
                self._run("rmi", "--force", name, check=False, seconds=60)

    def _built(self, task: TaskFolder, name: str) -> str:
        folder = str(task.path / "environment")
        self._run("build", "--quiet", f"--tag={name}", folder, seconds=task.build_seconds)
        return name

    def _run(self, *words: str, seconds: float, check: bool = True) -> None:
        run_docker([self._docker, *words], seconds, check=check)


class InContainer:
    """One task in its container."""

    def __init__(self, task: TaskFolder, docker: str, name: str) -> None:
        self._task = task
        self._docker = docker
        self._name = name

    @property
    def opening(self) -> Json:
        messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": self._task.instruction}]
        return {"messages": messages, "tools": [_TOOL]}

    def follow(self, message: Json) -> Sequence[Json] | None:
        calls = message.get("tool_calls") or []
        if not calls:
            return None
        return [{"role": "tool", "tool_call_id": made["id"], "content": self._call(made["function"])} for made in calls]

    def reward(self) -> float:
        """Run the tests. Raise AgentFailed if they leave no reward, which says nothing about the agent."""
        self._exec("rm", "-rf", "/tests", "/logs/verifier")
        self._exec("mkdir", "-p", "/tests", "/logs/verifier")
        tests = f"{self._task.path / 'tests'}/."
        run_docker([self._docker, "cp", tests, f"{self._name}:/tests"], self._task.test_seconds)
        limit = f"{math.ceil(self._task.test_seconds)}"
        done = self._exec("timeout", limit, "bash", "/tests/test.sh", seconds=self._task.test_seconds + 60)
        for name in ("reward.txt", "reward.json"):
            found = self._exec("cat", f"/logs/verifier/{name}")
            if found.returncode == 0:
                return _reward(found.stdout, name, self._task.path)
        raise AgentFailed(
            f"the tests ended with exit code {done.returncode} and left no reward",
            where=str(self._task.path),
            hint="tests/test.sh writes /logs/verifier/reward.txt or reward.json; run it in the container by hand",
        )

    def _call(self, function: Json) -> str:
        """Execute a call. A model may call anything with anything; what cannot be done is reported as a tool would
        report it."""
        try:
            arguments = json.loads(function["arguments"] or "{}")
        except ValueError:
            return "error: the arguments are not JSON"
        command = arguments.get("command") if isinstance(arguments, dict) else None
        if function["name"] != "shell" or not isinstance(command, str) or "\0" in command:
            return "error: the only tool is shell, with a text as `command`"
        # `timeout` ends it inside the container, where ending the client would leave it at work.
        limited = ["timeout", "--kill-after=5", f"{COMMAND_SECONDS:g}", "bash", "-c", command]
        done = self._exec(*limited, seconds=COMMAND_SECONDS + 30)
        said = done.stdout + done.stderr
        if len(said) > LONGEST_OUTPUT:
            half = LONGEST_OUTPUT // 2
            said = f"{said[:half]}\n[{len(said) - 2 * half:,} characters left out]\n{said[-half:]}"
        return said if done.returncode == 0 else f"{said}\n[exit code {done.returncode}]"

    def _exec(self, *words: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
        return run_docker([self._docker, "exec", self._name, *words], seconds, check=False)


def run_docker(words: Sequence[str], seconds: float, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of the engine. AgentFailed if it fails, unless its exit code is for the caller to read."""
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise SuiteNotInstalled(
            f"there is no command {words[0]!r}", hint="tasks in folders run in containers: install Docker"
        ) from None
    except subprocess.TimeoutExpired:
        raise AgentFailed(f"docker {words[1]} took longer than {seconds:g} s", hint="is the engine running?") from None
    if check and done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        raise AgentFailed(f"docker {words[1]} failed: {last}", hint="is the engine running, and may you use it?")
    return done


def _reward(text: str, name: str, path: Path) -> float:
    """Return the number that the tests wrote, between 0 and 1; of several in JSON the one called `reward`."""
    try:
        value = json.loads(text)
        found = value["reward"] if isinstance(value, dict) else value
        reward = float(found)
    except (ValueError, KeyError, TypeError):
        reward = math.nan
    if not 0 <= reward <= 1:
        raise AgentFailed(f"{name} holds {text.strip()[:80]!r}, not a number from 0 to 1", where=str(path))
    return reward
