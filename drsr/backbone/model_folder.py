"""The folder of a language model: its settings, its weights, and the hash that names it.

The hash is over what determines its numbers: every tensor, the settings of config.json, the tokenizer. It is not over
file names, modification times, the order of tensors in a file or the version of the program that wrote it, so a copy of
a model keeps its name and a model with one other weight does not.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

from drsr.backbone.file_hashes import remembered
from drsr.errors import BackboneCorrupt, BackboneError

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"

_WITHOUT_EFFECT = frozenset(
    {"_name_or_path", "_commit_hash", "transformers_version", "dtype", "torch_dtype", "use_cache", "architectures"}
)
"""Keys of config.json that say where a model came from or how to hold it, not what it computes."""

_ADAPTER_FILE = "adapter_config.json"
_NAMED_WEIGHTS = "transformers_weights"
"""A key of config.json that makes newer versions of transformers load another file."""

_INT8_VERSION = "int8 rows/1"
"""Changes whenever the same weights would be rounded otherwise."""

_LARGEST_HEADER = 100_000_000
"""Bytes: the limit of the safetensors format itself."""


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that transformers would load from a folder; pickled weights are never looked at.

    What is hashed is what is loaded: BackboneCorrupt for whatever would make transformers load other files.
    """
    _refuse_other_weights(folder)
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    index = folder / WEIGHTS_INDEX_FILE
    if not index.is_file():
        raise BackboneError(
            f"no weights: neither {WEIGHTS_FILE} nor {WEIGHTS_INDEX_FILE} is there",
            where=str(folder),
            hint="only safetensors are loaded, never pickled .bin files; convert the model with save_pretrained",
        )
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackboneCorrupt(f"not an index of weights ({error!r})", where=str(index)) from error
    strange = [name for name in names if not isinstance(name, str) or Path(name).name != name or "\\" in name]
    if strange:
        raise BackboneCorrupt(
            f"names weights in another folder: {strange[0]!r}",
            where=str(index),
            hint="files of weights belong next to their index; get the model again",
        )
    files = [folder / name for name in names]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BackboneCorrupt(f"of {len(files)} files of weights these are missing: {missing}", where=str(folder))
    return files


def _refuse_other_weights(folder: Path) -> None:
    """Raise BackboneCorrupt if the folder makes transformers load other weights than those that its identity is made
    of."""
    if (folder / _ADAPTER_FILE).exists():
        raise BackboneCorrupt(
            f"holds an adapter ({_ADAPTER_FILE}), whose weights would be loaded and are not part of its identity",
            where=str(folder),
            hint="merge the adapter into the weights and save the model again",
        )
    if (folder / CONFIG_FILE).exists() and _NAMED_WEIGHTS in read_config(folder):
        raise BackboneCorrupt(
            f"names its own file of weights ({_NAMED_WEIGHTS})",
            where=str(folder / CONFIG_FILE),
            hint=f"call the file {WEIGHTS_FILE} and take the key out",
        )


def read_config(folder: Path) -> dict[str, Any]:
    """Return the parsed config.json of a model."""
    path = folder / CONFIG_FILE
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise BackboneError(f"not a model: there is no {CONFIG_FILE}", where=str(folder)) from error
    except ValueError as error:
        raise BackboneCorrupt(f"not JSON ({error})", where=str(path)) from error
    if not isinstance(config, dict):
        raise BackboneCorrupt("not a JSON object", where=str(path))
    return config


def read_window(folder: Path) -> int:
    """Return how many tokens the model can read at once, by its config.json."""
    config = read_config(folder)
    language = config.get("text_config")  # the language part of a model that also sees
    settings = language if isinstance(language, dict) else config
    window = settings.get("max_position_embeddings", settings.get("n_positions"))
    if not isinstance(window, int):
        raise BackboneError("it does not say max_position_embeddings", where=str(folder / CONFIG_FILE))
    return window


def backbone_identity(folder: Path, tokenizer_identity: str) -> str:
    """Return the SHA-256 over weights, settings and tokenizer of the model in a folder."""
    tensors = sorted(remembered(file, tensors_sha256, what="tensors") for file in weight_files(folder))
    parts = {"config": _settings(read_config(folder)), "tensors": tensors, "tokenizer": tokenizer_identity}
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def int8_identity(identity: str) -> str:
    """Return the identity of a backbone with weights rounded to 8 bits (int8.py), given that of the backbone itself."""
    return hashlib.sha256(f"drsr {_INT8_VERSION} {identity}".encode()).hexdigest()


def tensors_sha256(path: Path) -> str:
    """Return the SHA-256 over name, dtype, shape and bytes of every tensor in a safetensors file, in the order of their
    names."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        header, data_start = _read_header(file, path)
        for name in sorted(header):
            begin, end = header[name]["data_offsets"]
            label = [name, header[name]["dtype"], header[name]["shape"], end - begin]
            digest.update(json.dumps(label, separators=(",", ":")).encode("ascii"))
            file.seek(data_start + begin)
            _update(digest, file, end - begin)
    return digest.hexdigest()


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    """The description of every tensor, and where in the file their bytes start."""
    length = int.from_bytes(file.read(8), "little")
    size = path.stat().st_size
    if size < 8 or length > min(size - 8, _LARGEST_HEADER):
        raise BackboneCorrupt("cut short, or not a safetensors file", where=str(path))
    try:
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise BackboneCorrupt(
            f"the header of the safetensors file cannot be read ({error!r})", where=str(path)
        ) from error
    if 8 + length + end != size:
        raise BackboneCorrupt(f"{size} bytes, its header says {8 + length + end}", where=str(path))
    return header, 8 + length


def _update(digest: Any, file: BinaryIO, count: int) -> None:
    """Hash the next `count` bytes of a file without holding them all."""
    while count:
        chunk = file.read(min(count, 1 << 20))
        if not chunk:
            raise BackboneCorrupt("cut short while it was being read", where=str(file.name))
        digest.update(chunk)
        count -= len(chunk)


def _settings(config: Any) -> Any:
    """A config without the keys that have no effect, also inside its sub-configs."""
    if not isinstance(config, dict):
        return config
    return {key: _settings(value) for key, value in config.items() if key not in _WITHOUT_EFFECT}
