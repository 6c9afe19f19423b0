"""Lists of what is in an image and in a wheel: complete, and the same every time."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from scripts import sbom
from tests.policy_wheels import versioned, wheel_of


def test_the_lists_of_images_and_of_a_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = wheel_of(versioned("1.0"), tmp_path)
    assert sbom.main(["--wheel", str(wheel), "--to", str(tmp_path / "sbom")]) == 0
    found = {path.name: json.loads(path.read_text()) for path in (tmp_path / "sbom").iterdir()}
    assert set(found) == {*(f"{name}.cdx.json" for name in sbom.images()), f"{wheel.stem}.cdx.json"}
    assert len(capsys.readouterr().out.splitlines()) == len(found)
    for name, needed in {"decide": {"drsr", "numpy", "starlette"}, "worker": {"drsr", "torch", "prefect"}}.items():
        document = found[f"{name}.cdx.json"]
        assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
        assert needed <= {component["name"] for component in document["components"]}
    policy = found[f"{wheel.stem}.cdx.json"]
    about = policy["metadata"]["component"]
    assert (about["name"], about["version"]) == ("drsr-policy", "1.0")
    assert about["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert {"drsr_policy/__init__.py", "drsr_policy/scorer.safetensors"} <= {c["name"] for c in policy["components"]}
