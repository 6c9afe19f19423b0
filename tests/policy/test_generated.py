"""A package's code is what drsr wrote, or it is refused by everybody who reads it; nothing of it has run by then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drsr.errors import PolicyCorrupt
from drsr.policy.folder import MANIFEST_FILE, manifest_bytes
from drsr.policy.loading import load_installed
from drsr.policy.location import read_found, read_installed
from drsr.policy.wheel_file import WheelName, read_wheel, record_hash, wheel_bytes
from tests.policy_wheels import versioned, wheel_of

VERSION = "1.0"
PACKAGE, DIST_INFO = "drsr_policy/", f"drsr_policy-{VERSION}.dist-info/"
Files = dict[str, bytes]
EVIL = b"\nimport pathlib; pathlib.Path('ran').touch()\n"


def add_a_line(files: Files) -> None:
    files[f"{PACKAGE}__init__.py"] += EVIL


def add_a_module(files: Files) -> None:
    files[f"{PACKAGE}more.py"] = EVIL


def add_compiled_code(files: Files) -> None:
    files[f"{PACKAGE}speedups.so"] = b"\x7fELF"


def add_an_entry_point(files: Files) -> None:
    files[f"{DIST_INFO}entry_points.txt"] = b"[drsr.commands]\nevil = drsr_policy.more:run\n"


def require_another_package(files: Files) -> None:
    name = f"{DIST_INFO}METADATA"
    files[name] = files[name].replace(b"Requires-Python", b"Requires-Dist: evil\nRequires-Python")


def hide_code_in_the_version_of_drsr(files: Files) -> None:
    name = f"{PACKAGE}policy.json"
    numbers = json.loads(files[name])
    numbers["drsr_version"] = "0.1.0\nRequires-Dist: evil"
    files[name] = (json.dumps(numbers, indent=2, sort_keys=True) + "\n").encode()


def take_the_code_out(files: Files) -> None:
    del files[f"{PACKAGE}__init__.py"]


FORGERIES = {
    add_a_line: "__init__.py is not the one that drsr writes",
    add_a_module: "holds code that drsr does not write: more.py",
    add_compiled_code: "holds code that drsr does not write: speedups.so",
    add_an_entry_point: "tells pip more than drsr does: entry_points.txt",
    require_another_package: "METADATA is not the one that drsr writes for this policy",
    hide_code_in_the_version_of_drsr: "is not a version of drsr",
    take_the_code_out: "__init__.py is not the one that drsr writes",
}
forgeries = pytest.mark.parametrize(
    ("forgery", "says"), FORGERIES.items(), ids=lambda value: getattr(value, "__name__", "")
)


def forged(wheel: Path, forgery: Callable[[Files], None]) -> Files:
    """The files of the wheel after a forger was at work, every hash in order; the wheel is written again."""
    files = read_wheel(wheel.read_bytes(), str(wheel))
    forgery(files)
    inside = {name.removeprefix(PACKAGE): data for name, data in files.items() if name.startswith(PACKAGE)}
    del inside[MANIFEST_FILE]
    files[f"{PACKAGE}{MANIFEST_FILE}"] = manifest_bytes(inside)
    wheel.write_bytes(wheel_bytes(WheelName("drsr_policy", VERSION), files))
    return files


def installed(files: Files, site: Path) -> Path:
    """As pip would leave it."""
    lines = [f"{name},{record_hash(data)},{len(data)}\n" for name, data in files.items()]
    for name, data in (files | {f"{DIST_INFO}RECORD": "".join([*lines, f"{DIST_INFO}RECORD,,\n"]).encode()}).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    return site / PACKAGE


@forgeries
def test_a_wheel_and_what_is_installed_from_it_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgery: Callable[[Files], None], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = wheel_of(versioned(VERSION), tmp_path)
    files = forged(wheel, forgery)
    with pytest.raises(PolicyCorrupt, match=says):
        read_found(str(wheel))
    folder = installed(files, tmp_path / "site")
    with pytest.raises(PolicyCorrupt, match=says):
        read_installed(folder)
    with pytest.raises(PolicyCorrupt, match=says):
        load_installed(str(folder / "__init__.py"))
    assert not Path("ran").exists()


def test_what_drsr_wrote_is_read(tmp_path: Path) -> None:
    wheel = wheel_of(versioned(VERSION), tmp_path)
    files = forged(wheel, lambda files: None)
    assert read_found(str(wheel)).numbers.version == VERSION
    folder = installed(files, tmp_path / "site")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"")
    assert read_installed(folder).numbers.version == read_found(str(folder)).numbers.version == VERSION


def test_code_that_somebody_put_beside_an_installed_policy(tmp_path: Path) -> None:
    """It is in no list, and would be there to be imported."""
    wheel = wheel_of(versioned(VERSION), tmp_path)
    folder = installed(forged(wheel, lambda files: None), tmp_path / "site")
    (folder / "helper.py").write_bytes(EVIL)
    with pytest.raises(PolicyCorrupt, match=r"holds code that drsr does not write: helper\.py"):
        read_installed(folder)
