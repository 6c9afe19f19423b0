"""All tasks with all methods, one after the other, task by task. What the file has already is not run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import drsr
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.harness.episode import Episode, Setting, run_episode
from drsr.offline.bench.harness.manifest import Manifest, ManifestTask
from drsr.offline.bench.harness.results_file import ResultsFile, key_of
from drsr.offline.bench.replay.method_version import version_of
from drsr.offline.store.progress import Report

BASELINE = "baseline"


def about_run(manifest: Manifest, setting: Setting, tokenizer: str) -> dict[str, Any]:
    """Return what all results of a file depend on."""
    return {
        "drsr": drsr.__version__,
        "manifest": manifest.name,
        "manifest_sha256": manifest.identity,
        "weighting": manifest.weighting,
        "agent": setting.agent.name,
        "summariser": setting.summariser.name,
        "window": setting.counts.window,
        "step_limit": setting.step_limit,
        "tokenizer": tokenizer,
    }


def run_tasks(
    tasks: Sequence[ManifestTask],
    methods: Mapping[str, Comparator],
    setting: Setting,
    file: ResultsFile,
    report: Report,
) -> list[Episode]:
    """Run what is missing; gives the episodes of these tasks and methods, in the order of a run."""
    wanted = [(task, method, version_of(method)) for task in tasks for method in methods.values()]
    done = file.done()
    for number, (task, method, version) in enumerate(wanted):
        report(number, len(wanted))
        if (task.id, method.name, version, setting.seed) not in done:
            file.add(run_episode(task, method, setting, version))
    found = {key_of(episode): episode for episode in file.episodes}
    return [found[task.id, method.name, version, setting.seed] for task, method, version in wanted]
