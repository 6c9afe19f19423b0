"""The manifest of a folder of files: written last, so its existence means that the folder is complete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drsr.backbone.file_hashes import file_sha256, remembered
from drsr.errors import BackboneCorrupt

MANIFEST = "manifest.json"


def write_manifest(folder: Path, about: dict[str, Any]) -> None:
    """Record every file of a folder with its size in bytes and SHA-256, beside what `about` says of the whole."""
    files = {
        path.name: {"sha256": file_sha256(path), "size": path.stat().st_size}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
    text = json.dumps({**about, "files": files}, indent=2, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def check_manifest(folder: Path, *, hint: str, only: Iterable[str] | None = None, quick: bool = True) -> None:
    """Raise BackboneCorrupt unless the files are those of the manifest.

    `only` limits the check to some files. `quick` takes the remembered hash of a file that has not changed since it was
    last hashed; without it every byte is read again.
    """
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
        found = remembered(path, file_sha256, what="sha256") if quick else file_sha256(path)
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
