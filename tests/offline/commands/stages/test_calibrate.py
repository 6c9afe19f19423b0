"""`drsr calibrate` in text, JSON and plots; what it says when nothing is admissible."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.commands.conftest import Drsr
from tests.offline.commands.stored_catalog import fill_catalog, quick_params_file

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def trained(drsr: Drsr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drsr:
    monkeypatch.setenv("DRSR_CACHE", str(tmp_path / "cache"))
    quick_params_file(tmp_path, epochs=30)
    fill_catalog(noise=0.0)
    assert drsr("train").code == 0
    return drsr


def test_a_person_sees_the_point_its_numbers_and_the_alternatives(trained: Drsr, tmp_path: Path) -> None:
    first = trained("calibrate", "--plots", "plots")
    assert (first.code, first.err) == (0, "")
    assert "policies keep to unsafe rate <= 0.1 and mean harm <= 0.02; chosen: K" in first.out
    assert "unsafe rate of the selected sets" in first.out
    names = ("operating_curve.csv", "beta_sensitivity.csv", "operating_curve.png", "beta_sensitivity.png")
    for name in names:
        assert f"wrote plots/{name}" in first.out
        assert (tmp_path / "plots" / name).stat().st_size > 100
    again = trained("calibrate")
    assert again.out.startswith("nothing to calibrate: already calibrated from these inputs")
    shown = trained("calibrate", "--json").json
    assert (shown["is_new"], shown["mode"], shown["abstains_always"]) == (False, "plain", False)
    assert len(shown["beta_sensitivity"]) == 10
    assert shown["risk_threshold"] in [
        row["best"]["risk_threshold"] for row in shown["beta_sensitivity"] if row["best"]
    ]
    status = trained("status").out
    assert f"{shown['risk_threshold']:.6f}" in status
    for place in (again.out, status):  # what drsr publish --calibration takes
        assert shown["calibration_key"][:12] in place


def test_nothing_admissible_is_said_loudly(trained: Drsr, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(path.read_text().replace("max_mean_harm: 0.02 ", "max_mean_harm: -9.0 "))
    outcome = trained("calibrate", "--plots", "plots")
    assert outcome.code == 0
    assert outcome.out.startswith("THE POLICY ABSTAINS ALWAYS: none of")
    assert outcome.err.startswith("drsr: warning: THE POLICY ABSTAINS ALWAYS")
    assert "none admissible" in outcome.out
    told = trained("calibrate", "--json")
    assert told.json["abstains_always"]
    assert "THE POLICY ABSTAINS ALWAYS" in told.err
    assert "abstains always" in trained("status").out


def test_certified_shows_every_threshold_and_its_bound(trained: Drsr) -> None:
    outcome = trained("calibrate", "--certified")
    assert outcome.code == 0
    assert "could be certified" in outcome.err  # ten trajectories cannot show one in ten
    assert "unsafe rate on new trajectories, below with 95% confidence" in outcome.out
    lines = outcome.out[outcome.out.index("thresholds from the training split") :].splitlines()
    assert lines[1].split() == ["K", "beta", "tau", "unsafe", "bound", "certified"]
    assert {line.split()[-1] for line in lines[3:]} == {"no"}


def test_without_a_scorer_of_the_present_data(trained: Drsr, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(path.read_text().replace("patience: 12", "patience: 11"))
    outcome = trained("calibrate")
    assert (outcome.code, outcome.out) == (2, "")
    assert "run drsr train first" in outcome.err


def test_a_folder_that_cannot_be(trained: Drsr, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = trained("calibrate", "--plots", "file")
    assert outcome.code == 2
    assert "cannot be written to" in outcome.err


def test_cross_fitted_the_members_are_fitted_on_the_way(trained: Drsr) -> None:
    first = trained("calibrate", "--scorer", "linear", "--cross-fitted")
    assert first.code == 0
    assert "on train and validation, by folds" in first.out
    assert "linear, fitted on" in trained("train", "--scorer", "linear", "--cross-fitted").out
    shown = trained("calibrate", "--scorer", "linear", "--cross-fitted", "--json").json
    assert (shown["is_new"], shown["states"]) == (False, 52)
    certified = trained("calibrate", "--scorer", "linear", "--cross-fitted", "--certified")
    assert "thresholds fixed beforehand, tested in rising order" in certified.out
