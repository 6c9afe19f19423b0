"""The steps of demo, release and report are commands that exist, in an order that keeps the test split unread."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.cli import build_parser
from drsr.offline.label.harm import measure_harm
from drsr.policy.scripted import scripted_policy
from drsr.policy.wheel_file import check_version
from drsr.request.rendering import render_output
from scripts import compare_wheels, demo, full_report, release
from scripts.demo_decision import decisions, described, measured_harm, removed_text, sandbox_states
from scripts.steps import Step, Workspace
from tests.policy_wheels import versioned, wheel_of

VIEWS = ("default", "light")


class Machine:
    """Stands in for the steps: notes which are run, and leaves the wheels that they would."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.fails_at = ""
        self.wheel = b"wheel"

    def __call__(self, work: Workspace, step: Step, output: Path | None = None, more: object = None) -> int:
        self.ran.append(step.command)
        if step.command[:2] == ("drsr", "publish"):
            options = dict(zip(step.command[2::2], step.command[3::2], strict=True))
            path = release.wheel_of(Path(options["--index"]), options["--view"], options["--version"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.wheel)
        return 3 if self.fails_at and self.fails_at in step.command else 0

    @property
    def stages(self) -> list[str]:
        return [command[1] if command[0] == "drsr" else command[0] for command in self.ran]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.chdir(tmp_path)
    found = Machine()
    monkeypatch.setattr(Workspace, "run", lambda work, *given, **more: found(work, *given, **more))
    return found


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["script", *arguments])


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("version", [None, "2026.11.18"])
def test_every_step_is_a_command(view: str, version: str | None) -> None:
    parser = build_parser()
    wheel = release.wheel_of(demo.INDEX, view, "1.0")
    for step in (*demo.steps(view, version), *full_report.steps(view, wheel)):
        module, *arguments = step.command
        assert importlib.util.find_spec(module) is not None
        if module == "drsr":
            assert parser.parse_args(arguments).run
        assert step.shown.startswith(("drsr ", "python -m scripts."))


def test_the_demo_runs_every_step_and_compares_with_what_was_released(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch)
    assert demo.main() == 0
    stages = ["backbone", "harm", "import", "train", "calibrate", "evaluate", "publish", "policy", "audit"]
    assert machine.stages == [*stages, "scripts.demo_decision"]
    assert str(demo.CURVE) in (out := capsys.readouterr().out)
    assert "the frontier" not in out  # no replay of a released wheel is there
    for version in ("2026.9.30", "2026.11.18"):
        path = release.wheel_of(Path("policies"), "light", version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"released")
    machine.ran.clear()
    assert demo.main() == 0
    assert machine.stages == [*stages, "scripts.compare_wheels", "scripts.demo_decision"]
    assert "the frontier" not in capsys.readouterr().out
    figure = Path("policies", "about", "drsr_policy_light-2026.11.18", demo.FRONTIER)
    figure.parent.mkdir(parents=True)
    figure.write_text("<svg/>")
    assert demo.main() == 0
    assert f"{figure}" in capsys.readouterr().out
    assert machine.ran[-2][-1] == str(release.wheel_of(Path("policies"), "light", "2026.11.18"))
    machine.fails_at = "calibrate"
    machine.ran.clear()
    assert demo.main() == 3
    assert machine.stages == stages[:5]


def test_a_release_is_calibrated_before_the_test_split_is_read_and_made_twice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called(monkeypatch, "--version", "1.0")
    assert release.main() == 0
    first = machine.stages.index("evaluate")
    assert machine.stages[:first] == ["backbone", "import", "train", "calibrate", "train", "calibrate"]
    assert "calibrate" not in machine.stages[first : machine.stages.index("audit")]
    again = len(machine.stages) - machine.stages[::-1].index("import")
    assert "evaluate" not in machine.stages[again:]  # only bytes are compared: the test split is read once
    assert capsys.readouterr().out.count("the same bytes") == len(VIEWS)
    monkeypatch.setattr(machine, "wheel", b"another")
    called(monkeypatch, "--version", "1.0", "--check", "--views", "light")
    assert release.main() == 1
    assert "OTHER BYTES" in capsys.readouterr().out
    machine.fails_at = "publish"
    assert release.main() == 3


def test_parameters_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert release.params_of("light") == {}
    own = tmp_path / "policies" / "params-light.yaml"
    own.parent.mkdir()
    own.write_text("train: {}")
    assert release.params_of("light") == {"DRSR_PARAMS": str(own)}
    assert release.params_of("default") == {}


def test_the_full_report_needs_a_wheel(machine: Machine) -> None:
    assert full_report.main() == 1
    assert machine.ran == []
    wheel = release.wheel_of(demo.INDEX, "light", demo.UNRELEASED)
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"wheel")
    assert full_report.main() == 0
    assert machine.stages == ["corpus", "ingest", "evaluate", "evaluate", "report"]
    evaluate, tasks, report = machine.ran[2:]
    assert evaluate[evaluate.index("--output") + 1] == report[report.index("--replay") + 1]
    assert evaluate[evaluate.index("--window") + 1] == full_report.WINDOW
    assert tasks[tasks.index("--output") + 1] == report[report.index("--tasks") + 1]
    machine.fails_at = "ingest"
    assert full_report.main() == 3


def test_a_step_is_shown_and_runs_with_its_workspace(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    work = Workspace(tmp_path / "work")
    step = Step("The policies at hand", ("drsr", "policy", "list"))
    assert work.run(step, tmp_path / "kept" / "list.txt") == 0
    assert "--- The policies at hand\n$ drsr policy list" in capfd.readouterr().out
    assert (tmp_path / "kept" / "list.txt").read_text()
    assert work.run(Step("Nothing is calibrated here", ("drsr", "audit")), tmp_path / "kept" / "audit.txt") != 0
    assert not (tmp_path / "kept" / "audit.txt").exists()


def test_wheels_are_compared_by_bytes_and_then_by_decisions(tmp_path: Path) -> None:
    made, same = wheel_of(versioned("1.0"), tmp_path / "made"), wheel_of(versioned("1.0"), tmp_path / "same")
    assert compare_wheels.compared(made, same) == f"{made} has the same bytes as {same}"
    other = wheel_of(versioned("1.0", seed=7), tmp_path / "other")
    said = compare_wheels.compared(other, made)
    assert "has other bytes" in said
    assert "of 4 golden requests of the released policy it decides 3 alike" in said


def test_a_decision_is_described_with_its_measured_harm() -> None:
    backbone = load_backbone("scripted")
    states = sandbox_states(backbone.tokenizer, backbone.window)
    shown = next(found for found in decisions(scripted_policy(), states) if found.decision.pruned)
    harm = measured_harm(shown, backbone)
    chosen = next(found for found in shown.decision.receipt["sets"] if found["verdict"] == "chosen")
    by_hand = [
        measured.harm
        for measured in measure_harm(
            backbone, shown.state.state, render_output(shown.state.next_output, backbone.tokenizer)
        )
        if list(measured.deletion_set.members) == chosen["members"]
    ]
    assert [harm] == pytest.approx(by_hand)
    said = described(shown, harm, 0.25)
    assert f"harm {harm:+.3f} nats per token" in said
    assert f"risk {chosen['unsafe_score']:.3f}" in said
    assert len(removed_text(shown.decision)) >= 1


def test_the_version_of_an_unreleased_policy_can_be_published() -> None:
    check_version(demo.UNRELEASED)
