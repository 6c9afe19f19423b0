from __future__ import annotations

import pytest

from drsr.errors import TasksSupervised
from drsr.offline.bench.harness.bundled_manifests import KNOWN, bundled_manifest
from drsr.offline.bench.harness.manifest import Manifest, make_manifest
from drsr.offline.bench.harness.supervision import refuse_supervised, sample_supervision
from drsr.offline.sandbox.corpus import corpus_tasks


def of(*tasks: str) -> Manifest:
    value = {
        "format": "drsr tasks/1",
        "name": "mine",
        "suite": "sandbox",
        "weighting": "tasks",
        "counts": {"code": len(tasks)},
        "tasks": [{"id": task, "domain": "code"} for task in tasks],
    }
    return make_manifest(value, KNOWN, where="x")


def test_our_own_tasks_were_never_learned_from() -> None:
    manifest = bundled_manifest("sandbox")
    assert manifest.tasks
    assert {task.id for task in manifest.tasks}.isdisjoint(sample_supervision())
    refuse_supervised(manifest, sample_supervision())


def test_tasks_of_the_sample_corpus_are_refused_but_for_its_test_split() -> None:
    supervised = sample_supervision()
    every = {task.identity for task in corpus_tasks()}
    assert len(every - supervised) == 6
    refuse_supervised(of(*sorted(every - supervised)), supervised)
    learned = min(supervised)
    with pytest.raises(TasksSupervised, match=f"1 of its tasks were learned from: {learned}"):
        refuse_supervised(of(learned, "code/crash/640-000"), supervised)
