"""Images are built by buildah: for real where it is installed, with a base of one file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import images
from scripts.code_map import ROOT
from scripts.images import IMAGES, Failed, Image, buildah, main
from tests.docker.test_images import DOCKERFILES, of

NAME = "tried-by-a-test"
able = pytest.mark.skipif(
    shutil.which("buildah") is None or os.geteuid() != 0,
    reason="buildah is not installed, or this is not root; on Debian: apt-get install buildah",
)


def test_every_dockerfile_is_built_in_all_its_variants() -> None:
    assert {image.dockerfile for image in IMAGES.values()} == {path.name for path in DOCKERFILES}
    for image in IMAGES.values():
        stages = [line.split(" AS ")[-1] for line in of(ROOT / "docker" / image.dockerfile, "FROM") if " AS " in line]
        assert image.target is None or image.target in stages
    targets = {image.target for image in IMAGES.values()} - {None}
    assert targets == {"cpu", "cuda"}


@pytest.mark.parametrize(
    ("arguments", "programs", "said"),
    [
        (["decide", "decyde"], ["buildah", "debootstrap"], "there is no image 'decyde'; the images are decide, server"),
        ([], ["debootstrap"], "buildah not installed; on Debian: apt-get install buildah"),
        ([], [], "buildah and debootstrap not installed"),
        (["--base", "python:3.11"], [], "buildah not installed"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_built(
    arguments: list[str],
    programs: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for program in programs:
        (tmp_path / program).write_text("#!/bin/sh\necho it was called >&2\nexit 1\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(arguments) == 1
    assert said in capsys.readouterr().err


def test_only_root_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buildah").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Failed, match="root has to do this"):
        images.require(["decide"], stand_in=False)


@able
def test_an_image_is_built_on_a_base_and_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same calls as the real ones; the base holds a shell and what it links to."""
    folder = tmp_path / "docker"
    folder.mkdir()
    (folder / "tried.Dockerfile").write_text('ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN echo "built" > /said\n')
    monkeypatch.setattr(images, "ROOT", tmp_path)
    monkeypatch.setitem(
        IMAGES, NAME, Image("tried.Dockerfile", None, ("/bin/sh", "-c", "read said < /said; echo $said"))
    )
    container = buildah("from", "scratch")
    for path in needed_by(Path("/bin/sh")):
        buildah("copy", "--quiet", container, str(path.resolve()), str(path))
    buildah("commit", "--quiet", "--rm", container, f"localhost/{NAME}-base")
    try:
        said = images.made(NAME, f"localhost/{NAME}-base", [])
        assert re.fullmatch(rf"localhost/drsr-{NAME}: [1-9][\d.]* MB in \d+ s; /bin/sh .*: built", said), said
        (folder / "tried.Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN exit 7\n")
        with pytest.raises(Failed, match="buildah .* build"):
            images.made(NAME, f"localhost/{NAME}-base", [])
    finally:
        buildah("rmi", "--force", f"localhost/drsr-{NAME}", f"localhost/{NAME}-base")


def needed_by(program: Path) -> list[Path]:
    """A program, and the libraries that it links to."""
    said = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    return [program, *(Path(word) for word in said.split() if word.startswith("/"))]
