"""`make report`: every method and ablation on all test decisions, every method on whole tasks, all on one page.

It stands on what `make demo` left: measured states, and a released policy.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts import demo
from scripts.demo_places import replay_of

REPORT = Path("var", "report")


def steps(wheel: Path) -> tuple[demo.Step, ...]:
    replay = str(replay_of(wheel, Path("var", "evaluation")))
    tasks = str(Path("var", "evaluation", "tasks-sandbox.jsonl"))
    measured = ("--replay", replay, "--tasks", tasks)
    window = ("--window", "1024")
    return (
        demo.Step(
            "Every method and ablation on every recorded test decision",
            ("drsr", "evaluate", "--replay", "--ablations", *window, "--policy", str(wheel), "--output", replay),
        ),
        demo.Step(
            "A scripted agent on whole tasks, with every method in between",
            ("drsr", "evaluate", "--tasks", "sandbox", "--window", "2048", "--policy", str(wheel), "--output", tasks),
        ),
        demo.Step(
            "Tables and figures on one page",
            ("drsr", "report", "--ablations", "--steps", "20", *measured, "--output", str(REPORT)),
        ),
    )


def main() -> int:
    found = demo.released()
    if found is None:
        print("report: no policy is released here; make demo makes one", file=sys.stderr)
        return 1
    for step in steps(demo.wheel_of(found)):
        if code := demo.run(step):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
