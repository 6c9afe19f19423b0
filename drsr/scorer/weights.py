"""A trained scorer in one safetensors file: plain arrays, and what they were made from. Never pickle.

The metadata is one JSON text with sorted keys under one name: safetensors writes several names in random order, and the
same scorer must give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from drsr.errors import LayoutMismatch, ScorerCorrupt
from drsr.scorer import linear, trees
from drsr.scorer.ensemble import Ensemble, HarmScale, Normaliser
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.linear import LinearScorer
from drsr.scorer.network import parameter_shapes
from drsr.scorer.set_representation import Parts
from drsr.scorer.stack import StackedScorer
from drsr.scorer.trees import Forest, TreeScorer

FILE_NAME = "scorer.safetensors"
FORMAT = "drsr-scorer/1"
"""Format of the paper's networks. Changes whenever an older reader would misread the file."""
KINDS_FORMAT = "drsr-scorer/2"
"""Format of every other kind, which the metadata names: a reader that knows only networks refuses it."""
_METADATA = "drsr"
_MOST_MEMBERS = 100
_Tensors = dict[str, NDArray[Any]]
_FOREST = {name: np.float64 if name in ("threshold", "value", "baseline") else np.int32 for name in Forest._fields}
_LINEAR = ("mean", "inverse_scale", "weights", "intercept")


def scorer_bytes(scorer: FrozenScorer) -> bytes:
    """Return the file's content: the same for the same scorer, so its SHA-256 is the scorer's identity."""
    metadata, tensors = _taken_apart(scorer)
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in sorted(tensors.items())}
    metadata |= {
        "format": FORMAT if isinstance(scorer, Ensemble) else KINDS_FORMAT,
        "layout_hash": scorer.layout_hash,
        "seeds": scorer.seeds,
        "tensors_sha256": _tensors_sha256(tensors),
    }
    return safetensors_numpy.save(tensors, {_METADATA: json.dumps(metadata, sort_keys=True)})


def _taken_apart(scorer: FrozenScorer) -> tuple[dict[str, Any], _Tensors]:
    """Read a scorer of its kind from metadata and tensors."""
    if isinstance(scorer, Ensemble):
        normaliser = {f"normaliser.{name}": values for name, values in scorer.normaliser._asdict().items()}
        return {
            "harm_mean": scorer.harm_scale.mean,
            "harm_scale": scorer.harm_scale.scale,
            "retained_context": scorer.parts.retained_context,
            "pair_pooling": scorer.parts.pair_pooling,
        }, {**normaliser, **scorer.parameters}
    if isinstance(scorer, TreeScorer):
        return _head("trees", scorer), {"used": scorer.used, **scorer.forest._asdict()}
    if isinstance(scorer, LinearScorer):
        return _head("linear", scorer), {"used": scorer.used, **{name: getattr(scorer, name) for name in _LINEAR}}
    if isinstance(scorer, StackedScorer):
        parts = [_taken_apart(part) for part in scorer.parts]
        tensors = {f"{place}.{name}": tensor for place, (_, own) in enumerate(parts) for name, tensor in own.items()}
        return {"kind": "stack", "parts": [metadata for metadata, _ in parts]}, tensors
    raise TypeError(f"a {type(scorer).__name__} has no file format")


def _head(kind: str, scorer: TreeScorer | LinearScorer) -> dict[str, Any]:
    return {"kind": kind, "layout_columns": scorer.layout_columns, "retained_context": scorer.retained_context}


