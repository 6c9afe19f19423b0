"""A language model that is converted once from a GGUF file, in the cache folder: all of it or nothing.

`fetch` takes the file from where the model's own module says, checks its SHA-256, converts it (`gguf_conversion.py`
says how, and how the tokenizer is made) and moves the finished folder into the cache folder. The folder appears as a
whole or not at all, so a crash or a second process at the same time does no harm.

What comes out has one identity on every machine, and that is pinned too, where a conversion was checked: a policy that
names this backbone on one machine finds the same backbone on another.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from drsr.backbone.file_hashes import file_sha256, remembered
from drsr.backbone.gguf_conversion import convert_gguf, require_gguf
from drsr.backbone.model_folder import CONFIG_FILE, backbone_identity
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.errors import BackboneCorrupt, BackboneError, BackboneNotFetched, InputError
from drsr.settings import cache_folder

Report = Callable[[str], None]
"""Takes one line of progress."""

MANIFEST = "manifest.json"
"""Of a folder of files: written last, so its existence means that the folder is complete."""
_CONVERSION = "1"
"""Part of the folder's name: a later conversion with another result does not meet the files of this one."""
_ABANDONED_AFTER_S = 24 * 3600
"""An unfinished folder of this age was left by a process that was killed."""


class GgufModel(NamedTuple):
    """A named language model."""

    name: str
    what: str
    """In a few words, for the list."""
    licence: str
    origin: str
    """Origin and name of its file, in words for people."""
    source: str
    gguf_sha256: str
    identity: str | None
    """The backbone identity that the conversion must give; None where nobody has pinned it yet."""
    room: str
    """Bytes that must be free in the cache folder."""
    take: Callable[[GgufModel, Path, Path | None, Report], Path]
    """Returns the verified GGUF file. Takes the model, a folder to write to, the user's own source, and a report."""

    @property
    def hint(self) -> str:
        return f"drsr backbone fetch {self.name}"

    @property
    def folder(self) -> Path:
        """Return the folder of the converted model, whether it exists or not."""
        return cache_folder() / "backbones" / f"{self.name}.{_CONVERSION}"

    @property
    def is_fetched(self) -> bool:
        """Return whether there is a finished conversion, without looking into its files."""
        return (self.folder / MANIFEST).is_file()

    def checked_folder(self, *, tokenizer_only: bool = False) -> Path:
        """Return the folder of the converted model. Files that did not change since they were last hashed are not
        read."""
        if not self.folder.is_dir():
            raise BackboneNotFetched(f"the backbone {self.name} is not on this machine yet", hint=self.hint)
        check_manifest(self.folder, hint=self.hint, only=[TOKENIZER_FILE, CONFIG_FILE] if tokenizer_only else None)
        return self.folder

    def with_hash(self, path: Path) -> Path:
        """Return the path, if the file there is the model's; raise BackboneCorrupt otherwise."""
        return require_sha256(path, self.gguf_sha256, hint=f"give the file of {self.source}")


def fetch(
    model: GgufModel, *, source: Path | None = None, force: bool = False, report: Report = lambda line: None
) -> Path:
    """Make sure that the model is present and intact, and return its folder. Does nothing if it already is.

    `source` is what to take instead of a download. `force` converts again in any case.
    """
    if source is not None and not source.exists():
        raise InputError("there is no such file", where=str(source))
    if not force and model.folder.is_dir():
        try:
            return model.checked_folder()
        except BackboneCorrupt as damage:
            report(f"the copy in the cache is damaged, making a new one ({damage.what})")
    try:
        _make(model, source, force, report)
    except OSError as error:
        raise BackboneError(
            f"cannot write the converted model: {error}",
            where=str(model.folder.parent),
            hint=f"DRSR_CACHE names another folder; {model.room} must be free there",
        ) from error
    report(f"{model.name} is in {model.folder}")
    return model.folder


def require_sha256(path: Path, expected: str, *, hint: str) -> Path:
    found = file_sha256(path)
    if found != expected:
        raise BackboneCorrupt(f"SHA-256 is {found}, expected {expected}", where=str(path), hint=hint)
    return path


