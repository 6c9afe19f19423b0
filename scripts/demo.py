"""`make demo`: the whole pipeline on the sample corpus, from recorded runs to a policy that prunes, and its reports.

Each step is a command that a person can type; it is shown before it runs. Run again, the nightly run finds nothing new,
and what it led to is still there.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from scripts.demo_places import AUDIT, DOCS, ENDING, FINISHED, INDEX, REPORT, replay_of

RELEASED = Path("exports", "publish", "summary.json")


class Step(NamedTuple):
    why: str
    command: tuple[str, ...]
    """Without the interpreter: `drsr ...`, or a module and its arguments."""


BEFORE = (
    Step("The embedded language model", ("drsr", "backbone", "fetch", "smollm2-135m")),
    Step("What each deletion does to the output that really followed", ("drsr", "harm")),
    Step("Recorded runs", ("drsr", "ingest")),
    Step("Decision states, before anything is measured", ("drsr", "freeze")),
    Step("Measuring all of them takes ten minutes, so it comes bundled", ("drsr.flows.sample",)),
    Step("And a few of them here and now: do they agree?", ("drsr.flows.live_check", "--states", "2")),
)
NIGHTLY = Step("What a schedule runs every night: all stages, through Prefect", ("drsr.flows.nightly",))


SHARE = ("--limit", "2", "--window", "1024", "--replicates", "500")
"""Of the test split; the sample's requests are short, so the window of the acting model is too."""


def after(wheel: Path) -> tuple[Step, ...]:
    """Look at the policy once there is one."""
    replay = str(replay_of(wheel, ENDING.parent))
    return (
        Step("Does the package decide as it did when it was published?", ("drsr", "policy", "verify", str(wheel))),
        Step("What was expected of the data", ("expectations", "--docs", str(DOCS))),
        Step("For people who trust nobody", ("drsr", "audit", "--sample", "1", "--html", str(AUDIT))),
        Step(
            "Every way to shorten a request, on a few recorded decisions (all of them: make report)",
            ("drsr", "evaluate", "--replay", *SHARE, "--policy", str(wheel), "--output", replay),
        ),
        Step(
            "Tables and figures on one page",
            ("drsr", "report", "--replicates", "500", "--steps", "2", "--replay", replay, "--output", str(REPORT)),
        ),
        Step("What DVC recorded", ("dvc", "status")),
        Step("In short", ("scripts.demo_ending",)),
    )


def main() -> int:
    started = time.monotonic()
    if (finished := _finished()) is not None:
        if code := run(NIGHTLY):
            return code
        if released() == finished:
            print(f"\nNothing to do: policy and reports are those of the last run.\n\n{ENDING.read_text()}")
            return _say_time(started)
    else:
        for step in (*BEFORE, NIGHTLY):
            if code := run(step):
                return code
    found = released()
    if found is None:
        print("demo: the nightly run released no policy; what it said above tells why", file=sys.stderr)
        return 1
    for step in after(wheel_of(found)):
        if code := run(step):
            return code
    FINISHED.write_text(json.dumps({"wheel": found}))
    return _say_time(started)


def run(step: Step) -> int:
    print(f"\n--- {step.why}\n$ {shown(step.command)}", flush=True)
    return subprocess.run([sys.executable, "-m", *step.command]).returncode


def shown(command: tuple[str, ...]) -> str:
    """As a person would type it."""
    return " ".join(command if command[0] in ("drsr", "dvc") else ("python", "-m", *command))


def _finished() -> str | None:
    """The wheel's SHA-256 of a run that came to its end, if all it left is still there."""
    try:
        wheel: str = json.loads(FINISHED.read_text())["wheel"]
    except (OSError, ValueError, KeyError):
        return None
    left = (ENDING, AUDIT, DOCS / "index.html", REPORT / "index.html")
    there = all(path.is_file() for path in left)
    return wheel if there and wheel == released() and wheel_of(wheel).is_file() else None


def released() -> str | None:
    """SHA-256 of the wheel that is released now."""
    try:
        wheel: str | None = json.loads(RELEASED.read_text()).get("wheel")
    except (OSError, ValueError):
        return None
    return wheel


def wheel_of(sha256: str) -> Path:
    """The file of that content in the index."""
    for path in sorted(INDEX.glob("drsr-policy/*.whl")):
        if hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
            return path
    return INDEX / "missing"


def _say_time(started: float) -> int:
    print(f"\ndone in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
