"""The contract of a suite, so that any benchmark can be run: it opens a task's environment by its id.

A benchmark of yours joins through the entry-point group `drsr.suites`, under the name that manifests call it by:

    [project.entry-points."drsr.suites"]
    workbuddybench = "my_runner:suite"      # a function without arguments that gives a Suite
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from drsr.errors import ManifestError, SuiteNotInstalled
from drsr.offline.bench.harness.bundled_manifests import SANDBOX, WORKBUDDYBENCH

GROUP = "drsr.suites"
FOLDER_VARIABLE = "DRSR_WORKBUDDYBENCH"
"""The environment variable that names the folder with the subsets of WorkBuddyBench."""
_HINT = "install a package that brings its runner; docs/guides/measure-your-agent.md says what that is"
_HINTS = {WORKBUDDYBENCH: f"name the folder with its tasks by {FOLDER_VARIABLE}; docs/guides/measure-your-agent.md"}
Json = dict[str, Any]


class Environment(Protocol):
    """One task in progress. Messages are in OpenAI chat form."""

    @property
    def opening(self) -> Json:
        """Return the first request: `messages` and `tools`, without the model's name."""

    def follow(self, message: Json) -> Sequence[Json] | None:
        """Return the reply to an assistant message: a result for each of its calls, or a message of the user; None if
        the task is over."""

    def reward(self) -> float:
        """Return how well the task is done so far, from 0 to 1."""


class Suite(Protocol):
    """A benchmark's tasks."""

    @property
    def executes_here(self) -> bool:
        """Return whether commands that the agent writes run on this machine, with the rights of this process."""

    def open(self, task: str) -> AbstractContextManager[Environment]:
        """Open a fresh environment; its resources are released when the block ends. Raise ManifestError for an id it
        does not know."""


def find_suite(name: str) -> Suite:
    """Return our own suite, a suite that an installed package brings, or WorkBuddyBench's tasks in a given folder."""
    if name == SANDBOX:
        from drsr.offline.bench.harness.sandbox_suite import SandboxSuite

        return SandboxSuite()
    found = entry_points(group=GROUP, name=name)
    if not found and name == WORKBUDDYBENCH and os.environ.get(FOLDER_VARIABLE):
        from drsr.offline.bench.task_folders.suite import TaskFolders

        return TaskFolders(Path(os.environ[FOLDER_VARIABLE]))
    if not found:
        raise SuiteNotInstalled(
            f"nothing here can run tasks of {name!r}",
            where=f"entry points {GROUP}",
            hint=_HINTS.get(name, _HINT),
        )
    if len(found) > 1:
        raise ManifestError(f"{len(found)} packages bring the suite {name!r}", where=f"entry points {GROUP}")
    (entry,) = found
    suite: Suite = entry.load()()
    return suite
