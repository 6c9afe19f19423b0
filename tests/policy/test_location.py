"""A policy in a folder, in a wheel and installed: the same policy, and one flipped byte in any file is an error."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drsr
from drsr import load_policy
from drsr.errors import InputError, PolicyCorrupt
from drsr.policy.location import install_line, read_found, read_installed
from drsr.policy.wheel_file import WheelName, read_wheel, wheel_bytes
from tests.policy_wheels import BODY, versioned, wheel_of

VERSION = "2026.11.16"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return wheel_of(versioned(VERSION), tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip installed the package."""
    folder = tmp_path_factory.mktemp("site")
    wheel = wheel_of(versioned(VERSION), folder / "wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(wheel)], check=True)
    return folder / "site"


@pytest.fixture
def installed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's folder in a copy of the site, which Python finds."""
    shutil.copytree(site, tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site" / "drsr_policy"


def test_the_three_places_hold_one_policy(wheel: Path, installed: Path) -> None:
    policy = versioned(VERSION)
    for location in (str(wheel), str(installed), "drsr_policy", None):
        files = read_found(location)
        assert files.identity == policy.identity
        assert files.numbers == policy.numbers
    for place in (wheel, installed, "drsr_policy"):
        assert load_policy(place).prune(request=BODY).request == policy.prune(request=BODY).request


def test_the_package_itself_loads_and_verifies(installed: Path) -> None:
    lines = (
        "import json, sys, drsr_policy\n"
        "policy = drsr_policy.load()\n"
        "decision = policy.prune(request=json.load(sys.stdin))\n"
        "print(drsr_policy.__version__, policy.version, decision.pruned, drsr_policy.verify().passed)\n"
    )
    path = {"PYTHONPATH": f"{installed.parent}:{Path(drsr.__file__).parents[1]}"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", lines], input=json.dumps(BODY), env=path, capture_output=True, text=True
    )
    assert ran.stdout.split() == [VERSION, VERSION, "True", "True"], ran.stderr


def test_a_flipped_byte_in_any_installed_file_is_a_named_error(installed: Path) -> None:
    """The package's files and those that pip keeps about it. Nothing of the package is run to find out."""
    dist_info = installed.parent / f"drsr_policy-{VERSION}.dist-info"
    files = [path for folder in (installed, dist_info) for path in sorted(folder.rglob("*")) if path.is_file()]
    checked = {path.name for path in files}
    assert {"__init__.py", "policy.json", "scorer.safetensors", "golden.json", "lineage.json"} < checked
    assert {"MODEL_CARD.md", "manifest.json", "METADATA", "WHEEL", "RECORD"} < checked
    for path in files:
        data = path.read_bytes()
        if not data or path.suffix == ".pyc":  # compiled by pip from what is checked; Python checks it by its source
            continue
        step = max(1, len(data) // 60)
        for place in range(0, len(data), step):
            damaged = bytearray(data)
            damaged[place] ^= 1 << place % 8
            if path.name == "RECORD" and _only_about_compiled_files(bytes(damaged), data):
                continue
            path.write_bytes(damaged)
            with pytest.raises(PolicyCorrupt):
                raise AssertionError(f"{path} byte {place}: taken for {read_found('drsr_policy').numbers.version}")
        path.write_bytes(data)
    read_installed(installed)


def _only_about_compiled_files(damaged: bytes, sound: bytes) -> bool:
    """pip records without a hash what it compiled: there is nothing to compare."""
    before, after = sound.split(b"\n"), damaged.split(b"\n")
    return len(before) == len(after) and all(
        one == other or b"__pycache__" in one for one, other in zip(before, after, strict=True)
    )


def test_a_flipped_byte_in_any_file_of_a_wheel_is_a_named_error(wheel: Path) -> None:
    """Every file of the archive, and the archive around them."""
    data = wheel.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 300)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        wheel.write_bytes(damaged)
        with pytest.raises(PolicyCorrupt):
            read_found(str(wheel))


def test_a_flipped_byte_is_found_in_a_wheel_that_was_packed_again(wheel: Path) -> None:
    """As somebody with intent would: archive and RECORD fit, the policy's own manifest does not."""
    name = WheelName("drsr_policy", VERSION)
    files = read_wheel(wheel.read_bytes(), "x")
    for path, data in files.items():
        if path.startswith("drsr_policy/") and data:
            damaged = bytearray(data)
            damaged[len(data) // 2] ^= 1
            wheel.write_bytes(wheel_bytes(name, {**files, path: bytes(damaged)}))
            with pytest.raises(PolicyCorrupt):
                read_found(str(wheel))
    for stray in ("drsr_policy/more.py", "other/__init__.py", "drsr_policy-1.dist-info/METADATA"):
        wheel.write_bytes(wheel_bytes(name, {**files, stray: b"import os\n"}))
        with pytest.raises(PolicyCorrupt, match="its manifest does not know"):
            read_found(str(wheel))
    wheel.write_bytes(wheel_bytes(name, files))
    read_found(str(wheel))


def test_a_file_that_pip_installed_and_is_gone(installed: Path) -> None:
    (installed.parent / f"drsr_policy-{VERSION}.dist-info" / "METADATA").unlink()
    with pytest.raises(PolicyCorrupt, match="RECORD"):
        read_found("drsr_policy")


def test_a_policy_is_installed_from_its_own_index_alone() -> None:
    """A stranger's package of that name may lie on a public one."""
    assert install_line("drsr-policy") == "pip install --no-deps --index-url file:///PATH/OF/policies drsr-policy"


def test_what_is_no_policy_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder or wheel"):
        read_found(str(tmp_path / "nowhere.whl"))
    with pytest.raises(InputError, match="no policy is installed") as caught:
        read_found(None)
    assert install_line("drsr-policy-light") in str(caught.value)  # the one to begin with
    with pytest.raises(InputError, match="no package drsr_policy is installed") as caught:
        read_found("drsr-policy")
    assert str(caught.value).endswith(install_line("drsr-policy"))
    (tmp_path / "text.whl").write_text("hello")
    with pytest.raises(PolicyCorrupt, match="cannot be read as a wheel"):
        read_found(str(tmp_path / "text.whl"))
    with pytest.raises(PolicyCorrupt, match="holds no policy"):
        read_found(str(tmp_path))
