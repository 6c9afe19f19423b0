"""Steps of what `make` does: commands that you can type yourself, each shown with its reason before it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Step(NamedTuple):
    why: str
    command: tuple[str, ...]
    """Without the interpreter: `drsr ...`, or a module and its arguments."""

    @property
    def shown(self) -> str:
        """Return the command as one would type it."""
        return " ".join(self.command if self.command[0] in ("drsr", "dvc") else ("python", "-m", *self.command))


class Workspace(NamedTuple):
    """A catalog and its artifacts in a folder of their own: what is made there depends on nothing else."""

    folder: Path

    @property
    def settings(self) -> dict[str, str]:
        """Return what to put into the environment to continue by hand."""
        place = self.folder.absolute()
        return {
            "DRSR_CATALOG_URL": f"sqlite:///{place / 'catalog.sqlite'}",
            "DRSR_ARTIFACT_ROOT": str(place / "artifacts"),
        }

    def run(self, step: Step, output: Path | None = None, more: Mapping[str, str] | None = None) -> int:
        """Run a step; `output` keeps what it prints as well."""
        print(f"\n--- {step.why}\n$ {step.shown}", flush=True)
        environment = os.environ | self.settings | dict(more or {})
        command = [sys.executable, "-m", *step.command]
        if output is None:
            return subprocess.run(command, env=environment).returncode
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="", flush=True)
        if done.returncode == 0:
            output.parent.mkdir(parents=True, exist_ok=True)
            # Kept for others, to whom the place of this checkout says nothing.
            output.write_text(done.stdout.replace(f"{Path.cwd()}/", ""))
        return done.returncode
