"""The price of a night: `python -m benchmarks.nightly [--trajectories 1000 ...] [--json]`.

A refresh by the real flow `nightly`, with the real catalog and store, over made-up runs: first all of them, then again
after one in a hundred was added, as prefect.yaml deploys it (training waits until enough is new), then after as many
more with training every night, then once more with nothing new. The language model is a stub: harms and features are
drawn at random, so everything else is measured. Stages up to featurize work on what is new; train, calibrate, evaluate
and publish read everything whenever they run (with few epochs here), and are reported separately. `--seconds-per-state`
says what a real language model would take, for the share of the whole. All seconds are CPU seconds of the process that
runs the flow, so that a busy machine does not change them; the Prefect server is another process. The time in which the
stub draws its numbers is not counted. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import yaml

from benchmarks.stubbed_language_model import CLOCK, stubbed_language_model
from drsr.flows.embedded_server import with_embedded_server

NEW_SHARE = 0.01
MOST_SHARE = 0.03
"""Maximum share of the full run, plus a constant that cancels out when two sizes are compared."""
MOST_DEPLOYED = 0.10
"""Maximum share of the full run for a night as it is deployed, if a language model took no time."""
DEPLOYED_FROM = 10_000
"""Trajectories from which on that is judged: a night has a constant part, which weighs more where there are few."""
MOST_OVERHEAD = 0.010
"""Seconds per state without the language model: flow, claims, catalog, files, and freezing states again."""
JUDGED = ("label", "featurize")
"""Stages whose seconds per state, together, have a limit."""
INCREMENTAL = ("ingest", "freeze", "label", "featurize")
PREFECT = Path(__file__).parent.parent / "prefect.yaml"
FILES = 20
"""Number of files that the runs come in."""
STEPS = 5
"""Tool calls of a run: each gives one decision state."""


class Night(NamedTuple):
    """One refresh."""

    what: str
    seconds: float
    stages: dict[str, float]
    states: int
    """Number of states labelled in it."""

    @property
    def incremental(self) -> float:
        return sum(seconds for stage, seconds in self.stages.items() if stage in INCREMENTAL)

    def charged(self, seconds_per_state: float) -> float:
        """Return the seconds of the whole night if the language model takes that long per state."""
        return self.seconds + seconds_per_state * self.states


class Found(NamedTuple):
    trajectories: int
    full: Night
    deployed: Night
    """With what is new, and `skip_training_below` as in prefect.yaml."""
    refresh: Night
    """The same with training every night."""
    nothing: Night

    @property
    def share(self) -> float:
        """Return the refresh's share of the full run up to featurize, with all that a night takes anyway."""
        return self.refresh.incremental / self.full.incremental

    def overhead(self, *stages: str) -> float:
        """Return the seconds per state around the language model in some stages, by what more states take longer."""
        more = self.full.states - self.refresh.states
        return sum(self.full.stages[stage] - self.refresh.stages[stage] for stage in stages) / more

    @property
    def deployed_share(self) -> float:
        """Return the deployed night's share of the full run, if a language model took no time."""
        return self.deployed.seconds / self.full.seconds

    def charged(self, seconds_per_state: float) -> float:
        """Share of the whole refresh in the whole full run if the language model takes so long per state."""
        return self.refresh.charged(seconds_per_state) / self.full.charged(seconds_per_state)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--seconds-per-state", type=float, default=2.0, help="of a real language model (default: 2)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    with tempfile.TemporaryDirectory() as home, with_embedded_server(Path(home)):
        found = [measure(count) for count in options.trajectories]
    if options.json:
        print(json.dumps([one._asdict() for one in found]))
    else:
        for one in found:
            print(text(one, options.seconds_per_state))
    if len(found) > 1:
        print(growth_text(found, options.seconds_per_state), file=sys.stderr if options.json else sys.stdout)
    met = are_met(found, options.seconds_per_state)
    print(f"targets {'met' if met else 'MISSED'}", file=sys.stderr)
    return 0 if met else 1


def are_met(found: Sequence[Found], seconds_per_state: float) -> bool:
    """Return whether every target is met: the overhead at each size, the deployed night at large ones, and the growth
    of a refresh."""
    small, large = min(found), max(found)
    shares = [growth(small, large), whole_growth(small, large, seconds_per_state)] if len(found) > 1 else []
    overheads = [one.overhead(*JUDGED) for one in found]
    deployed = all(one.deployed_share <= MOST_DEPLOYED for one in found if one.trajectories >= DEPLOYED_FROM)
    return deployed and max(overheads) <= MOST_OVERHEAD and all(share <= MOST_SHARE for share in shares)


def growth_text(found: Sequence[Found], seconds_per_state: float) -> str:
    small, large = min(found), max(found)
    return (
        f"from {small.trajectories:,} to {large.trajectories:,} trajectories a refresh takes longer by this share of "
        f"what the full run does (at most {MOST_SHARE:.0%}):\n"
        f"  ingest to featurize: {growth(small, large):.1%}\n"
        f"  the whole night, if a language model took {seconds_per_state:g} s per state: "
        f"{whole_growth(small, large, seconds_per_state):.1%}\n"
        f"  the whole night, if it took no time: {whole_growth(small, large, 0.0):.1%} (not judged)"
    )


