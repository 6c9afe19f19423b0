"""Tiny random language models of the real architectures, and a tokenizer trained here: real code paths in milliseconds.

    build_tiny("qwen3_5", folder)      saves the model and its tokenizer as transformers would; `path:<folder>` loads it

Everything is seeded: two calls give the same weights.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

Architecture = Literal["llama", "qwen3", "qwen3_5"]

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ADDED_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Not marked special, as in Qwen's vocabulary: a tokenizer that only knows about special tokens lets them through."""
VOCABULARY = 512
WINDOW = 2048

_CORPUS = [
    "The agent reads the file, runs the tests and writes what it found into the report.",
    'def read(path: str) -> list[int]:\n    """Return the numbers."""\n    return [int(line) for line in open(path)]\n',
    '{"name": "get_order", "arguments": {"order_id": "#W1234567", "limit": 20}}',
    "Error: no such file or directory: /var/log/app.log (exit code 1)\n",
    "system user assistant tool tools message result call",
]


@lru_cache(maxsize=1)
def tokenizer_json() -> str:
    """A byte-level BPE tokenizer with ChatML special tokens and Qwen's added ones, as the text of a tokenizer.json."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(ADDED_TOKENS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in ADDED_TOKENS])
    text: str = tokenizer.to_str()
    return text


def tiny_config(architecture: Architecture) -> Any:
    """The settings of a tiny model. Qwen3.5 keeps the paper's 32 layers, 16 heads and 4 key-value heads."""
    import transformers

    common: dict[str, Any] = {"vocab_size": VOCABULARY, "max_position_embeddings": WINDOW, "hidden_size": 32}
    if architecture == "llama":
        return transformers.LlamaConfig(
            **common,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            tie_word_embeddings=True,
        )
    if architecture == "qwen3":
        return transformers.Qwen3Config(
            **common,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
        )
    return transformers.Qwen3_5TextConfig(
        **common,
        intermediate_size=48,
        num_hidden_layers=32,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=8,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )


def tiny_model(architecture: Architecture, *, seed: int = 0) -> Any:
    """A random model in eval mode. Weights are spread wider than usual so that the context matters to the output."""
    import torch
    import transformers

    config = tiny_config(architecture)
    config.initializer_range = 0.2
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        automatic: Any = transformers.AutoModelForCausalLM
        return automatic.from_config(config).eval()


def build_tiny(architecture: Architecture, folder: Path, *, seed: int = 0) -> Path:
    """Save a tiny model and its tokenizer into a folder, made if need be; returns the folder."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    logging: Any = transformers.utils.logging
    logging.disable_progress_bar()
    tiny_model(architecture, seed=seed).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    return folder
