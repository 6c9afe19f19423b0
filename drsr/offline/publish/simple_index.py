"""A folder that pip installs from: a simple repository index (PEP 503), as plain files.

    index/index.html                       the projects
    index/drsr-policy/index.html           its wheels, each with its SHA-256
    index/drsr-policy/drsr_policy-....whl

`pip install --no-deps --index-url file:///.../index drsr-policy`, or any web server in front of the folder. A wheel is
never replaced. Every file appears whole or not at all, wheels before the pages that name them: after a kill, the same
again gives the same folder.
"""

from __future__ import annotations

import hashlib
import html
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from drsr.errors import InputError, MissingExtra, VersionTaken
from drsr.files import UNFINISHED, write_if_changed
from drsr.policy.location import install_line

_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[A-Za-z0-9][A-Za-z0-9._+!]*)-[^/]+\.whl")
_PAGE = """<!DOCTYPE html>
<html>
  <head>
    <meta charset="utf-8">
    <meta name="pypi:repository-version" content="1.0">
    <title>{title}</title>
  </head>
  <body>
    <h1>{title}</h1>
{links}
  </body>
</html>
"""


class WheelFile(NamedTuple):
    """A wheel with the name it is installed from."""

    file_name: str
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def project(self) -> str:
        """The project's name as PEP 503 writes it."""
        match = _WHEEL.fullmatch(self.file_name)
        if match is None:
            raise InputError("is not the name of a wheel", where=self.file_name)
        return re.sub(r"[-_.]+", "-", match["name"]).lower()


def install_command(index: Path, project: str = "drsr-policy") -> str:
    """Return the command to install a policy from this index alone.

    With `--extra-index-url` a stranger's package of the same name and a higher version would win. So no other index is
    searched: drsr and its dependencies are installed before, or drsr comes from this index too if it holds it.
    """
    what = f"drsr {project}" if holds_drsr(index) else project
    return install_line(what, index.absolute().as_uri())


def holds_drsr(index: Path) -> bool:
    """Return whether drsr itself is in the index with the policies."""
    return any((index / "drsr").glob("drsr-*.whl"))


def place_of(index: Path, wheel: WheelFile) -> Path:
    """Return the path of a wheel in the index."""
    return index / wheel.project / wheel.file_name


def is_there(index: Path, wheel: WheelFile) -> bool:
    """Return whether the index has this exact wheel; raise VersionTaken if it has a different one of that name."""
    try:
        there = place_of(index, wheel).read_bytes()
    except FileNotFoundError:
        return False
    if there != wheel.data:
        raise VersionTaken(
            f"{wheel.file_name} is there with other content: SHA-256 {hashlib.sha256(there).hexdigest()}, "
            f"not {wheel.sha256}",
            where=str(index),
            hint="a published version never changes; publish under another one",
        )
    return True


def add_wheels(index: Path, wheels: list[WheelFile]) -> None:
    """Put wheels into the index and write its pages. Wheels already there are not changed.

    One process at a time: the pages list what the folder holds when they are written.
    """
    try:
        there = [is_there(index, wheel) for wheel in wheels]  # all are looked at before anything is written
        for wheel, known in zip(wheels, there, strict=True):
            if not known:
                write_if_changed(place_of(index, wheel), wheel.data, sync=True)
        write_pages(index)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(index), hint="name another folder") from None


def write_pages(index: Path) -> None:
    """Write every page from what the folder holds, and remove what a killed process left half-written."""
    for leftover in sorted(index.rglob(f".*{UNFINISHED}")):
        leftover.unlink()
    projects = sorted({path.parent for path in index.glob("*/*.whl")})
    for project in projects:
        wheels = [WheelFile(path.name, path.read_bytes()) for path in sorted(project.glob("*.whl"))]
        links = [_wheel_link(wheel) for wheel in wheels]
        write_if_changed(project / "index.html", _page(f"Links for {project.name}", links), sync=True)
    names = [f'<a href="{project.name}/">{html.escape(project.name)}</a>' for project in projects]
    write_if_changed(index / "index.html", _page("Simple index", names), sync=True)


def drsr_wheel(source: Path) -> WheelFile:
    """Return the wheel of drsr itself: a wheel's file unchanged, or one built reproducibly from a source tree by
    hatchling."""
    if source.is_file():
        return _checked_drsr(WheelFile(source.name, source.read_bytes()), source)
    if not (source / "pyproject.toml").is_file():
        raise InputError(
            "is neither a wheel of drsr nor its source tree",
            where=str(source),
            hint="name the folder of pyproject.toml",
        )
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        # Hatchling sorts files and gives all one time; the epoch is fixed so that nothing in the environment counts.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
        built = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
        if "No module named hatchling" in built.stderr:
            raise MissingExtra("hatchling", "dev", needed_for="building the wheel of drsr")
        wheels = sorted(Path(folder).glob("*.whl"))
        if built.returncode or len(wheels) != 1:
            said = (built.stderr or built.stdout).strip().splitlines()
            raise InputError(
                f"hatchling could not build it: {said[-1] if said else 'no reason given'}", where=str(source)
            )
        return _checked_drsr(WheelFile(wheels[0].name, wheels[0].read_bytes()), source)


def _checked_drsr(wheel: WheelFile, source: Path) -> WheelFile:
    try:
        with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
            broken = archive.testzip()
    except zipfile.BadZipFile as error:
        raise InputError(f"is not a wheel: {error}", where=str(source)) from None
    if broken or not wheel.file_name.startswith("drsr-"):
        raise InputError("is damaged" if broken else "is not a wheel of drsr", where=str(source))
    return wheel


def _wheel_link(wheel: WheelFile) -> str:
    name = html.escape(wheel.file_name)
    requires = html.escape(_requires_python(wheel))
    python = f' data-requires-python="{requires}"' if requires else ""
    return f'<a href="{name}#sha256={wheel.sha256}"{python}>{name}</a><br>'


def _requires_python(wheel: WheelFile) -> str:
    with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        head = archive.read(name).decode().partition("\n\n")[0]
    found = re.search(r"^Requires-Python: (.*)$", head, re.MULTILINE)
    return found[1].strip() if found else ""


def _page(title: str, links: list[str]) -> bytes:
    return _PAGE.format(title=html.escape(title), links="\n".join(f"    {link}" for link in links)).encode()