def growth(small: Found, large: Found) -> float:
    """Return the share without its constant, which two sizes have in common: ingest to featurize."""
    full = large.full.incremental - small.full.incremental
    return (large.refresh.incremental - small.refresh.incremental) / full


def whole_growth(small: Found, large: Found, seconds_per_state: float) -> float:
    """Return the same of the whole night, with what reads everything, if the language model takes that long per
    state."""
    full = large.full.charged(seconds_per_state) - small.full.charged(seconds_per_state)
    return (large.refresh.charged(seconds_per_state) - small.refresh.charged(seconds_per_state)) / full


def text(found: Found, seconds_per_state: float) -> str:
    lines = [f"{found.trajectories:,} trajectories, {found.full.states:,} states:"]
    for night in (found.full, found.deployed, found.refresh, found.nothing):
        stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in night.stages.items())
        lines.append(f"  {night.what}: {night.seconds:.1f} s, {night.states:,} states labelled ({stages})")
    lines += [
        f"  ingest to featurize: {found.share:.1%} of the full run, with what a night takes anyway",
        f"  the whole night as deployed, if a language model took no time: {found.deployed_share:.1%} of the full run "
        f"(at most {MOST_DEPLOYED:.0%}, from {DEPLOYED_FROM:,} trajectories on)",
        f"  with training, if a language model took {seconds_per_state:g} s per state: "
        f"{found.charged(seconds_per_state):.1%} of the full run; if it took no time {found.charged(0.0):.1%} "
        "(not judged)",
        f"  around the language model, per state: label {1e3 * found.overhead('label'):.1f} ms, "
        f"featurize {1e3 * found.overhead('featurize'):.1f} ms (together at most {1e3 * MOST_OVERHEAD:.0f})",
    ]
    return "\n".join(lines)


def measure(trajectories: int) -> Found:
    from tests.flows.made_up_runs import write_params
    from tests.tiny_models import build_tiny

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = build_tiny("llama", folder / "model")
        write_params(folder)
        write_runs(folder / "runs", range(trajectories), FILES)
        with settings(folder, f"path:{model}"), stubbed_language_model(), stages_in_cpu_seconds():
            full = night("all of them", folder)
            new, waits = round(NEW_SHARE * trajectories), deployed_wait()
            write_runs(folder / "runs", range(trajectories, trajectories + new), 1)
            deployed = night(f"{NEW_SHARE:.0%} more, training waits for {waits}", folder, waits)
            write_runs(folder / "runs", range(trajectories + new, trajectories + 2 * new), 1)
            refresh = night(f"{NEW_SHARE:.0%} more, trained", folder)
            nothing = night("nothing new", folder)
    return Found(trajectories, full, deployed, refresh, nothing)


def deployed_wait() -> str:
    """Return `skip_training_below` of the nightly deployment."""
    deployments = yaml.safe_load(PREFECT.read_text())["deployments"]
    (nightly,) = (one for one in deployments if one["name"] == "nightly")
    return str(nightly["parameters"]["skip_training_below"])


def night(what: str, folder: Path, skip_training_below: str | None = None) -> Night:
    from drsr.flows.nightly import nightly
    from drsr.flows.parameters import Location

    started = CLOCK.read()
    outcome: dict[str, Any] = nightly(
        [Location(uri=str(folder / "runs"), source="runs")],
        index=str(folder / "index"),
        skip_training_below=skip_training_below,
    )
    seconds = CLOCK.read() - started
    print(f"{what}: {seconds:.1f} s", file=sys.stderr, flush=True)
    stages = {stage: did["seconds"] for stage, did in outcome["stages"].items()}
    said = outcome["stages"].get("label", {"said": "0 states"})["said"]
    return Night(what, seconds, stages, int(said.split()[0].replace(",", "")))


def write_runs(folder: Path, numbers: range, files: int) -> None:
    """Made-up runs, spread over new files of one run per line."""
    from tests.offline.chat_files import chat, write_lines

    for number in range(files):
        mine = numbers[number::files]
        runs = [chat(seed, STEPS) | {"task": f"task-{seed}"} for seed in mine]
        write_lines(folder / f"{numbers.start}-{number}.jsonl", runs)


@contextmanager
def settings(folder: Path, backbone: str) -> Iterator[None]:
    """Return the settings of a machine that has everything in one folder."""
    values = {
        "DRSR_CATALOG_URL": f"sqlite:///{folder}/catalog.sqlite",
        "DRSR_ARTIFACT_ROOT": str(folder / "artifacts"),
        "DRSR_BACKBONE": backbone,
        "DRSR_CACHE": str(folder / "cache"),
    }
    before = Path.cwd()
    os.chdir(folder)  # where params.yaml is
    try:
        with patch.dict(os.environ, values):
            yield
    finally:
        os.chdir(before)


@contextmanager
def stages_in_cpu_seconds() -> Iterator[None]:
    """Exchange the clock of the loop over stages for CPU seconds."""
    from drsr.offline import run

    with patch.object(run, "time", SimpleNamespace(monotonic=CLOCK.read)):
        yield


if __name__ == "__main__":
    sys.exit(main())
