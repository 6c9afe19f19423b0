"""The manifests that come with drsr: its sandbox tasks, Eval40, and what is known of Full260.

`sandbox` has two instances of each of the twenty families, with a seed of their own: the sample corpus, of whose runs
labels are made, has another, so no task of it was ever trained or calibrated on. The instances are of the same kind
though, as tasks of one benchmark are.

The paper lists the ids of Eval40 and gives only the counts of Full260: users with WorkBuddyBench fill them in.
"""

from __future__ import annotations

from pathlib import Path

from drsr.errors import ManifestError
from drsr.offline.bench.harness.manifest import FORMAT, Claim, Manifest, ManifestTask, make_manifest, read_manifest
from drsr.offline.evaluate.eval40 import EVAL40
from drsr.offline.sandbox.corpus import corpus_tasks

SANDBOX_SEED = 640
"""Not the sample corpus's, which is 551."""
SANDBOX_TASKS = 40
SANDBOX, WORKBUDDYBENCH = "sandbox", "workbuddybench"

KNOWN = {
    "sandbox": Claim(SANDBOX, "tasks", {"code": 10, "office": 10, "security": 10, "web": 10}, None),
    "eval40": Claim(
        WORKBUDDYBENCH,
        "domains",
        {"code": 10, "office": 10, "security": 10, "web": 10},
        frozenset(one.task for one in EVAL40),
    ),
    "full260": Claim(WORKBUDDYBENCH, "tasks", {"code": 80, "office": 50, "security": 60, "web": 70}, None),
}


def find_manifest(name_or_path: str) -> Manifest:
    """Return a bundled manifest by name, or one from a file."""
    if name_or_path in KNOWN:
        return bundled_manifest(name_or_path)
    path = Path(name_or_path)
    if not path.exists():
        raise ManifestError(
            "there is no such list of tasks", where=name_or_path, hint=f"a file, or one of {', '.join(KNOWN)}"
        )
    return read_manifest(path, KNOWN)


def bundled_manifest(name: str) -> Manifest:
    """Return a bundled manifest. Raise ManifestError for `full260`, whose ids are not published."""
    claim = KNOWN[name]
    value = {
        "format": FORMAT,
        "name": name,
        "suite": claim.suite,
        "weighting": claim.weighting,
        "counts": dict(claim.counts),
        "tasks": [task._asdict() for task in _tasks(name)],
    }
    return make_manifest(value, KNOWN, where=name)


def _tasks(name: str) -> list[ManifestTask]:
    if name == "sandbox":
        tasks = corpus_tasks(SANDBOX_SEED, SANDBOX_TASKS)
        return [ManifestTask(task.identity, task.family.domain) for task in tasks]
    return [ManifestTask(one.task, one.domain) for one in EVAL40] if name == "eval40" else []
