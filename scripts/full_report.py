"""`make report`: every method and ablation on all test decisions, every method on whole tasks, all on one page.

It builds on the results of `make demo`, and fetches the texts of the public runs: methods rewrite requests, and read
them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.demo import DEMO, INDEX, UNRELEASED, released_version
from scripts.release import READS, params_of, wheel_of
from scripts.steps import Step, Workspace

REPORT = Path("var", "report")
EVALUATION = Path("var", "evaluation")
WINDOW = "4096"
"""Window of the acting model, in tokens, as in the released table. Recorded requests have at most 8,192, so methods
that act when a window fills up would never act in one of 128,000."""


def steps(view: str, wheel: Path) -> tuple[Step, ...]:
    """Return the steps. A replay covers one policy, so its file is named after it."""
    replay = str(EVALUATION / f"replay-{wheel.stem}.jsonl")
    tasks = str(EVALUATION / "tasks-sandbox.jsonl")
    measured = ("--replay", replay, "--tasks", tasks)
    policy = ("--policy", str(wheel))
    replaying = ("--replay", "--ablations", "--window", WINDOW, *policy, "--output", replay)
    return (
        Step("The texts of the public runs", ("drsr", "corpus", "fetch", "public")),
        Step("The rows are there; now they have their texts", ("drsr", "ingest", "--corpus", "public")),
        Step(
            "Every method and ablation on every recorded test decision",
            ("drsr", "evaluate", "--view", READS[view], *replaying),
        ),
        Step(
            "A scripted agent on whole tasks, with every method in between",
            ("drsr", "evaluate", "--tasks", "sandbox", "--window", "2048", *policy, "--output", tasks),
        ),
        Step(
            "Tables and figures on one page",
            (
                "drsr",
                "report",
                "--view",
                READS[view],
                "--ablations",
                "--steps",
                "20",
                *measured,
                "--output",
                str(REPORT),
            ),
        ),
    )


def main(view: str = "light") -> int:
    wheel = wheel_of(INDEX, view, released_version(view) or UNRELEASED)
    if not wheel.is_file():
        print(f"report: {wheel} is not there; make demo makes it", file=sys.stderr)
        return 1
    for step in steps(view, wheel):
        if code := Workspace(DEMO).run(step, more=params_of(view)):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