def _make(model: GgufModel, source: Path | None, force: bool, report: Report) -> None:
    """Everything happens in a working folder beside the final one, so that a rename can finish it."""
    require_gguf()
    parent = model.folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(model, parent)
    with tempfile.TemporaryDirectory(prefix=f"{model.name}.", suffix=".partial", dir=parent) as name:
        working = Path(name)
        gguf = model.take(model, working, source, report)
        report("converting it to safetensors (once)")
        finished = working / "converted"
        finished.mkdir()
        _convert(model, gguf, finished)
        if force or not _is_intact(model):  # without force another process may have been quicker: leave it its folder
            _swap_in(model, finished, aside=working / "replaced")


def _convert(model: GgufModel, gguf: Path, into: Path) -> None:
    convert_gguf(gguf, into)
    identity = backbone_identity(into, HfTokenizer.from_folder(into).identity)
    if model.identity is not None and identity != model.identity:
        raise BackboneCorrupt(
            f"the conversion gave the identity {identity} instead of {model.identity}",
            hint="policies made for this backbone would not fit; install the versions of constraints.txt",
        )
    about = {"name": model.name, "identity": identity, "licence": model.licence, "source": model.source}
    write_manifest(into, {**about, "source_sha256": model.gguf_sha256})


def _is_intact(model: GgufModel) -> bool:
    try:
        model.checked_folder()
    except (BackboneNotFetched, BackboneCorrupt):
        return False
    return True


def _swap_in(model: GgufModel, finished: Path, *, aside: Path) -> None:
    """Put the finished folder in place; an older one is moved aside."""
    with contextlib.suppress(FileNotFoundError):
        model.folder.rename(aside)
    try:
        finished.rename(model.folder)
    except OSError:
        # Between the two renames another process put its copy there: as good as ours, if it is intact.
        model.checked_folder()


def _remove_abandoned(model: GgufModel, parent: Path) -> None:
    for leftover in parent.glob(f"{model.name}.*.partial"):
        if time.time() - leftover.stat().st_mtime > _ABANDONED_AFTER_S:
            shutil.rmtree(leftover)


def write_manifest(folder: Path, about: dict[str, Any]) -> None:
    """Record the size in bytes and SHA-256 of every file in a folder, along with `about`, which describes the whole."""
    files = {
        path.name: {"sha256": file_sha256(path), "size": path.stat().st_size}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
    text = json.dumps({**about, "files": files}, indent=2, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def check_manifest(folder: Path, *, hint: str, only: Iterable[str] | None = None) -> None:
    """Raise BackboneCorrupt unless the files, or `only` some of them, are those of the manifest."""
    listed = _read_manifest(folder, hint)
    for name in listed if only is None else only:
        if name not in listed:
            raise BackboneCorrupt(f"the manifest does not list {name}", where=str(folder / MANIFEST), hint=hint)
        path = folder / name
        if not path.is_file():
            raise BackboneCorrupt("the file is missing", where=str(path), hint=hint)
        size, expected = path.stat().st_size, listed[name]
        if size != expected["size"]:
            raise BackboneCorrupt(f"{size} bytes, the manifest says {expected['size']}", where=str(path), hint=hint)
        found = remembered(path, file_sha256, what="sha256")
        if found != expected["sha256"]:
            raise BackboneCorrupt(
                f"SHA-256 is {found}, the manifest says {expected['sha256']}", where=str(path), hint=hint
            )


def _read_manifest(folder: Path, hint: str) -> dict[str, dict[str, Any]]:
    """The `files` of a manifest, each with `size` and `sha256`."""
    path = folder / MANIFEST
    try:
        files = json.loads(path.read_bytes())["files"]
        return {
            str(name): {"size": int(entry["size"]), "sha256": str(entry["sha256"])} for name, entry in files.items()
        }
    except FileNotFoundError as error:
        raise BackboneCorrupt("there is no manifest, the folder is incomplete", where=str(path), hint=hint) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneCorrupt(f"the manifest cannot be read ({error!r})", where=str(path), hint=hint) from error
