"""The table of stages, and what else names stages: dvc.yaml, params.yaml, prefect.yaml, the commands of `drsr`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from drsr.cli import build_parser
from drsr.offline.stages import NAMES, STAGES, Stage

ROOT = Path(__file__).parents[2]


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return found


DVC = document("dvc.yaml")["stages"]


def paths(outputs: list[Any]) -> list[str]:
    """Outputs of dvc.yaml, with options or without."""
    return [output if isinstance(output, str) else next(iter(output)) for output in outputs]


def test_the_table_says_what_a_stage_reads() -> None:
    folders = {f"exports/{stage.name}/{stage.folder}": stage.name for stage in STAGES}
    for stage in STAGES:
        assert {folders[path] for path in DVC[stage.name]["deps"] if path in folders} == set(stage.reads), stage.name


def test_names_and_folders_are_of_one_stage_each() -> None:
    assert tuple(stage.name for stage in STAGES) == NAMES
    assert len(set(NAMES)) == len({stage.folder for stage in STAGES}) == len(STAGES)
    assert all(stage.judged and stage.seconds > 0 for stage in STAGES)


def test_dvc_yaml_has_the_stages_in_order() -> None:
    """Every stage comes after those whose outputs it needs."""
    assert tuple(DVC) == NAMES
    made: list[str] = []
    for name in NAMES:
        needed = [path for path in DVC[name]["deps"] if path.startswith("exports/")]
        assert [path for path in needed if path not in made] == [], f"{name} needs what no stage before it makes"
        made += paths(DVC[name]["outs"]) + paths(DVC[name]["metrics"])


@pytest.mark.parametrize("stage", STAGES, ids=NAMES)
def test_dvc_yaml_says_what_the_table_says(stage: Stage) -> None:
    found = DVC[stage.name]
    assert found["desc"].startswith(stage.makes)
    assert paths(found["outs"]) == [f"exports/{stage.name}/{stage.folder}"]
    assert paths(found["metrics"]) == [f"exports/{stage.name}/summary.json"]
    assert any(line.startswith(f"python -m drsr {stage.name}") for line in found["cmd"])
    assert found["cmd"][-1].startswith(f"python -m drsr export exports --stage {stage.name}")


def test_params_yaml_has_blocks_of_stages_and_dvc_yaml_knows_them() -> None:
    blocks = set(document("params.yaml"))
    assert blocks <= set(NAMES)
    assert {name for name, stage in DVC.items() if stage.get("params") == [name]} == blocks


def test_prefect_yaml_deploys_every_stage_in_order() -> None:
    deployed = [deployment["name"] for deployment in document("prefect.yaml")["deployments"]]
    assert [name for name in deployed if name in NAMES] == list(NAMES)


def test_every_stage_is_a_command() -> None:
    (commands,) = (each for each in build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    assert [name for name in commands.choices if name in NAMES] == list(NAMES)


def test_reading_scorers_takes_no_library_that_fits_them() -> None:
    """Importing torch and scikit-learn takes seconds, which calibrate, evaluate, publish and audit need not wait."""
    code = (
        "import sys, drsr.offline.calibrate.stage, drsr.offline.evaluate.stage, drsr.offline.publish.stage, "
        "drsr.offline.audit.running; print(sorted({'torch', 'sklearn', 'scipy'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_the_table_is_plain_data() -> None:
    """Everything may read it, `drsr --help` too: it imports nothing of ours but the packages around it."""
    code = (
        "import sys, drsr.offline; before = {*sys.modules}; import drsr.offline.stages; print({*sys.modules} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert done.stdout.strip() == "{'drsr.offline.stages'}"
