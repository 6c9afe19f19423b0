"""`make demo`: from the measured public corpus to a policy that prunes, its audit, and one decision of it.

Each step is a command that you can type yourself; it is shown before it runs. The policy is the light one, which needs
no language model to decide, unless another is asked for: `make demo VIEW=default`. If policies/ holds a released wheel,
the one made here gets its version and is compared with it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from drsr.policy.listing import RELEASED
from scripts.release import BACKBONE, PROJECTS, TAKEN, fitting, judging, params_of, publishing, wheel_of
from scripts.steps import Step, Workspace

DEMO = Path("var", "demo")
INDEX, PLOTS, AUDIT = DEMO / "index", DEMO / "plots", DEMO / "audit.html"
CURVE = PLOTS / "operating_curve.png"
FRONTIER = "frontier.svg"
"""The figure of a replay, kept with the other facts about a released wheel."""
UNRELEASED = "0.1"
"""The version of a policy that no released one can be compared with."""


def released_version(view: str) -> str | None:
    """Return the version of the newest released wheel of a view, by the order of its numbers."""
    project = PROJECTS[view]
    found = [path.name.split("-")[1] for path in Path(RELEASED, project).glob("*.whl")]
    return max(found, key=lambda version: [int(part) for part in version.split(".") if part.isdigit()], default=None)


def steps(view: str, version: str | None) -> tuple[Step, ...]:
    """Return everything in order; `version` is that of the released wheel to compare with."""
    *before, train, calibrate = fitting(view)
    made = str(wheel_of(INDEX, view, version or UNRELEASED))
    compare = []
    if version is not None:
        there = str(wheel_of(Path(RELEASED), view, version))
        compare = [Step("Is it the released one?", ("scripts.compare_wheels", made, there))]
    return (
        BACKBONE,
        Step("What each deletion does to the output that really followed", ("drsr", "harm")),
        TAKEN,
        *before,
        train,
        calibrate._replace(command=(*calibrate.command, "--plots", str(PLOTS))),
        judging(view, "--replicates", "500"),
        publishing(view, version or UNRELEASED, INDEX),
        Step("Does the package decide as it did when it was published?", ("drsr", "policy", "verify", made)),
        # Without training again what was trained a minute ago; `make release` audits with it.
        Step("For people who trust nobody", ("drsr", "audit", "--policy", made, "--no-retrain", "--html", str(AUDIT))),
        *compare,
        Step("A decision on a request that can be shown", ("scripts.demo_decision", made)),
    )


def frontier(view: str, version: str | None) -> Path | None:
    """Return the frontier of all methods in the replay of a released wheel; None if there is no figure of it."""
    if version is None:
        return None
    about = Path(RELEASED, "about")
    own = about / f"{PROJECTS[view].replace('-', '_')}-{version}"
    return next((path for path in (own / FRONTIER, about / FRONTIER) if path.is_file()), None)


def look_next(view: str, work: Workspace, version: str | None) -> str:
    """Pages and commands."""
    figure = frontier(view, version)
    replayed = [(str(figure), "the frontier: every method on recorded test decisions, removed against unsafe")]
    rows = (
        *(replayed if figure is not None else ()),
        (str(CURVE), "its operating curve: removed against unsafe, on the states that it was calibrated on"),
        (str(AUDIT), "what an auditor gets: every number traced"),
        ("drsr corpus fetch public && drsr ingest --corpus public", "the texts, with which the audit is whole"),
        ("docs/guides/use-a-policy.md", "from here to an agent that prunes"),
    )
    exports = [f"export {name}={value}" for name, value in work.settings.items()]
    lines = [f"  {what:<58}{why}".rstrip() for what, why in rows]
    return "\n".join(["Where to look next:", *lines, "To go on with this catalog:", *(f"  {line}" for line in exports)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.demo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--view", choices=list(PROJECTS), default="light", help="which policy (default: light)")
    view = parser.parse_args().view
    started = time.monotonic()
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir(parents=True)
    work = Workspace(DEMO)
    version = released_version(view)
    for step in steps(view, version):
        if code := work.run(step, more=params_of(view)):
            print(f"demo: {step.shown} ended with {code}", file=sys.stderr)
            return code
    print(f"\n{look_next(view, work, version)}\n\ndone in {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
