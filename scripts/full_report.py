"""`make report`: every method and ablation on all test decisions of the sample corpus, and the page with everything.

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
    window = ("--window", "1024")
    return (
        demo.Step(
            "Every method and ablation on every recorded test decision",
            ("drsr", "evaluate", "--replay", "--ablations", *window, "--policy", str(wheel), "--output", replay),
        ),
        demo.Step(
            "Tables and figures on one page",
            ("drsr", "report", "--ablations", "--steps", "20", "--replay", replay, "--output", str(REPORT)),
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
