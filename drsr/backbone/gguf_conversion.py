"""A GGUF file as a folder that transformers loads: config.json, tokenizer.json, safetensors in fp32.

Two families can be converted: Llama with SmolLM's tokenizer, and Qwen2. Written with `gguf` and numpy alone, so that
the bytes of the weights do not depend on a version of torch: scale times integer plus offset, one numpy operation each.
They are bit for bit those of transformers' own GGUF reader (tested).

Two things are done otherwise than there. The tokenizer: the file says that its pre-tokenizer is `smollm`, which
isolates every digit and then splits as GPT-2 does. transformers does the second step only, and so cuts the white space
before a number in another place: two spaces and a digit become three tokens where the model was trained with two. We do
both steps, as the model's own tokenizer does. And config.json is written out here, so that it does not change
with the version of transformers that happens to be installed.

A file may hold the output matrix beside the embedding though both are one matrix, rounded twice: then the one with more
bits is kept, once, for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsr.backbone.model_folder import CONFIG_FILE, WEIGHTS_FILE
from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.errors import BackboneError, MissingExtra

_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN, _OWN_TOKEN = 3, 4
"""The token types of GGUF that mark special tokens, and added ones that are not special, such as `<tool_call>`."""
_EMBEDDING, _OUTPUT = "token_embd.weight", "output.weight"
_SAME_MATRIX = 0.2
"""Largest difference between two roundings of one matrix, relative to its root mean square: those of the known files
are 0.04 and 0.07 apart, two unrelated matrices of one size 1.4."""
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern by which Qwen2 cuts a text into words; each digit is a word by itself."""
_FAMILIES = {"llama": "smollm", "qwen2": "qwen2"}
"""By architecture the pre-tokenizer that is known for it."""


def convert_gguf(gguf_file: Path, folder: Path) -> None:
    """Write the model of a GGUF file into an existing folder; the output bytes depend on the file alone."""
    reader = require_gguf().GGUFReader(gguf_file)
    fields = _Fields(reader, str(gguf_file))
    architecture = fields["general.architecture"]
    for key, expected in (
        ("general.architecture", tuple(_FAMILIES)),
        ("tokenizer.ggml.pre", (_FAMILIES.get(architecture),)),
    ):
        if fields[key] not in expected:
            said = " and ".join(repr(one) for one in expected)
            raise BackboneError(f"{key} is {fields[key]!r}, only {said} can be converted", where=str(gguf_file))
    config = _config(fields, architecture)
    sources = {tensor.name: tensor for tensor in reader.tensors}
    if _EMBEDDING not in sources:
        raise BackboneError(f"the file has no tensor {_EMBEDDING}", where=str(gguf_file))
    embedding = _kept_embedding(sources)
    if embedding is not None:
        sources |= {_EMBEDDING: embedding}
        sources.pop(_OUTPUT, None)
    _write_json(folder / CONFIG_FILE, config | {"tie_word_embeddings": embedding is not None})
    _write_json(folder / TOKENIZER_FILE, _tokenizer_spec(fields, architecture))
    _write_tensors(folder / WEIGHTS_FILE, sources, fields, architecture)


def require_gguf() -> ModuleType:
    """Return the package `gguf`. It is required before 93 MB are downloaded that could not be converted without it."""
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise MissingExtra("gguf", "backbone", needed_for="converting a GGUF file") from error
    module: ModuleType = gguf
    return module


class _Fields:
    """The metadata of a GGUF file by key."""

    def __init__(self, reader: Any, where: str) -> None:
        self._fields, self._where = reader.fields, where

    def __getitem__(self, key: str) -> Any:
        if key not in self._fields:
            raise BackboneError(f"the file does not say {key}", where=self._where)
        return self._fields[key].contents()


