"""The package index as a folder: pages that pip reads, wheels that are never replaced, drsr's own wheel beside."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from drsr.errors import InputError, VersionTaken
from drsr.offline.publish.simple_index import WheelFile, add_wheels, drsr_wheel, is_there, place_of, write_pages
from tests.policy_wheels import package_of, versioned

ROOT = Path(__file__).parents[3]


def wheel(version: str, seed: int = 0) -> WheelFile:
    package = package_of(versioned(version, seed=seed))
    return WheelFile(package.name.file_name, package.data)


class Links(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found.append(dict(attrs))


def content(index: Path) -> dict[str, bytes]:
    return {str(path.relative_to(index)): path.read_bytes() for path in sorted(index.rglob("*")) if path.is_file()}


def test_pages_name_every_wheel_with_its_hash(tmp_path: Path) -> None:
    first, second = wheel("1.0"), wheel("1.1")
    add_wheels(tmp_path, [first])
    add_wheels(tmp_path, [second])
    assert [link["href"] for link in Links(tmp_path / "index.html").found] == ["drsr-policy/"]
    links = Links(tmp_path / "drsr-policy" / "index.html").found
    assert [link["data-requires-python"] for link in links] == [">=3.11", ">=3.11"]
    for link, added in zip(links, (first, second), strict=True):
        assert link["href"] is not None
        name, _, hashed = link["href"].partition("#sha256=")
        assert name == added.file_name
        assert hashlib.sha256((tmp_path / "drsr-policy" / name).read_bytes()).hexdigest() == hashed == added.sha256


def test_pip_installs_from_it_and_checks_the_hash(tmp_path: Path) -> None:
    index = tmp_path / "index"
    add_wheels(index, [wheel("1.0"), wheel("1.1")])
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
    ]
    pip += ["--index-url", index.as_uri(), "--target"]
    subprocess.run([*pip, str(tmp_path / "newest"), "drsr-policy"], check=True)
    assert (tmp_path / "newest" / "drsr_policy-1.1.dist-info").is_dir()
    subprocess.run([*pip, str(tmp_path / "older"), "drsr_policy==1.0"], check=True)
    assert (tmp_path / "older" / "drsr_policy-1.0.dist-info").is_dir()
    path = place_of(index, wheel("1.1"))
    damaged = bytearray(path.read_bytes())
    damaged[2000] ^= 1
    path.write_bytes(damaged)
    refused = subprocess.run([*pip, str(tmp_path / "damaged"), "drsr-policy"], capture_output=True, text=True)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stderr


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    add_wheels(tmp_path, [wheel("1.0")])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    add_wheels(tmp_path, [wheel("1.0")])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert is_there(tmp_path, wheel("1.0"))
    assert not is_there(tmp_path, wheel("1.1"))


def test_a_wheel_is_never_replaced(tmp_path: Path) -> None:
    add_wheels(tmp_path, [wheel("1.0")])
    before = content(tmp_path)
    with pytest.raises(VersionTaken, match="is there with other content") as refusal:
        add_wheels(tmp_path, [wheel("1.1"), wheel("1.0", seed=1)])
    assert "publish under another one" in str(refusal.value)
    assert content(tmp_path) == before  # the other one was not written either


def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    add_wheels(tmp_path, [wheel("1.0")])
    before = content(tmp_path)
    (tmp_path / "drsr-policy" / ".drsr_policy-1.1-py3-none-any.whl.part").write_bytes(b"half")
    (tmp_path / "drsr-policy" / "index.html").unlink()
    write_pages(tmp_path)
    assert content(tmp_path) == before


def test_names_that_are_no_wheels(tmp_path: Path) -> None:
    for name in ("drsr_policy.tar.gz", "../x-1-py3-none-any.whl", "x.whl"):
        with pytest.raises(InputError, match="not the name of a wheel"):
            add_wheels(tmp_path, [WheelFile(name, b"")])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        add_wheels(tmp_path / "file", [wheel("1.0")])


def test_drsr_itself_is_built_from_its_source_the_same_each_time(tmp_path: Path) -> None:
    built = drsr_wheel(ROOT)
    assert built.file_name.startswith("drsr-")
    assert drsr_wheel(ROOT).data == built.data
    with zipfile.ZipFile(io.BytesIO(built.data)) as archive:
        inside = set(archive.namelist())
    # An audit needs the rules and the page's style, and whoever audits has no checkout.
    assert {
        "drsr/expectations/judging.py",
        "drsr/pages.css",
    } <= inside
    assert {"drsr/flows/nightly.py", "drsr/offline/params.yaml", "drsr/offline/migrations/env.py"} <= inside
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {"drsr"}
    add_wheels(tmp_path, [built, wheel("1.0")])
    assert [link["href"] for link in Links(tmp_path / "index.html").found] == ["drsr/", "drsr-policy/"]
    as_it_is = drsr_wheel(place_of(tmp_path, built))
    assert as_it_is == built


def test_what_is_not_drsr_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drsr-1.0-py3-none-any.whl").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is not a wheel"):
        drsr_wheel(tmp_path / "drsr-1.0-py3-none-any.whl")
    other = tmp_path / wheel("1.0").file_name
    other.write_bytes(wheel("1.0").data)
    with pytest.raises(InputError, match="is not a wheel of drsr"):
        drsr_wheel(other)
    with pytest.raises(InputError, match="neither a wheel of drsr nor its source tree"):
        drsr_wheel(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(InputError, match="hatchling could not build it"):
        drsr_wheel(tmp_path)
