"""A trained scorer in one safetensors file: normaliser, members, and what they were made from. Never pickle.

The metadata is one JSON text with sorted keys under one name: safetensors writes several names in random order, and the
same scorer must give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from drsr.errors import LayoutMismatch, ScorerCorrupt
from drsr.scorer.ensemble import Ensemble, HarmScale, Normaliser
from drsr.scorer.network import parameter_shapes
from drsr.scorer.set_representation import Parts

FILE_NAME = "scorer.safetensors"
FORMAT = "drsr-scorer/1"
"""Changes whenever an older reader would misread the file."""
_METADATA = "drsr"


def scorer_bytes(ensemble: Ensemble) -> bytes:
    """The file's content: the same for the same scorer, so its SHA-256 is the scorer's identity."""
    tensors = {
        "normaliser.mean": ensemble.normaliser.mean,
        "normaliser.inverse_scale": ensemble.normaliser.inverse_scale,
        **ensemble.parameters,
    }
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in sorted(tensors.items())}
    metadata = {
        "format": FORMAT,
        "layout_hash": ensemble.layout_hash,
        "seeds": ensemble.seeds,
        "harm_mean": ensemble.harm_scale.mean,
        "harm_scale": ensemble.harm_scale.scale,
        "retained_context": ensemble.parts.retained_context,
        "pair_pooling": ensemble.parts.pair_pooling,
        "tensors_sha256": _tensors_sha256(tensors),
    }
    return safetensors_numpy.save(tensors, {_METADATA: json.dumps(metadata, sort_keys=True)})


def save_scorer(path: Path, ensemble: Ensemble) -> str:
    """Write the file, whole or not at all; returns its SHA-256."""
    data = scorer_bytes(ensemble)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return hashlib.sha256(data).hexdigest()


def load_scorer(path: Path, layout_hash: str, sha256: str | None = None) -> Ensemble:
    """Read a scorer for features of this layout; `sha256` is the file's expected hash, where somebody recorded it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScorerCorrupt(f"cannot be read: {error.strerror}", where=str(path)) from None
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise ScorerCorrupt(f"has SHA-256 {found}, expected {sha256}", where=str(path), hint="restore it from a copy")
    return read_scorer(data, layout_hash, where=str(path))


def read_scorer(data: bytes, layout_hash: str, where: str = FILE_NAME) -> Ensemble:
    """The scorer in a file's content; ScorerCorrupt or LayoutMismatch says what is wrong with it."""
    try:
        tensors = safetensors_numpy.load(data)
        metadata = _metadata(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ScorerCorrupt(f"is not a scorer file: {error}", where=where) from None
    if metadata.get("format") != FORMAT:
        raise ScorerCorrupt(
            f"has format {metadata.get('format')!r}; this version reads {FORMAT!r}",
            where=where,
            hint="install the drsr version that the policy asks for",
        )
    if _tensors_sha256(tensors) != metadata.get("tensors_sha256"):
        raise ScorerCorrupt("its weights have another hash than the one recorded in it", where=where)
    if metadata["layout_hash"] != layout_hash:
        raise LayoutMismatch(
            f"was trained on feature layout {metadata['layout_hash']}, asked to score layout {layout_hash}",
            where=where,
            hint="use the backbone that the policy names, or train a scorer for this one",
        )
    return _ensemble(tensors, metadata, where)


def _metadata(data: bytes) -> dict[str, Any]:
    """The metadata in the header, whose length the first eight bytes give; `load` has checked the file's structure."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata: dict[str, Any] = json.loads(header["__metadata__"][_METADATA])
    return metadata


def _ensemble(tensors: dict[str, NDArray[np.float32]], metadata: dict[str, Any], where: str) -> Ensemble:
    columns = tensors["normaliser.mean"].shape if "normaliser.mean" in tensors else (0,)
    expected = {
        "normaliser.mean": columns,
        "normaliser.inverse_scale": columns,
        **parameter_shapes(len(metadata["seeds"]), columns[0]),
    }
    for name, shape in expected.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            raise ScorerCorrupt(f"tensor {name} is missing or not finite float32 of shape {shape}", where=where)
    return Ensemble(
        layout_hash=metadata["layout_hash"],
        seeds=tuple(metadata["seeds"]),
        normaliser=Normaliser(tensors.pop("normaliser.mean"), tensors.pop("normaliser.inverse_scale")),
        harm_scale=HarmScale(metadata["harm_mean"], metadata["harm_scale"]),
        parameters=tensors,
        parts=Parts(metadata["retained_context"], metadata["pair_pooling"]),
    )


def _tensors_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
