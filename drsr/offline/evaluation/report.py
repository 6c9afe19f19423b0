"""Everything the report says, section by section: replay, whole tasks, study, the paper's analyses and own tables.

A section is a title, analyses and reasons for what is left out; whoever has more to say adds one in `build_report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import drsr
from drsr.offline.artifacts import ArtifactStore
from drsr.offline.catalog.engine import Catalog
from drsr.offline.evaluation.analyses.granularity import StepHarm
from drsr.offline.evaluation.harness.results_file import TaskResults
from drsr.offline.evaluation.harness.task_tables import task_section
from drsr.offline.evaluation.paper_analyses import paper_analyses
from drsr.offline.evaluation.paper_section import paper_section
from drsr.offline.evaluation.replay_file import About, Replay
from drsr.offline.evaluation.replay_tables import NOTICE, replay_section
from drsr.offline.evaluation.report_inputs import Asked, ReportInputs, read_report_inputs
from drsr.offline.evaluation.report_page import Report
from drsr.offline.evaluation.scripted_summariser import SCRIPTED
from drsr.offline.evaluation.study_tables import study_section
from drsr.offline.params import Params
from drsr.offline.train import Progress
from drsr.rendering import RENDERER_VERSION


class Measured(NamedTuple):
    """What was measured beside the labels; None where it was not."""

    steps: Sequence[StepHarm] | None
    replay: Replay | None
    tasks: TaskResults | None


def build_report(
    catalog: Catalog, artifacts: ArtifactStore, params: Params, asked: Asked, measured: Measured, progress: Progress
) -> Report:
    """Trains what is not trained yet, reads every split for evaluation, and puts all tables together."""
    given = read_report_inputs(catalog, artifacts, params, asked, progress)
    return Report(
        title="DRSR: what the policy was made from, and what it does",
        notice=NOTICE,
        sections=(
            replay_section(measured.replay, given.bootstrap),
            task_section(measured.tasks, given.bootstrap),
            study_section(given.evaluated.study, ablations=asked.ablations),
            paper_analyses(given, measured.steps),
            paper_section(),
        ),
        differences=_differences(given),
        facts=_facts(given, measured),
        commands=_commands(asked, measured),
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
        "examples that were judged": given.evaluated.examples_hash,
        "training run": given.calibrated.run.run_key,
        "calibration": record.calibration_key,
        "operating point": record.explanation,
        "parameters of calibration": ", ".join(f"{name} {value}" for name, value in record.params.items()),
        "released policy": given.released or "none yet",
    }
    if replay is not None:
        facts |= {
            "summaries in the replay by": str(replay.about["summariser"]),
            "window of the acting model in the replay": f"{replay.about['window']:,} tokens",
            "policy in the replay": replay.about["policy"] or "none",
        }
    if tasks is not None:
        fits = {episode.method: episode.version for episode in tasks.episodes}
        facts |= {
            "tasks": f"{tasks.about['manifest']}, SHA-256 {tasks.about['manifest_sha256']}",
            "agent on the tasks": str(tasks.about["agent"]),
            "policy on the tasks": fits.get("drsr") or "none",
        }
    return facts


def _differences(given: ReportInputs) -> list[str]:
    frames = given.frames.values()
    runs = len({run for frame in frames for run in frame.trajectory_ids})
    states = sum(len(frame.state_ids) for frame in frames)
    return [
        f"Language model: {given.view.identity.backbone} here, Qwen3.5-9B in the paper. A harm is the surprise "
        "of one model, so another model gives other harms.",
        f"Runs: {runs:,} runs with {states:,} labelled states of this catalog here; 566 runs with 1,698 states of "
        "WorkBuddyBench tasks in the paper. Intervals here are wide accordingly.",
        "Reward: the replay does not measure it, as it keeps the recorded output fixed. Whole tasks, where they were "
        "run, are other tasks with another agent than the paper's.",
        "Feature columns beyond the paper's 512 projections, prompts and budgets of the comparators: decided here, as "
        "written in their assumptions.",
        "Values of the paper stand beside ours for orientation; with another model and other runs they need not agree.",
    ]


def _commands(asked: Asked, measured: Measured) -> list[str]:
    """What gave these numbers, from an empty catalog on."""
    frames = "".join(
        f" --{name} {value}" for name, value in (("view", asked.view), ("labeler", asked.labeler)) if value != "default"
    )
    replay = "drsr evaluate --replay"
    if measured.replay is not None:
        about = measured.replay.about
        replay += f" --split {about['split']} --window {about['window']} --summariser {_summariser(about)}"
        replay += " --policy WHEEL" if about["policy"] else ""
        replay += " --ablations" if about["ablations"] else ""
    steps = f" --steps {len({step.state for step in measured.steps})}" if measured.steps else ""
    stages = ("ingest", "freeze", "label", "featurize", "train", "calibrate", "publish")
    ablations = " --ablations" if asked.ablations else ""
    report = f"drsr report --split {asked.split} --replicates {asked.replicates}{ablations}{steps}{frames}"
    return [*(f"drsr {stage}" for stage in stages), replay + frames, *_task_command(measured.tasks), report]


def _task_command(tasks: TaskResults | None) -> list[str]:
    if tasks is None:
        return []
    about = tasks.about
    scripted = about["agent"] == SCRIPTED
    who = SCRIPTED if scripted else "URL --model NAME"
    summaries = SCRIPTED if about["summariser"] == SCRIPTED else "WHO"
    policy = " --policy WHEEL" if any(episode.method == "drsr" for episode in tasks.episodes) else ""
    return [
        f"drsr evaluate --tasks {about['manifest']} --agent {who} --window {about['window']} "
        f"--step-limit {about['step_limit']} --summariser {summaries}{policy}"
    ]


def _summariser(about: About) -> str:
    """As `drsr evaluate` takes it."""
    name = str(about["summariser"])
    if name == SCRIPTED:
        return name
    return "embedded" if name == about["labeler"]["backbone"] else f"URL --summariser-model {name}"
