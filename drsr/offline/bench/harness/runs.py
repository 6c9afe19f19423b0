"""All tasks with all methods, task by task, some of them in parallel. Results in the file are not run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
    parallel: int = 1,
) -> list[Episode]:
    """Run what is missing; return the episodes of these tasks and methods, in the order of a run.

    Each is in the file as soon as it is over: one after the other that is the order of a run, in parallel any order.
    """
    wanted = [(task, method, version_of(method)) for task in tasks for method in methods.values()]
    done = file.done()
    missing = [one for one in wanted if (one[0].id, one[1].name, one[2], setting.seed) not in done]
    report(len(wanted) - len(missing), len(wanted))
    for number, episode in enumerate(_episodes(missing, setting, parallel), start=1):
        file.add(episode)
        report(len(wanted) - len(missing) + number, len(wanted))
    found = {key_of(episode): episode for episode in file.episodes}
    return [found[task.id, method.name, version, setting.seed] for task, method, version in wanted]


def _episodes(
    missing: Sequence[tuple[ManifestTask, Comparator, str]], setting: Setting, parallel: int
) -> Iterator[Episode]:
    """Yield each episode when it is over. Threads suffice: an episode waits for an endpoint, or for commands that it
    started."""
    if parallel == 1:
        for task, method, version in missing:
            yield run_episode(task, method, setting, version)
        return
    with ThreadPoolExecutor(parallel, thread_name_prefix="task") as pool:
        futures = [pool.submit(run_episode, task, method, setting, version) for task, method, version in missing]
        failures = []
        for future in as_completed(futures):
            if future.cancelled():
                continue
            error = future.exception()
            if error is None:
                yield future.result()
            else:  # nothing new is begun; what has begun may have cost an hour, and is kept
                failures.append(error)
                for other in futures:
                    other.cancel()
        if failures:
            raise failures[0]
