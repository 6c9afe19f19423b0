"""Everything the report says, section by section: replay, whole tasks, study, the paper's analyses and own tables.

A section is a title, analyses and reasons for what is left out; to report more, add one in `build_report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import drsr
from drsr.offline.bench.analyses.granularity import StepHarm
from drsr.offline.bench.harness.results_file import TaskResults
from drsr.offline.bench.harness.task_tables import task_section
from drsr.offline.bench.replay.file import Replay
from drsr.offline.bench.replay.tables import NOTICE, replay_section
from drsr.offline.bench.report.inputs import Asked, ReportInputs, read_report_inputs
from drsr.offline.bench.report.made_by import read_recorded, reproduce
from drsr.offline.bench.report.page import Report
from drsr.offline.bench.report.paper_analyses import paper_analyses
from drsr.offline.bench.report.paper_section import paper_section
from drsr.offline.bench.report.paper_tables import supervision
from drsr.offline.bench.report.side_by_side import side_by_side
from drsr.offline.bench.report.study_tables import study_section
from drsr.offline.catalog.engine import Catalog
from drsr.offline.label.noise.floor import floor_said
from drsr.offline.params import Params
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.stage import Progress
from drsr.request.rendering import RENDERER_VERSION


class Measured(NamedTuple):
    """Measurements other than the labels; None if there are none."""

    steps: Sequence[StepHarm] | None
    replay: Replay | None
    tasks: TaskResults | None


def build_report(
    catalog: Catalog, artifacts: ArtifactStore, params: Params, asked: Asked, measured: Measured, progress: Progress
) -> Report:
    """Trains what is not trained yet, reads every split for evaluation, and puts all tables together."""
    given = read_report_inputs(catalog, artifacts, params, asked, progress)
    judged_runs = frozenset(given.frames[given.judged].trajectory_ids)
    return Report(
        title="DRSR: the policy, its data and its results",
        notice=_notice(measured),
        sections=(
            replay_section(measured.replay, given.bootstrap),
            task_section(measured.tasks, given.bootstrap),
            study_section(given.evaluated.study, ablations=asked.ablations),
            side_by_side(given),
            paper_analyses(given, measured.steps),
            paper_section(),
        ),
        differences=_differences(given),
        facts=_facts(given, measured),
        commands=reproduce(read_recorded(catalog), asked, judged_runs, measured.replay, measured.tasks),
    )


def _notice(measured: Measured) -> str:
    """Return the notice at the head of the page."""
    if measured.replay is not None and measured.replay.current:
        return NOTICE
    return (
        "No method was replayed. The tables below judge how well harms are predicted; they say nothing about task "
        "reward."
    )


def _facts(given: ReportInputs, measured: Measured) -> dict[str, str]:
    record = given.calibrated.record
    replay, tasks = measured.replay, measured.tasks
    sizes = ", ".join(
        f"{split} {len(frame):,} sets of {len(frame.state_ids):,} states" for split, frame in given.frames.items()
    )
    facts = {
        "drsr": drsr.__version__,
        "renderer": RENDERER_VERSION,
        **{f"features: {name}": str(value) for name, value in given.view.identity._asdict().items()},
        "labels": sizes,
        "labeler": given.frames["train"].labeler,
        "noise floor of harm": floor_said(given.noise_floor),
        "examples that were judged": given.evaluated.examples_hash,
        "training run": given.calibrated.run.run_key,
        "calibration": record.calibration_key,
        "operating point": record.explanation,
        "parameters of calibration": ", ".join(f"{name} {value}" for name, value in record.params.items()),
        "released policy": given.released or "none yet",
    }
    if replay is not None:
        facts |= {
            "labeler of the replay": _spoken(replay.about["labeler"]),
            "drsr in the replay": _version(replay.about["drsr"]),
            "split of the replay": replay.about["split"],
            "summaries in the replay by": _summarisers(replay) or "nobody",
            "window of the acting model in the replay": f"{replay.about['window']:,} tokens",
            "policy in the replay": replay.policy or "none",
        }
    if tasks is not None:
        facts |= {
            "tasks": f"{tasks.about['manifest']}, SHA-256 {tasks.about['manifest_sha256']}",
            "drsr on the tasks": _version(tasks.about["drsr"]),
            "agent on the tasks": str(tasks.about["agent"]),
            "policy on the tasks": tasks.versions.get("drsr") or "none",
        }
    return facts


def _differences(given: ReportInputs) -> list[str]:
    frames = given.frames.values()
    runs = len({run for frame in frames for run in frame.trajectory_ids})
    states = sum(len(frame.state_ids) for frame in frames)
    theirs = supervision()
    return [
        f"Language model: {given.view.identity.backbone} here, Qwen3.5-9B in the paper. A harm is the surprise "
        "of one model, so another model gives other harms.",
        f"Runs: {runs:,} runs with {states:,} labelled states of this catalog here; in the paper "
        f"{theirs.trajectories:,} runs with {theirs.states:,} states, all from outside WorkBuddyBench, on whose tasks "
        "its policy is evaluated. Intervals here are wide accordingly.",
        "Reward: the replay does not measure it, as it keeps the recorded output fixed. Whole tasks, where they were "
        "run, are other tasks with another agent than the paper's.",
        "Feature columns beyond the paper's 512 projections, and prompts and budgets of the comparators, were chosen "
        "here; their assumptions say how.",
        "The right decision state: with the Block held fixed, as in the paper, it is exchanged in the cosine of stored "
        "projections alone, as attention and the other relations would need a pass of the language model. The ablation "
        "mismatched-state is another comparison: it takes all relations of a candidate from another decision, so the "
        "Block is exchanged with the state.",
        "The paper's values are next to ours for orientation; with another model and other runs they need not agree.",
    ]


def _summarisers(replay: Replay) -> str:
    """Return each summariser with the methods that used it."""
    found = replay.summarisers.items()
    return "; ".join(f"{name} for {', '.join(note.title for note in notes)}" for name, notes in found)


def _version(then: str) -> str:
    return then if then == drsr.__version__ else f"{then}, not that of this report"


def _spoken(identity: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in identity.items())
