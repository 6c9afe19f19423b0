"""A Llama-architecture GGUF file as a folder that transformers loads: config.json, tokenizer.json, safetensors in fp32.

Written with `gguf` and numpy alone, so that the bytes of the weights do not depend on a version of torch: scale times
integer plus offset, one numpy operation each. They are bit for bit those of transformers' own GGUF reader (tested).

Two things are done otherwise than there. The tokenizer: the file says that its pre-tokenizer is `smollm`, which
isolates every digit and then splits as GPT-2 does. transformers does the second step only, and so cuts the white space
before a number in another place: two spaces and a digit become three tokens where the model was trained with two. We do
both steps, as the model's own tokenizer does. And config.json is written out here, so that it does not change
with the version of transformers that happens to be installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

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
_CONTROL_TOKEN = 3
"""The token type of GGUF that marks special tokens."""


def convert_gguf(gguf_file: Path, folder: Path) -> None:
    """Write the model of a GGUF file into an existing folder; the output bytes depend on the file alone."""
    reader = require_gguf().GGUFReader(gguf_file)
    fields = _Fields(reader, str(gguf_file))
    for key, expected in (("general.architecture", "llama"), ("tokenizer.ggml.pre", "smollm")):
        if fields[key] != expected:
            raise BackboneError(f"{key} is {fields[key]!r}, only {expected!r} can be converted", where=str(gguf_file))
    _write_json(folder / CONFIG_FILE, _config(fields, tied="output.weight" not in {t.name for t in reader.tensors}))
    _write_json(folder / TOKENIZER_FILE, _tokenizer_spec(fields))
    save_file(_tensors(reader, fields), folder / WEIGHTS_FILE, metadata={"format": "pt"})
    # safetensors writes files that only their owner can read; a cache folder may be shared like any other file in it.
    (folder / WEIGHTS_FILE).chmod((folder / CONFIG_FILE).stat().st_mode)


def require_gguf() -> ModuleType:
    """The package `gguf`. Asked for before 93 MB are downloaded that could not be converted without it."""
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


def _config(fields: _Fields, *, tied: bool) -> dict[str, Any]:
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "dtype": "float32",
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "head_dim": fields["llama.embedding_length"] // heads,
        "hidden_act": "silu",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "max_position_embeddings": fields["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": fields["llama.block_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_theta": fields["llama.rope.freq_base"], "rope_type": "default"},
        "tie_word_embeddings": tied,
        "vocab_size": fields["llama.vocab_size"],
    }


def _tokenizer_spec(fields: _Fields) -> dict[str, Any]:
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [
        {"id": number, "content": token, **plain}
        for number, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind == _CONTROL_TOKEN
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
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


def _tensors(reader: Any, fields: _Fields) -> dict[str, NDArray[np.float32]]:
    """Every tensor in fp32 under the name and with the row order that transformers expects."""
    dequantize = require_gguf().dequantize
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    outside_layers = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    tensors = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        name = outside_layers.get(tensor.name)
        if name is None:
            _, layer, part, kind = tensor.name.split(".")  # such as blk.7.attn_q.weight
            name = f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
            if part in heads:
                values = _unpermuted(values, heads[part])
        tensors[name] = np.ascontiguousarray(values, dtype=np.float32)
    return tensors


def _unpermuted(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF interleaves the two halves of each rotary head; transformers keeps them one after the other."""
    head_dim = rows.shape[0] // heads
    return rows.reshape(heads, head_dim // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
