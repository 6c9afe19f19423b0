"""GGUF files like those of the embedded model and of the larger ones, small enough to be converted in a blink."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize

from tests.tiny_models import SPECIAL_TOKENS, tokenizer_json


def write_small_gguf(path: Path, architecture: str = "llama", output: str | None = None) -> Path:
    """A random model with grouped heads, in the tensor types of the embedded model's file; a Qwen2 also with biases.

    `output` adds an output matrix: the `same` as the embedding in more bits, or `another`.
    """
    model = json.loads(tokenizer_json())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(2)
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if architecture == "llama":
        writer.add_rope_dimension_count(16)
        writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if architecture == "llama" else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL_TOKENS else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    for add in (writer.add_bos_token_id, writer.add_eos_token_id, writer.add_pad_token_id, writer.add_unk_token_id):
        add(2)
    shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    shapes |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
    random = np.random.default_rng(5)
    kind = GGMLQuantizationType.Q8_0
    embedding = random.normal(size=(len(tokens), 64)).astype(np.float32)
    if output is not None:
        values = embedding if output == "same" else random.normal(size=embedding.shape).astype(np.float32)
        writer.add_tensor("output.weight", quantize(values, kind), raw_dtype=kind)
        kind = GGMLQuantizationType.Q5_0
    writer.add_tensor("token_embd.weight", quantize(embedding, kind), raw_dtype=kind)
    kind = GGMLQuantizationType.Q4_1
    for layer in range(2):
        for part, shape in shapes.items():
            values = random.normal(size=shape).astype(np.float32)
            writer.add_tensor(f"blk.{layer}.{part}.weight", quantize(values, kind), raw_dtype=kind)
        for part in ("attn_q", "attn_k", "attn_v") if architecture == "qwen2" else ():
            bias = random.normal(size=shapes[part][0]).astype(np.float32)
            writer.add_tensor(f"blk.{layer}.{part}.bias", bias)
        for part in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{part}.weight", random.uniform(0.5, 1.5, 64).astype(np.float32))
    writer.add_tensor("output_norm.weight", random.uniform(0.5, 1.5, 64).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