def read_scorer(data: bytes, layout_hash: str, where: str = FILE_NAME) -> FrozenScorer:
    """Read the scorer in a file's content; raise ScorerCorrupt or LayoutMismatch if something is wrong with it."""
    try:
        tensors = safetensors_numpy.load(data)
        metadata = _metadata(data)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ScorerCorrupt(f"is not a scorer file: {error}", where=where) from None
    if not isinstance(metadata, dict):
        raise ScorerCorrupt("is not a scorer file: its metadata is not an object", where=where)
    if metadata.get("format") not in (FORMAT, KINDS_FORMAT):
        raise ScorerCorrupt(
            f"has format {metadata.get('format')!r}; this version reads {FORMAT!r} and {KINDS_FORMAT!r}",
            where=where,
            hint="install the drsr version that the policy asks for",
        )
    if _tensors_sha256(tensors) != metadata.get("tensors_sha256"):
        raise ScorerCorrupt("its weights have another hash than the one recorded in it", where=where)
    if metadata.get("layout_hash") != layout_hash:
        raise LayoutMismatch(
            f"was trained on feature layout {metadata.get('layout_hash')}, asked to score layout {layout_hash}",
            where=where,
            hint="use the backbone that the policy names, or train a scorer for this one",
        )
    seeds = metadata.get("seeds")
    if (
        not isinstance(seeds, list)
        or not all(type(seed) is int for seed in seeds)
        or not 0 < len(seeds) <= _MOST_MEMBERS
    ):
        raise ScorerCorrupt(f"does not name the seeds of 1 to {_MOST_MEMBERS} members", where=where)
    if metadata["format"] == FORMAT:
        return _ensemble(tensors, metadata, where)
    return _put_together(tensors, metadata, where)


def _metadata(data: bytes) -> dict[str, Any]:
    """Return the metadata in the header, whose length the first eight bytes give; `load` has checked the file's
    structure."""
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
    scales = [metadata.get(name) for name in ("harm_mean", "harm_scale")]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in scales):
        raise ScorerCorrupt("its harm_mean or harm_scale is not a finite number", where=where)
    if not all(type(metadata.get(name)) is bool for name in ("retained_context", "pair_pooling")):
        raise ScorerCorrupt("it does not say which parts of the representation it reads", where=where)
    return Ensemble(
        layout_hash=metadata["layout_hash"],
        seeds=tuple(metadata["seeds"]),
        normaliser=Normaliser(tensors.pop("normaliser.mean"), tensors.pop("normaliser.inverse_scale")),
        harm_scale=HarmScale(metadata["harm_mean"], metadata["harm_scale"]),
        parameters=tensors,
        parts=Parts(metadata["retained_context"], metadata["pair_pooling"]),
    )


def _put_together(tensors: _Tensors, metadata: dict[str, Any], where: str) -> FrozenScorer:
    """Return a scorer of the kind that the metadata names."""
    kind, problem = metadata.get("kind"), None
    found: FrozenScorer
    try:
        head: dict[str, Any] = {"layout_hash": metadata["layout_hash"], "seeds": tuple(metadata["seeds"])}
        if kind == "stack":
            found = StackedScorer(**head, parts=_parts(tensors, metadata, where))
        elif kind in ("trees", "linear"):
            head |= {name: metadata[name] for name in ("layout_columns", "retained_context")}
            head["used"] = _typed(tensors, "used", np.int32)
            if kind == "trees":
                forest = Forest(**{name: _typed(tensors, name, dtype) for name, dtype in _FOREST.items()})
                found = TreeScorer(**head, forest=forest)
                problem = trees.problem_of(found)
            else:
                head |= {name: _typed(tensors, name, np.float64) for name in _LINEAR}
                found = LinearScorer(**head)
                problem = linear.problem_of(found)
        else:
            problem = f"it is of the kind {kind!r}, which this version does not know"
    except (KeyError, TypeError, ValueError, IndexError) as error:
        problem = f"it is not a complete scorer of the kind {kind!r}: {error}"
    if problem is not None:
        raise ScorerCorrupt(problem, where=where)
    return found


def _parts(tensors: _Tensors, metadata: dict[str, Any], where: str) -> tuple[FrozenScorer, ...]:
    shared = {name: metadata[name] for name in ("layout_hash", "seeds")}
    found = []
    for place, part in enumerate(metadata["parts"]):
        prefix = f"{place}."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        read = _put_together if "kind" in part else _ensemble
        found.append(read(own, {**part, **shared}, where))
    if len({part.columns for part in found}) != 1:
        raise ValueError("its parts read different numbers of columns")
    return tuple(found)


def _typed(tensors: _Tensors, name: str, dtype: type[np.generic]) -> NDArray[Any]:
    if tensors[name].dtype != dtype:
        raise TypeError(f"tensor {name} is of type {tensors[name].dtype}")
    return tensors[name]


def _tensors_sha256(tensors: Mapping[str, NDArray[np.float32]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()
