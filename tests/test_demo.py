"""The demo's steps are commands that exist, and it does nothing twice."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest

from drsr.cli import build_parser
from scripts import demo, full_report
from scripts.demo_places import AUDIT, DOCS, ENDING, FINISHED, INDEX, REPORT, replay_of

AFTER = demo.after(INDEX / "x.whl")
STEPS = (*demo.BEFORE, demo.NIGHTLY, *AFTER)


def test_every_step_is_a_command() -> None:
    parser = build_parser()
    for step in (*STEPS, *full_report.steps(INDEX / "x.whl")):
        module, *arguments = step.command
        assert importlib.util.find_spec(module) is not None
        if module == "drsr":
            assert parser.parse_args(arguments).run
        assert demo.shown(step.command).startswith(("drsr ", "dvc ", "python -m "))


class Machine:
    """Stands in for the steps: notes which are run, and leaves what they would."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.wheel = b"wheel"

    def __call__(self, step: demo.Step) -> int:
        self.ran.append(step.command[0] if step.command[0] != "drsr" else step.command[1])
        if step == demo.NIGHTLY:
            (INDEX / "drsr-policy").mkdir(parents=True, exist_ok=True)
            name = f"{hashlib.sha256(self.wheel).hexdigest()[:6]}.whl"
            (INDEX / "drsr-policy" / name).write_bytes(self.wheel)
            demo.RELEASED.parent.mkdir(parents=True, exist_ok=True)
            demo.RELEASED.write_text(json.dumps({"wheel": hashlib.sha256(self.wheel).hexdigest()}))
        if step.command[0] == "scripts.demo_ending":
            for path in (AUDIT, DOCS / "index.html", REPORT / "index.html", ENDING):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("as it was")
        return 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    found = Machine()
    monkeypatch.setattr(demo, "run", found)
    return found


def test_again_only_the_night_is_asked(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    assert machine.ran == [step.command[step.command[0] == "drsr"] for step in STEPS]
    machine.ran.clear()
    capsys.readouterr()
    assert demo.main() == 0
    assert machine.ran == ["drsr.flows.nightly"]
    assert "Nothing to do" in capsys.readouterr().out


def test_a_new_policy_is_looked_at_anew(machine: Machine) -> None:
    demo.main()
    machine.ran.clear()
    machine.wheel = b"another"
    assert demo.main() == 0
    assert machine.ran == [step.command[step.command[0] == "drsr"] for step in (demo.NIGHTLY, *AFTER)]


@pytest.mark.parametrize("lost", [AUDIT, REPORT / "index.html", ENDING, FINISHED, demo.RELEASED])
def test_what_is_gone_is_made_again(machine: Machine, lost: Path) -> None:
    demo.main()
    machine.ran.clear()
    lost.unlink()
    assert demo.main() == 0
    assert "audit" in machine.ran


def test_share_and_full_report_read_the_replay_that_was_made(tmp_path: Path) -> None:
    one, other = INDEX / "one.whl", INDEX / "other.whl"
    for steps in (demo.after, full_report.steps):
        evaluate = next(step.command for step in steps(one) if step.command[:3] == ("drsr", "evaluate", "--replay"))
        *_, report = (step.command for step in steps(one) if step.command[:2] == ("drsr", "report"))
        assert evaluate[evaluate.index("--output") + 1] == report[report.index("--replay") + 1]
    tasks, report = (step.command for step in full_report.steps(one)[1:])
    assert tasks[tasks.index("--output") + 1] == report[report.index("--tasks") + 1]
    assert replay_of(one, tmp_path) != replay_of(other, tmp_path)  # one file never mixes two policies


def test_the_full_report_needs_a_release(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert full_report.main() == 1
    assert machine.ran == []
    demo.main()
    machine.ran.clear()
    assert full_report.main() == 0
    assert machine.ran == ["evaluate", "evaluate", "report"]
    monkeypatch.setattr(demo, "run", lambda step: 3)
    assert full_report.main() == 3


def test_a_step_that_fails_stops_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run", lambda step: 1 if step.command[0] == "drsr.flows.sample" else machine(step))
    assert demo.main() == 1
    assert machine.ran == ["backbone", "harm", "ingest", "freeze"]
    assert not FINISHED.exists()


def test_a_night_without_a_policy(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run", lambda step: 0)
    assert demo.main() == 1
