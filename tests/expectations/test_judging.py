"""The door: cheap to look at, quiet, and without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drsr.errors import SettingsError
from drsr.expectations.evaluation import required_of
from drsr.expectations.judging import AFTER, DATASETS, find
from drsr.expectations.required import REQUIRED
from drsr.expectations.suites import SUITES
from drsr.offline.stages import NAMES
from drsr.offline.store.artifacts import ArtifactStore
from tests.expectations.good_frames import good


def test_every_stage_says_what_to_judge_after_it() -> None:
    assert tuple(AFTER) == NAMES
    assert all(names for names in AFTER.values())


@pytest.mark.parametrize(
    ("part", "stages"),
    [
        ("trajectories", {"ingest"}),
        ("subjects", {"ingest"}),
        ("shares", {"ingest"}),
        ("places", {"ingest", "featurize"}),
        ("reads", {"ingest", "train", "calibrate", "evaluate"}),
        ("fits", {"ingest", "train", "calibrate", "evaluate"}),
    ],
)
def test_a_part_of_splits_is_judged_after_the_stages_that_change_it(part: str, stages: set[str]) -> None:
    """And all of it after ingest, so that a catalog known to be broken costs no night of labelling."""
    assert {stage for stage, names in AFTER.items() if {"splits", f"splits.{part}"} & {*names}} == stages


def test_every_part_that_a_stage_names_is_there() -> None:
    parts = {f"{suite.dataset}.{part.name}" for suite in SUITES.values() for part in suite.parts}
    assert {name for names in AFTER.values() for name in names} <= {*DATASETS, *parts}


def test_of_some_parts_all_is_required_but_the_rules_of_the_others() -> None:
    suite = SUITES["splits"]
    *kept, last = (part.name for part in suite.parts)
    others = {rule.name for part in suite.parts if part.name != last for rule in part.rules}
    assert required_of(suite, [last]).keys() == REQUIRED["splits"].keys() - others
    assert required_of(suite, [*kept, last]) == REQUIRED["splits"]
    without = suite._replace(parts=suite.parts[:-1])
    lost = {rule.name for rule in suite.parts[-1].rules}
    assert required_of(without, kept[:1]).keys() >= lost, "a rule that no part has is missed by every part"


def test_names_can_be_read_without_the_library() -> None:
    """Its import takes seconds: whoever only asks what to judge must not pay for it."""
    code = (
        "import expectations.judging, sys; print([name for name in sys.modules if 'great' in name or 'pandas' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_dataset_that_nobody_knows(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(SettingsError, match="'label' is not a dataset"):
        find(None, ArtifactStore(str(tmp_path_factory.mktemp("artifacts"))), ["labels", "label"])  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="'splits' has no part 'read'"):
        find(None, ArtifactStore(str(tmp_path_factory.mktemp("artifacts"))), ["splits.read"])  # type: ignore[arg-type]


_JUDGE = """
import socket

def refused(*arguments, **options):
    raise AssertionError(f"somebody was called: {arguments}")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refused
from drsr.expectations.evaluation import evaluate
from drsr.expectations.required import REQUIRED
from drsr.expectations.suites import SUITES
from tests.expectations.good_frames import good
findings = evaluate(SUITES["labels"], good()["labels"])
print(len(findings), all(finding.passed for finding in findings))
"""


def test_judging_calls_nobody_and_prints_nothing() -> None:
    """In a process of its own, in which every connection is an error; also at its end, when events would be sent."""
    done = subprocess.run([sys.executable, "-c", _JUDGE], capture_output=True, text=True, timeout=120, check=True)
    rules = sum(len(part.rules) for part in SUITES["labels"].parts)
    assert done.stdout == f"{rules} True\n"
    assert done.stderr == ""


_WITHOUT = """
import sys

sys.modules["great_expectations"] = sys.modules["pandas"] = None
from drsr.offline.catalog.migrations import open_catalog
from drsr.expectations.__main__ import main

open_catalog("sqlite:///catalog.sqlite", create=True).close()
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("datasets", [[], ["labels"]])
def test_without_the_library_it_says_what_to_install(tmp_path: Path, datasets: list[str]) -> None:
    command = [sys.executable, "-c", _WITHOUT, *datasets]
    environment = os.environ | {"DRSR_CATALOG_URL": "sqlite:///catalog.sqlite", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert "pip install 'drsr[flows]'" in done.stderr


def test_the_frames_of_the_tests_are_those_of_the_suites() -> None:
    assert {dataset: set(frames) for dataset, frames in good().items()} == {
        dataset: {part.name for part in SUITES[dataset].parts} for dataset in DATASETS
    }
