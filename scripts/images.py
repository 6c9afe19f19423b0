"""Build the images of docker/ without a container engine: `make images`, as root, with buildah and debootstrap.

Where no registry can be reached there is no `python:3.11` to build on. Then a stand-in base is made from Debian's own
packages and every Dockerfile is built on it, so that its instructions have been carried out; a release is built on the
real base. Each image is asked for its version at the end.

    make images                                                every image
    make images IMAGES=decide MIRROR=http://HOST/debian        one of them, from another mirror of Debian
    make images BUILD='--volume /etc/pip.conf:/etc/pip.conf'   with what pip needs here, mounted while it builds
    make images BASE_IMAGE=python@sha256:...                   on a base that can be pulled
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BASE = "localhost/drsr-base"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python-is-python3", "python3", "python3-venv")
STORAGE = ("--storage-driver", "vfs")
"""Works on any filesystem, also inside a container."""
ISOLATION = ("--isolation", "chroot")
"""Needs neither an engine nor rights beyond root's."""


class Image(NamedTuple):
    dockerfile: str
    target: str | None
    check: tuple[str, ...]
    """A command that its installation must be able to run."""


IMAGES = {
    "decide": Image("decide.Dockerfile", None, ("drsr", "--version")),
    "server": Image("server.Dockerfile", None, ("prefect", "--version")),
    "worker-cpu": Image("worker.Dockerfile", "cpu", ("python", "-c", "import drsr.flows.nightly, drsr.expectations")),
    "worker-cuda": Image("worker.Dockerfile", "cuda", ("drsr", "--version")),
}


class Failed(Exception):
    """Something is missing, or a command failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make images", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="IMAGE", help=f"of {', '.join(IMAGES)} (default: all)")
    parser.add_argument("--base", metavar="IMAGE", help="the base to build on (default: a stand-in made from Debian)")
    parser.add_argument("--mirror", metavar="URL", help="of Debian, for the stand-in (default: debootstrap's own)")
    parser.add_argument("--build", default="", metavar="OPTIONS", help="more options for buildah build")
    options = parser.parse_args(arguments)
    try:
        names = options.names or list(IMAGES)
        require(names, stand_in=options.base is None)
        base = options.base or stand_in_base(options.mirror)
        for name in names:
            print(made(name, base, shlex.split(options.build)), flush=True)
    except Failed as failure:
        print(f"make images: {failure}", file=sys.stderr)
        return 1
    return 0


def require(names: Sequence[str], *, stand_in: bool) -> None:
    """Failed where a name is unknown, a program is missing, or this is not root."""
    unknown = [name for name in names if name not in IMAGES]
    if unknown:
        raise Failed(f"there is no image {unknown[0]!r}; the images are {', '.join(IMAGES)}")
    needed = ("buildah", "debootstrap") if stand_in else ("buildah",)
    missing = [name for name in needed if shutil.which(name) is None]
    if missing:
        raise Failed(f"{' and '.join(missing)} not installed; on Debian: apt-get install {' '.join(missing)}")
    if os.geteuid() != 0:
        raise Failed("root has to do this, because a base is unpacked with its owners; use sudo make images")


def stand_in_base(mirror: str | None) -> str:
    """Return the name of a base made from Debian's packages, which is kept for the next time."""
    if not buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            tree, archive = Path(name, "tree"), Path(name, "tree.tar")
            packages = f"--include={','.join(PACKAGES)}"
            run("debootstrap", "--variant=minbase", packages, SUITE, str(tree), *([mirror] if mirror else []))
            shutil.rmtree(tree / "var" / "cache" / "apt")
            run("tar", "--numeric-owner", "-C", str(tree), "-cf", str(archive), ".")
            container = buildah("from", "scratch")
            buildah("add", "--quiet", container, str(archive), "/")
            buildah("commit", "--quiet", "--rm", container, BASE)
        print(f"{BASE}: {size(BASE)} in {time.monotonic() - started:.0f} s, from Debian {SUITE}", flush=True)
    return BASE


def made(name: str, base: str, more: Sequence[str]) -> str:
    """Build an image and let it run its check; returns how long it took, how large it is and what it said."""
    image, tag, started = IMAGES[name], f"localhost/drsr-{name}", time.monotonic()
    options = ["--build-arg", f"BASE_IMAGE={base}", "--file", f"docker/{image.dockerfile}", "--tag", tag, *more]
    if image.target is not None:
        options += ["--target", image.target]
    run("buildah", *STORAGE, "build", *ISOLATION, "--format", "docker", *options, ".")
    seconds = time.monotonic() - started
    container = buildah("from", "--pull-never", tag)
    try:
        said = buildah("run", *ISOLATION, container, "--", *image.check)
    finally:
        buildah("rm", container)
    return f"{tag}: {size(tag)} in {seconds:.0f} s; {shlex.join(image.check)}: {said or 'ok'}"


def size(image: str) -> str:
    """Return the size of an image as buildah tells it, such as `61.3 MB`. What it has in the image itself is 0."""
    return buildah("images", "--format", "{{.Size}}", image)


def buildah(*arguments: str) -> str:
    """Return the output of buildah; its complaints go where ours do."""
    command = ["buildah", *STORAGE, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)} ended with exit code {done.returncode}")
    return done.stdout.strip()


def run(*command: str) -> None:
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        raise Failed(f"{shlex.join(command)} failed; its own words are above")


if __name__ == "__main__":
    sys.exit(main())
