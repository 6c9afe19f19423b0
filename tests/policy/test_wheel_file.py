"""Wheels as bytes: the same for the same files, readable by others, and refused when a single byte is another."""

from __future__ import annotations

import hashlib
import io
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import InputError, PolicyCorrupt
from drsr.policy.wheel_file import WheelName, check_version, read_wheel, wheel_bytes

NAME = WheelName("drsr_policy", "2026.11.16")
FILES = {
    "drsr_policy/b.json": b"{}\n",
    "drsr_policy/a.txt": b"some text\n",
    "drsr_policy/empty": b"",
    f"{NAME.dist_info}/METADATA": b"Metadata-Version: 2.1\nName: drsr-policy\nVersion: 2026.11.16\n",
    f"{NAME.dist_info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


EXPECTED = "5e98257dc63d5a6b64c9a5847d72f171143fa89c550cb147a0d59843ec02c0e1"
"""Of Python 3.11, 3.12 and 3.13."""


def test_the_same_files_give_the_same_bytes_in_any_order() -> None:
    data = wheel_bytes(NAME, FILES)
    shuffled = list(FILES.items())
    random.Random(1).shuffle(shuffled)
    assert wheel_bytes(NAME, dict(shuffled)) == data
    assert read_wheel(data, "x") == FILES
    assert wheel_bytes(NAME, {**FILES, "drsr_policy/a.txt": b"other text"}) != data


def test_the_bytes_are_those_that_were_first_written() -> None:
    """A wheel of today must be readable tomorrow: by another version of Python, whose zipfile could write otherwise."""
    assert hashlib.sha256(wheel_bytes(NAME, FILES)).hexdigest() == EXPECTED


def test_others_read_it(tmp_path: Path) -> None:
    path = tmp_path / NAME.file_name
    path.write_bytes(wheel_bytes(NAME, FILES))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[-1] == f"{NAME.dist_info}/RECORD"  # the metadata comes last
        assert archive.read("drsr_policy/a.txt") == b"some text\n"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(tmp_path / "there"), str(path)], check=True)
    assert (tmp_path / "there" / "drsr_policy" / "a.txt").read_bytes() == b"some text\n"


def test_every_flipped_bit_of_the_file_is_refused() -> None:
    data = wheel_bytes(NAME, FILES)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(PolicyCorrupt, match="here"):
            read_wheel(bytes(damaged), "here")


@given(st.data())
def test_any_other_bytes_are_refused_by_name(data: st.DataObject) -> None:
    """Cut, lengthened, overwritten: never another exception, never taken for good."""
    sound = wheel_bytes(NAME, FILES)
    damaged = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged)))
        damaged[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    if bytes(damaged) != sound:
        with pytest.raises(PolicyCorrupt):
            read_wheel(bytes(damaged), "here")


def test_what_another_tool_packed_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in FILES.items():
            archive.writestr(path, content * 50)
    with pytest.raises(PolicyCorrupt, match="is compressed"):
        read_wheel(out.getvalue(), "here")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", b"a")
    with pytest.raises(PolicyCorrupt, match="no RECORD"):
        read_wheel(out.getvalue(), "here")
    with pytest.raises(PolicyCorrupt, match="cannot be read as a wheel"):
        read_wheel(b"not a zip", "here")


def test_entries_that_share_their_bytes_are_refused_unread() -> None:
    """A small archive may list one file a million times."""
    data = wheel_bytes(NAME, {**FILES, "drsr_policy/a.txt": b"x" * 10_000})
    end = data.rindex(b"PK\5\6")
    size, start = (int.from_bytes(data[end + at : end + at + 4], "little") for at in (12, 16))
    listed, count = data[start : start + size] * 50, 50 * int.from_bytes(data[end + 10 : end + 12], "little")
    numbers = count.to_bytes(2, "little") * 2 + len(listed).to_bytes(4, "little") + start.to_bytes(4, "little")
    bomb = data[:start] + listed + data[end : end + 8] + numbers + b"\0\0"
    with pytest.raises(PolicyCorrupt, match="claims to hold more than its own size"):
        read_wheel(bomb, "x")


def test_a_record_that_says_something_else_is_refused() -> None:
    """Even in an archive that is sound as such."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel_bytes(NAME, FILES))) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            new.writestr(entry, content.replace(b"sha256=", b"sha257=") if "RECORD" in entry.filename else content)
    with pytest.raises(PolicyCorrupt, match="its RECORD is not what its files give"):
        read_wheel(out.getvalue(), "here")


@pytest.mark.parametrize("version", ["2026.11.16", "0", "1.0rc1", "1.0.post2", "2.0.dev3", "2026.11.16.1"])
def test_versions_as_pip_writes_them(version: str) -> None:
    packaging = pytest.importorskip("packaging.version")
    assert str(packaging.Version(version)) == version
    check_version(version)


@pytest.mark.parametrize(
    "version", ["", "2026.01.05", "v1", "1.0-1", "1 0", "1.0+local", "../1", "1.0\n", "latest", "1..2", "1.0RC1"]
)
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(InputError, match="not a version in its normal form"):
        check_version(version)
    with pytest.raises(InputError):
        wheel_bytes(NAME._replace(version=version), FILES)
