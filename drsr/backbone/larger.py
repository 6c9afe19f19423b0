"""Larger language models by choice: the Q4_K_M files that Qwen publishes for Qwen2.5-Coder-Instruct.

Fetched from the model hub where there is one, or taken from a file, or from a folder of its numbered parts, which are
joined. Whatever the way, the whole must have the SHA-256 of the published file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from drsr.backbone import hub
from drsr.backbone.file_hashes import file_sha256
from drsr.backbone.installing import GgufModel, Report
from drsr.errors import BackboneCorrupt, InputError

_NUMBER = re.compile(r"(?<!\d)(\d+)(?:\.[A-Za-z]\w*)?$")
"""The end of a part's name: its number, and perhaps an extension."""
_BUFFER = 1 << 22


class _Published(NamedTuple):
    repository: str
    file: str
    size: int
    """Bytes of the whole file."""


def take(model: GgufModel, working: Path, source: Path | None, report: Report) -> Path:
    """Return the verified GGUF file: downloaded, or the user's own; parts are joined in `working`."""
    published = _PUBLISHED[model.name]
    if source is None:
        report(f"downloading {published.file} from {published.repository} ({published.size / 1e6:,.0f} MB)")
        return model.with_hash(hub.fetch_file(published.repository, published.file))
    if not source.is_dir():
        _require_size(model, source, source.stat().st_size)
        return model.with_hash(source)
    parts = _numbered_parts(source)
    _require_size(model, source, sum(part.stat().st_size for part in parts.values()), parts)
    report(f"joining {len(parts)} parts of {source}")
    joined = working / published.file
    with joined.open("wb") as whole:
        for part in parts.values():
            with part.open("rb") as file:
                while piece := file.read(_BUFFER):
                    whole.write(piece)
    if file_sha256(joined) != model.gguf_sha256:
        listed = ", ".join(f"{part.name} {file_sha256(part)[:16]}" for part in parts.values())
        raise BackboneCorrupt(
            f"the joined parts do not have the SHA-256 {model.gguf_sha256}: one of them is altered, or is of another "
            f"file. By the beginning of their own SHA-256 they are {listed}",
            where=str(source),
            hint="compare these with the parts where they came from, and get the differing one again",
        )
    return joined


def _numbered_parts(folder: Path) -> dict[int, Path]:
    """The files of a folder whose names end in a number, by number; InputError where one is missing or there twice."""
    found: defaultdict[int, list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        if path.is_file() and (match := _NUMBER.search(path.name)):
            found[int(match[1])].append(path)
    if not found:
        raise InputError("no file here has a name that ends in a number", where=str(folder), hint=_HINT)
    twice = [", ".join(path.name for path in paths) for paths in found.values() if len(paths) > 1]
    if twice:
        raise InputError(f"two files have one number: {twice[0]}", where=str(folder), hint=_HINT)
    missing = sorted(set(range(min(1, *found), max(found) + 1)) - found.keys())
    if missing:
        named = ", ".join(map(str, missing))
        raise InputError(f"part {named} of at least {max(found)} is missing", where=str(folder), hint=_HINT)
    return {number: found[number][0] for number in sorted(found)}


def _require_size(model: GgufModel, source: Path, size: int, parts: dict[int, Path] | None = None) -> None:
    """Said before gigabytes are read: a last part that is missing leaves no gap in the numbers."""
    expected = _PUBLISHED[model.name].size
    if size == expected:
        return
    held = f"{size:,} bytes"
    if parts:
        first, last = min(parts), max(parts)
        held = f"parts {first} to {last} with {size:,} bytes together"
    missing = f"{expected - size:,} bytes are missing" if size < expected else f"{size - expected:,} bytes too many"
    raise BackboneCorrupt(
        f"{held}, the file of {model.name} has {expected:,}: {missing}", where=str(source), hint=_HINT
    )


_HINT = "give the GGUF file, or a folder with all its parts, numbered in order, and nothing else that is numbered"
_PUBLISHED = {
    "qwen2.5-coder-0.5b": _Published(
        "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 491_400_064
    ),
    "qwen2.5-coder-1.5b": _Published(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1_117_320_768
    ),
}


def _model(name: str, what: str, gguf_sha256: str, identity: str, room: str) -> GgufModel:
    source = f"{_PUBLISHED[name].repository}, {_PUBLISHED[name].file}"
    return GgufModel(name, what, "Apache-2.0", "Hugging Face hub", source, gguf_sha256, identity, room, take)


MODELS = {
    model.name: model
    for model in (
        _model(
            "qwen2.5-coder-0.5b",
            "Qwen2.5-Coder-0.5B-Instruct, 24 layers, window 32,768",
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            "ec78abed6fedb9cf62ca4cb24b7267c404ad23baeac147b6bc3d0a819b9419bf",
            "3 GB",
        ),
        _model(
            "qwen2.5-coder-1.5b",
            "Qwen2.5-Coder-1.5B-Instruct, 28 layers, window 32,768",
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            "2c29e430fa8265702ed06d1d5409e86c30525195d66999a1ca266b553e45d317",
            "8 GB",
        ),
    )
}
