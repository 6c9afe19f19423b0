"""params.yaml holds the paper's numbers, and a key too many, too few or of the wrong type is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.errors import SettingsError
from drsr.offline import params as params_module
from drsr.offline.params import CalibrateParams, CertifiedParams, TrainParams, load_params, params_file
from tests.offline.frames import PARAMS_FILE, params


def test_the_papers_numbers() -> None:
    assert params().train == TrainParams(
        seeds=(11, 29, 47),
        max_epochs=300,
        evaluate_every=5,
        patience=12,
        learning_rate=2e-3,
        weight_decay=1e-4,
        gradient_clip=5.0,
        harm_scale_floor=0.02,
        meaningful_gap=0.020,
        ranking_minimum_gap=1e-5,
        ranking_full_gap=0.02,
        ranking_base_weight=0.1,
        ranking_weight=1.0,
        regression_weight=0.30,
        classification_weight=0.40,
        brier_weight=0.10,
        smooth_l1_beta=1.0,
        max_positive_weight=4.0,
    )
    assert params().calibrate == CalibrateParams(
        max_cardinalities=(2, 3),
        uncertainty_coefficients=(0.0, 0.25, 0.5, 1.0, 2.0),
        removal_cap=0.20,
        max_unsafe_rate=0.10,
        max_mean_harm=0.02,
        certified=CertifiedParams(
            max_unsafe_rate=0.10,
            confidence=0.95,
            max_cardinalities=(3,),
            uncertainty_coefficients=(0.0,),
            coverages=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
            starts=3,
            max_group_states=3,
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  patience: 12", "  patients: 12", "unknown key train.patients"),
        ("  patience: 12", "", "missing key train.patience"),
        ("  patience: 12", "  patience: 12.5", "train.patience must be of type int, not 12.5"),
        ("  patience: 12", "  patience: yes", "must be of type int, not True"),
        ("  patience: 12", "  patience: 0", "patience must be above 0"),
        ("learning_rate: 2.0e-3", "learning_rate: 2e-3", "YAML reads 2e-3 as text"),
        ("learning_rate: 2.0e-3", "learning_rate: .nan", "train.learning_rate must be finite"),
        ("seeds: [11, 29, 47]", "seeds: 11", "train.seeds must be a list"),
        ("seeds: [11, 29, 47]", "seeds: [11, 11]", "one different seed per member"),
        ("    starts: 3", "    starts: 30", "calibrate.certified.starts must be"),
        ("    starts: 3", "    begin: 3", "unknown key calibrate.certified.begin"),
        ("coverages: [0.3,", "coverages: [0.9,", "rising numbers"),
        ("max_cardinalities: [2, 3]", "max_cardinalities: [5]", "from 1 to 4"),
        ("removal_cap: 0.20", "removal_cap: 20", "removal_cap must be between 0 and 1"),
        ("calibrate:", "calibrate:\n  source_balance: 1.5", "calibrate.source_balance must be from 0 to 1"),
        ("train:", "train:\n  source_balance: 0.5", "train.source_balance must be 0 for networks"),
        ("calibrate:", "calibration:", "calibration must be one of the stages"),
        ("train:", "evaluate:", "missing key train"),
    ],
)
def test_a_wrong_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = PARAMS_FILE.read_text()
    assert text.count(old) >= 1
    (tmp_path / "params.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(SettingsError) as caught:
        load_params(tmp_path / "params.yaml")
    assert message in str(caught.value)
    assert "params.yaml" in str(caught.value)


@pytest.mark.parametrize("text", ["", "- 1", "train: 3\ncalibrate: 4", "a: [", "train: {}\ncalibrate: {}"])
def test_not_a_params_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(SettingsError, match="params.yaml"):
        load_params(tmp_path / "params.yaml")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_params(tmp_path / "params.yaml")


def test_blocks_of_other_stages_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text(PARAMS_FILE.read_text() + "\nlabel:\n  harm_tolerance: 0.02\n")
    assert load_params(tmp_path / "params.yaml") == params()


def test_a_working_directory_may_have_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert params_file() == PARAMS_FILE
    assert load_params() == params()
    own = tmp_path / "params.yaml"
    own.write_text(PARAMS_FILE.read_text().replace("patience: 12", "patience: 7"))
    assert params_file() == own
    assert load_params().train.patience == 7


def test_an_installed_package_carries_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages" / "drsr" / "offline"
    installed.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(params_module, "__file__", str(installed / "params.py"))
    with pytest.raises(SettingsError, match="missing from this installation"):
        params_file()
    (installed / "params.yaml").write_text("")
    assert params_file() == installed / "params.yaml"
