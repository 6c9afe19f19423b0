"""A task in WorkBuddyBench's layout in a real container, with an agent behind an endpoint, by the command itself.

The engine is buildah: it builds the image from the task's Dockerfile, and every command runs in a root of its own, so
that `/tests` and `/logs` are the paths that they say. A script translates what the runner asks of `docker`, whose own
daemon is on no machine that the tests ran on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.offline.bench.loopback_endpoint import Asked, Reply, completion, loopback_endpoint
from tests.offline.commands.conftest import Drsr, drsr

__all__ = ["drsr"]

pytestmark = [
    pytest.mark.parametrize("database", ["sqlite"], indirect=True),
    pytest.mark.skipif(
        shutil.which("buildah") is None or os.geteuid() != 0, reason="needs buildah, and to be root in a container"
    ),
]
TASK = "count-the-lines"
PROGRAMS = ("bash", "cat", "ls", "mkdir", "rm", "timeout", "wc")
DOCKER = """#!/bin/sh
set -e
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
echo "$@" >> {home}/log
engine() {{ buildah --root {home}/storage --runroot {home}/run "$@"; }}
what=$1; shift
case $what in
  build) engine build "$@" ;;
  run)
    for word; do
      case $word in --name=*) name=${{word#--name=}} ;; --*) ;; sleep) break ;; *) image=$word ;; esac
    done
    engine from --name "$name" "$image" ;;
  exec) name=$1; shift; engine run "$name" -- "$@" ;;
  cp) engine copy --quiet "${{2%%:*}}" "$1" "${{2#*:}}" ;;
  rm) for name; do :; done; engine rm "$name" ;;
  rmi) for name; do :; done; engine rmi --force "$name" ;;
esac
"""
TESTS = """\
mkdir -p /logs/verifier
if [ "$(cat /work/answer.txt)" = 3 ] && [ -f /tests/hidden ]; then echo '{"reward": 0.75}' > /logs/verifier/reward.json
else echo 0 > /logs/verifier/reward.txt; fi
"""
COMMANDS = ("ls /tests; cat lines.txt", "wc -l < lines.txt > answer.txt; cat answer.txt")


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """A subset with one task, whose image holds a shell of this machine."""
    folder = tmp_path / "datasets" / "wb-bench-code-v1.0" / "tasks" / TASK
    for name, text in {
        "instruction.md": "Write the number of lines in lines.txt into answer.txt.\n",
        "task.toml": "[verifier]\ntimeout_sec = 30\n[environment]\ncpus = 1\nallow_internet = false\n",
        "environment/Dockerfile": "FROM scratch\nCOPY root/ /\nENV PATH=/bin\nWORKDIR /work\n",
        "environment/root/work/lines.txt": "one\ntwo\nthree\n",
        "tests/test.sh": TESTS,
        "tests/hidden": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _with_programs(folder / "environment" / "root")
    return tmp_path / "datasets"


def _with_programs(root: Path) -> None:
    for name in ("tmp", "etc"):
        (root / name).mkdir()
    for program in PROGRAMS:
        found = Path(str(shutil.which(program)))
        listed = subprocess.run(["ldd", str(found)], capture_output=True, text=True, check=True).stdout
        for path, place in [(found, f"bin/{program}"), *((Path(one), one[1:]) for one in re.findall(r"/\S+", listed))]:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / place)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A command `docker` in front of all others, and its home, which is empty again at the end."""
    home = tmp_path / "engine"
    home.mkdir()
    (home / "docker").write_text(DOCKER.format(home=home))
    (home / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    yield home
    for what in ("containers", "images"):
        asked = ["buildah", "--root", f"{home}/storage", "--runroot", f"{home}/run", what, "--quiet"]
        left = subprocess.run(asked, capture_output=True, text=True, env=os.environ | {"STORAGE_DRIVER": "vfs"})
        assert (left.returncode, left.stdout) == (0, ""), what


def test_a_task_of_the_published_layout_from_its_image_to_its_reward(
    drsr: Drsr, datasets: Path, engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRSR_WORKBUDDYBENCH", str(datasets))
    manifest = tmp_path / "one.json"
    tasks = [{"id": TASK, "domain": "code"}]
    value = {"format": "drsr tasks/1", "name": "one", "suite": "workbuddybench", "weighting": "tasks"}
    manifest.write_text(json.dumps({**value, "counts": {"code": 1}, "tasks": tasks}))
    asked: list[list[dict[str, Any]]] = []

    def reply(found: Asked) -> Reply:
        messages = found.body["messages"]
        asked.append(messages)
        number = sum(message["role"] == "tool" for message in messages)
        if number == len(COMMANDS):
            return Reply(completion({"role": "assistant", "content": "Done."}, 90, 9))
        function = {"name": "shell", "arguments": json.dumps({"command": COMMANDS[number]})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        return Reply(completion({"role": "assistant", "content": None, "tool_calls": [call]}, 50, 9))

    with loopback_endpoint(reply) as url:
        options = ("--agent", url, "--agent-model", "tiny", "--methods", "baseline", "--replicates", "20")
        found = drsr("evaluate", "--tasks", str(manifest), *options, "--json").json
    (row,) = found["methods"]
    assert (row["reward"]["tasks"]["value"], row["failed"], row["requests"]) == (0.75, 0, 3)
    assert "number of lines" in asked[0][1]["content"]
    listed, counted = (message["content"] for message in asked[-1] if message["role"] == "tool")
    assert "/tests" in listed, "the tests are not there while the agent works"
    assert "one\ntwo\nthree\n" in listed
    assert counted.strip() == "3"
    assert not (
        datasets / "wb-bench-code-v1.0" / "tasks" / TASK / "environment" / "root" / "work" / "answer.txt"
    ).exists()
    started = [line for line in (engine / "log").read_text().splitlines() if line.startswith("run ")]
    assert "--cpus=1 --network=none" in started[0]
