"""Harms of whole Steps on disk, so that a report that is made again does not measure them again.

{"format": "drsr steps/1", "drsr": ..., "split": ..., "labeler": ...}
{"run": ..., "states": [state key, ...], "steps": [[state key, position, harm, [harms of Blocks]], ...]}    one per run

The file is named by all that its numbers depend on: what depends on something else goes into another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import drsr
from drsr.offline.bench.analyses.granularity import StepHarm, measure_steps
from drsr.offline.bench.replay.journal import Journal, Json, Kind
from drsr.offline.bench.replay.recorded_runs import Measuring, RunRow, load_runs
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.ingest.splits import Split
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.progress import Report
from drsr.request.rendering import render_output


class MeasuredRun(NamedTuple):
    run: str
    states: tuple[str, ...]
    """All states that were looked at, including those without a Step that can go."""
    steps: tuple[StepHarm, ...]

    def to_json(self) -> Json:
        steps = [[step.state, step.position, step.harm, step.block_harms] for step in self.steps]
        return {**self._asdict(), "steps": steps}

    @classmethod
    def from_json(cls, value: Json) -> MeasuredRun:
        steps = tuple(
            StepHarm(state, position, harm, tuple(blocks)) for state, position, harm, blocks in value["steps"]
        )
        return cls(value["run"], tuple(value["states"]), steps)


STEPS: Kind[MeasuredRun] = Kind("drsr steps/1", "harms of Steps", "drsr report --steps N", MeasuredRun.from_json)


def measured_steps(
    catalog: Catalog,
    artifacts: ArtifactStore,
    tools: Measuring,
    rows: Sequence[RunRow],
    split: Split,
    limit: int,
    folder: Path,
    report: Report,
) -> list[StepHarm]:
    """Measure as many runs as hold at least `limit` states; results in the file in `folder` are not measured again."""
    about = {"drsr": drsr.__version__, "split": split, "labeler": tools.identity.facts}
    found: list[StepHarm] = []
    done = 0
    with Journal(folder / f"steps-{split}-{content_key(about)[:12]}.jsonl", STEPS, about) as file:
        there = {(row.run, row.states): row for row in file.rows}
        for row in rows:
            if done >= limit:
                break
            report(done, limit)
            states = tuple(sorted(row.states.values()))
            measured = there.get((row.name, states))
            if measured is None:
                measured = MeasuredRun(row.name, states, _measure(catalog, artifacts, tools, row))
                file.append([measured.to_json()])
            found += [step._replace(task=row.group) for step in measured.steps]
            done += len(states)
    return found


def _measure(catalog: Catalog, artifacts: ArtifactStore, tools: Measuring, row: RunRow) -> tuple[StepHarm, ...]:
    (run,) = load_runs(catalog, artifacts, [row], tools)
    states = [
        (state.state_key, state.frozen.state, render_output(state.frozen.next_output, tools.backbone.tokenizer))
        for state in run.states
    ]
    return tuple(measure_steps(tools.scorer, states))
