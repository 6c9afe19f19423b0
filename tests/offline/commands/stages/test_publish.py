"""`drsr publish`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from drsr.cli import main
from drsr.offline.publish.records import find_release
from drsr.policy.location import read_found
from tests.offline.audit.published import by_hand
from tests.offline.small_pipeline import Pipeline, fit, quick_params


@pytest.fixture(autouse=True)
def _settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "pipeline" in request.fixturenames:
        for name, value in request.getfixturevalue("pipeline").settings.items():
            monkeypatch.setenv(name, value)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["publish", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_publish_and_again(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = printed(capsys, "--version", "1.0")
    assert (code, err) == (0, "")
    assert out.startswith("published drsr-policy 1.0\n")
    assert out.count("  passed  ") == 17
    assert "85 rules are kept" in out
    assert "8 links computed again" in out
    index = tmp_path / "var" / "index"
    assert f"pip install --no-deps --index-url {index.as_uri()} drsr-policy" in out
    assert "this index holds no drsr" in out
    assert "--with-drsr" in out
    wheel = index / "drsr-policy" / "drsr_policy-1.0-py3-none-any.whl"
    assert f"\ndrsr backbone fetch {read_found(str(wheel)).numbers.backbone.name}\n" in out
    assert "torch's CPU build" in out
    assert main(["policy", "verify", str(wheel)]) == 0
    capsys.readouterr()
    code, out, _ = printed(capsys, "--json")
    shown = json.loads(out)
    assert (code, shown["published"], shown["is_new"], shown["version"]) == (0, True, False, "1.0")
    assert [gate["passed"] for gate in shown["gates"]] == [True] * 17
    code, out, _ = printed(capsys, "--calibration", pipeline.calibration.calibration_key[:8])
    assert code == 0
    assert "nothing to publish: this calibration was published before as drsr-policy 1.0" in out


def test_a_signature_beside_the_wheel(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a wheel that was published before, too: its bytes stay the same. A wrong key is found before the work."""
    key = Ed25519PrivateKey.generate()
    code, _, err = printed(capsys, "--version", "1.0", "--sign", "none.pem")
    assert code == 2
    assert "the key to sign with is not there" in err
    assert not (tmp_path / "var" / "index").exists()
    Path("key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    Path("trusted.pem").write_bytes(public)
    code, out, _ = printed(capsys, "--version", "1.0", "--json")
    shown = json.loads(out)
    wheel = Path(shown["wheel_file"])
    before = wheel.read_bytes()
    assert (code, shown["signature_file"]) == (0, None)
    assert main(["policy", "verify", str(wheel), "--trusted-key", "trusted.pem"]) == 2
    capsys.readouterr()
    code, out, _ = printed(capsys, "--sign", "key.pem")
    assert code == 0
    assert f"  signature {wheel}.sig\n" in out
    assert wheel.read_bytes() == before
    assert main(["policy", "verify", str(wheel), "--trusted-key", "trusted.pem", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signed"] is True


def test_a_refusal_shows_what_was_checked_and_has_exit_code_1(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(max_mean_harm=-10.0))
    code, out, err = printed(capsys)
    assert code == 1
    assert re.search(r"admissible +FAILED", out)
    assert re.search(r"expectations of the data +passed", out)
    assert "--always-abstain" in err
    code, out, _ = printed(capsys, "--json")
    shown = json.loads(out)
    assert (code, shown["published"], shown["gates"][0]["passed"]) == (1, False, False)
    assert not (tmp_path / "var" / "index").exists()
    code, out, _ = printed(capsys, "--always-abstain", "--index", "packages")
    assert code == 0
    assert ", which abstains always\n" in out
    assert (tmp_path / "packages" / "index.html").exists()


def test_a_broken_expectation_stops_it(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    by_hand(pipeline, "UPDATE decision_state SET frozen_at = '2099-01-01 00:00:00' WHERE id = 1")
    code, out, err = printed(capsys)
    assert code == 1
    assert "expectations of the data failed: labels: freezing is earlier than labelling" in err
    assert re.search(r"expectations of the data +FAILED", out)
    code, _, _ = printed(capsys, "--without-expectations")
    assert code == 1  # they can be judged here, so they are
    assert not (tmp_path / "var").exists()


def test_without_great_expectations_somebody_must_say_so(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    code, out, err = printed(capsys, "--version", "1.0")
    assert code == 1
    assert "not judged" in err
    assert "--without-expectations" in err
    assert not (tmp_path / "var").exists()
    # The log of reads is forged. The rules would see it; without them, the audit does.
    by_hand(pipeline, "UPDATE split_read SET labels = labels + 1 WHERE purpose = 'calibrate'")
    code, out, err = printed(capsys, "--version", "1.0", "--without-expectations")
    assert code == 1
    assert "split reads failed: no read of" in err
    assert re.search(r"split reads +FAILED", out)
    assert not (tmp_path / "var").exists()
    by_hand(pipeline, "UPDATE split_read SET labels = labels - 1 WHERE purpose = 'calibrate'")
    code, out, err = printed(capsys, "--version", "1.0", "--without-expectations", "--audit-sample", "1")
    assert (code, err) == (0, "")
    assert re.search(r"labels remeasured +passed", out)
    with pipeline.catalog.reading() as connection:
        record = find_release(connection, "1.0")
    assert record is not None
    gates = dict(record.gates)
    assert gates["expectations of the data"].startswith("NOT JUDGED, as --without-expectations allows: ")


def test_bad_input_has_exit_code_2(pipeline: Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments, complaint in (
        (("--version", "2026.01.05"), "not a version in its normal form"),
        (("--calibration", "x"), "0 calibrations have a key that begins with 'x'"),
        (("--always-abstain",), "this one found something"),
        (("--with-drsr", str(tmp_path)), "neither a wheel of drsr nor its source tree"),
    ):
        code, out, err = printed(capsys, *arguments)
        assert (code, out) == (2, "")
        assert complaint in err
        assert "Traceback" not in err


def test_without_a_catalog(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRSR_CATALOG_URL", raising=False)
    code, _, err = printed(capsys)
    assert code == 2
    assert "there is no catalog yet" in err