def _config(fields: _Fields, architecture: str) -> dict[str, Any]:
    heads, size = fields[f"{architecture}.attention.head_count"], fields[f"{architecture}.embedding_length"]
    shared = {
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "dtype": "float32",
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": size,
        "intermediate_size": fields[f"{architecture}.feed_forward_length"],
        "max_position_embeddings": fields[f"{architecture}.context_length"],
        "model_type": architecture,
        "num_attention_heads": heads,
        "num_hidden_layers": fields[f"{architecture}.block_count"],
        "num_key_value_heads": fields[f"{architecture}.attention.head_count_kv"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": fields[f"{architecture}.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": fields[f"{architecture}.rope.freq_base"], "rope_type": "default"},
        "tie_word_embeddings": True,
    }
    if architecture == "llama":
        own = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "head_dim": size // heads}
        own |= {"mlp_bias": False, "vocab_size": fields["llama.vocab_size"]}
    else:
        own = {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": False}
        own |= {"vocab_size": len(fields["tokenizer.ggml.tokens"])}
    return dict(sorted((shared | own).items()))


def _tokenizer_spec(fields: _Fields, architecture: str) -> dict[str, Any]:
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    is_qwen = architecture == "qwen2"
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": token, **plain, "special": kind == _CONTROL_TOKEN}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind == _CONTROL_TOKEN or (kind == _OWN_TOKEN and is_qwen)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not is_qwen}
    words = {"type": "Split", "pattern": {"Regex": _QWEN_WORDS}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if is_qwen else None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [words if is_qwen else {"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
        },
    }


def _kept_embedding(sources: dict[str, Any]) -> Any | None:
    """The matrix that is both embedding and output: the only one there is, or the one with more bits of two that are
    the same but for rounding. None where they are two."""
    embedding, output = sources[_EMBEDDING], sources.get(_OUTPUT)
    if output is None:
        return embedding
    dequantize = require_gguf().dequantize
    difference = total = 0.0
    for start in range(0, len(embedding.data), 4096):  # rows at a time: the whole of both would take gigabytes
        one, other = (
            dequantize(tensor.data[start : start + 4096], tensor.tensor_type) for tensor in (embedding, output)
        )
        difference += float(np.square(one - other, dtype=np.float64).sum())
        total += float(np.square(other, dtype=np.float64).sum())
    if difference > _SAME_MATRIX**2 * total:
        return None
    return max((embedding, output), key=lambda tensor: tensor.n_bytes)


def _write_tensors(path: Path, sources: dict[str, Any], fields: _Fields, architecture: str) -> None:
    """Write every tensor in fp32, with the name and row order that transformers expects, one at a time. The largest
    model takes six gigabytes, and only one of its tensors is held at once."""
    names = {_name(source): source for source in sources}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(names):
        shape = [int(size) for size in reversed(sources[names[name]].shape)]
        begin, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    written = json.dumps(header, separators=(",", ":")).encode("ascii")
    written += b" " * (-len(written) % 8)  # the format wants the numbers aligned
    with path.open("wb") as file:
        file.write(len(written).to_bytes(8, "little") + written)
        for values in _values(sorted(names.items()), sources, fields, architecture):
            file.write(values.data)


def _values(
    names: list[tuple[str, str]], sources: dict[str, Any], fields: _Fields, architecture: str
) -> Iterator[NDArray[np.float32]]:
    heads = {}
    if architecture == "llama":  # whose rotary halves GGUF interleaves
        heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    dequantize = require_gguf().dequantize
    for _, source in names:
        values = dequantize(sources[source].data, sources[source].tensor_type)
        part = source.split(".")[2] if source.startswith("blk.") else ""
        if part in heads:
            values = _unpermuted(values, heads[part])
        yield np.ascontiguousarray(values, dtype="<f4")


def _name(source: str) -> str:
    """The name that transformers gives a tensor."""
    outside_layers = {
        _EMBEDDING: "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        _OUTPUT: "lm_head.weight",
    }
    if source in outside_layers:
        return outside_layers[source]
    _, layer, part, kind = source.split(".")  # such as blk.7.attn_q.weight
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"


def _unpermuted(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF interleaves the two halves of each rotary head; transformers keeps them one after the other."""
    head_dim = rows.shape[0] // heads
    return rows.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
