"""`make release`: the policies of this repository, made from the measured corpus, twice, to the same bytes.

    policies/                                         a package index: pip installs from it
    policies/params-default.yaml, params-light.yaml   the parameters of training and calibration
    policies/about/NAME/                              card, evaluation and audit of the wheel of that name

No text of a run is needed. Every policy is calibrated before the test split is read, once, to evaluate all of them.
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
from pathlib import Path

from drsr.policy.listing import RELEASED
from scripts.steps import Step, Workspace

MEASURED = Path("corpora", "measured")
POLICIES = Path(RELEASED)
OPINION = POLICIES / "about" / "second-opinion.json"
"""File that records how far another language model agrees with the labels of the measured corpus."""
WORK = Path("var", "release")
PROJECTS = {"default": "drsr-policy", "light": "drsr-policy-light"}
"""Project name of the policy, by kind as `drsr publish --view` names it."""
READS = {"default": "default", "light": "light"}
"""Feature view that the scorer reads, by kind: `default`, `window` or `wide` for the full one."""


def params_of(view: str) -> dict[str, str]:
    """Return the parameters that a released policy is made with, for the environment: its own, or those of the
    repository."""
    own = POLICIES / f"params-{view}.yaml"
    return {"DRSR_PARAMS": str(own.absolute())} if own.is_file() else {}


def wheel_of(index: Path, view: str, version: str) -> Path:
    project = PROJECTS[view]
    return index / project / f"{project.replace('-', '_')}-{version}-py3-none-any.whl"


def fitting(view: str) -> tuple[Step, ...]:
    """Return the steps that never see the test split; training and calibration are the last two."""
    reads = READS[view]
    joining = Step("Columns of two views in one, without a language model", ("drsr", "featurize", "--view", reads))
    return (
        *([joining] if reads == "wide" else []),
        Step(f"The scorer of {PROJECTS[view]}", ("drsr", "train", "--view", reads)),
        Step("Its operating point", ("drsr", "calibrate", "--view", reads)),
    )


def judging(view: str, *options: str) -> Step:
    return Step("On tasks that nothing was fitted on", ("drsr", "evaluate", "--view", READS[view], *options))


TAKEN = Step("Labels and features of public runs; no text is needed", ("drsr", "import", str(MEASURED)))
BACKBONE = Step("The embedded language model", ("drsr", "backbone", "fetch", "smollm2-135m"))


def publishing(view: str, version: str, index: Path) -> Step:
    opinion = ("--second-opinion", str(OPINION)) if OPINION.is_file() else ()
    options = ("--view", view, "--version", version, "--index", str(index), *opinion)
    return Step(f"{PROJECTS[view]} {version} as a wheel", ("drsr", "publish", *options))


def make(work: Workspace, index: Path, version: str, views: tuple[str, ...], about: Path | None) -> int:
    """Make all policies into an index, and write the facts about each into a folder; return 0 if all steps went
    well."""
    shutil.rmtree(work.folder, ignore_errors=True)
    work.folder.mkdir(parents=True)
    steps = [(step, {}, None) for step in (BACKBONE, TAKEN)]
    steps += [(step, params_of(view), None) for view in views for step in fitting(view)]
    for view in views:
        if about is not None:
            steps.append((judging(view), params_of(view), _about(about, view, version) / "evaluation.txt"))
    for view in views:
        steps.append((publishing(view, version, index), params_of(view), None))
        if about is not None:
            wheel, place = str(wheel_of(index, view, version)), _about(about, view, version)
            steps += [
                (Step("For people", ("drsr", "policy", "show", "--card", wheel)), {}, place / "MODEL_CARD.md"),
                (Step("For people who trust nobody", ("drsr", "audit", "--policy", wheel)), {}, place / "audit.txt"),
            ]
    for step, more, output in steps:
        if code := work.run(step, output, more):
            print(f"release: {step.shown} ended with {code}; nothing after it was done", file=sys.stderr)
            return code
    return 0


def _about(folder: Path, view: str, version: str) -> Path:
    return folder / wheel_of(Path(), view, version).name.removesuffix("-py3-none-any.whl")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.release", description=(__doc__ or "").split("\n")[0])
    today = datetime.datetime.now(datetime.UTC).date()
    parser.add_argument("--version", default=f"{today.year}.{today.month}.{today.day}", help="default: today's date")
    parser.add_argument("--views", nargs="+", choices=list(PROJECTS), default=list(PROJECTS), help="default: both")
    parser.add_argument("--check", action="store_true", help="only make them again, and compare with what is there")
    options = parser.parse_args()
    views = tuple(options.views)
    if not options.check and (code := make(Workspace(WORK), POLICIES, options.version, views, POLICIES / "about")):
        return code
    again = WORK.with_name("release-again")
    shutil.rmtree(again, ignore_errors=True)
    if code := make(Workspace(again), again / "index", options.version, views, None):
        return code
    other = [view for view in views if not _same(again / "index", view, options.version)]
    for view in views:
        said = "OTHER BYTES" if view in other else "the same bytes"
        print(f"{wheel_of(POLICIES, view, options.version)}: made again, {said}")
    return 1 if other else 0


def _same(index: Path, view: str, version: str) -> bool:
    there, here = wheel_of(POLICIES, view, version), wheel_of(index, view, version)
    return there.is_file() and there.read_bytes() == here.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
