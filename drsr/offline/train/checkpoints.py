"""The state of a training run on disk, so that a killed run continues where it stopped: one safetensors file.

Tensors hold weights, both AdamW moments and the best weights so far; one JSON text holds the rest. The only random
numbers of a run are its initial weights, so there is no generator to keep. The file names the inputs it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from safetensors import SafetensorError

from drsr.errors import InputError
from drsr.files import write_atomically
from drsr.offline.train.examples import ExampleFrame

if TYPE_CHECKING:  # importing torch takes seconds, and most who come here want a hash
    from torch import Tensor

_FORMAT = "drsr-training/2"
_METADATA = "drsr"


class Checkpoint(NamedTuple):
    """A run after some epoch."""

    tensors: dict[str, Tensor]
    progress: dict[str, Any]
    """JSON values."""


def save_checkpoint(path: Path, fingerprint: str, checkpoint: Checkpoint) -> None:
    """Write it, whole or not at all."""
    from safetensors import torch as safetensors_torch

    head = {"format": _FORMAT, "fingerprint": fingerprint, "progress": checkpoint.progress}
    tensors = {name: tensor.detach().contiguous() for name, tensor in checkpoint.tensors.items()}
    data = safetensors_torch.save(tensors, {_METADATA: json.dumps(head, sort_keys=True)})
    write_atomically(path, data)


def load_checkpoint(path: Path, fingerprint: str) -> Checkpoint | None:
    """Return the stored run, or None. Raise InputError if it belongs to another run or is unreadable."""
    from safetensors import torch as safetensors_torch

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    hint = "delete the file to start the training anew"
    try:
        tensors = safetensors_torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        head = json.loads(header["__metadata__"][_METADATA])
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"is not a training checkpoint: {error}", where=str(path), hint=hint) from None
    if head.get("format") != _FORMAT or head.get("fingerprint") != fingerprint:
        raise InputError("belongs to a run on other data or parameters", where=str(path), hint=hint)
    return Checkpoint(tensors, head["progress"])


def fingerprint_of(frames: Mapping[str, ExampleFrame], configuration: str) -> str:
    """Return the SHA-256 over everything that determines a run."""
    digest = hashlib.sha256(configuration.encode())
    for name, frame in sorted(frames.items()):
        digest.update(f"\n{name} {frame_hash(frame)}".encode())
    return digest.hexdigest()


def frame_hash(frame: ExampleFrame) -> str:
    """Return the SHA-256 over every value of a frame, in its order."""
    digest = hashlib.sha256()
    for field in fields(frame):
        value = getattr(frame, field.name)
        digest.update(f"\n{field.name} ".encode())
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()
