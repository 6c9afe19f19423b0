"""The converted embedded model against transformers' own reading of the same GGUF file, and its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from drsr.backbone import load_backbone, load_tokenizer
from drsr.backbone.gguf_conversion import convert_gguf
from drsr.backbone.tokenizer import HfTokenizer
from drsr.errors import AlignmentError, BackboneError
from tests.backbone.small_gguf import write_small_gguf

LOST = "\x04\x06\x13\x14\x16\x1d"
"""The control characters that SmolLM2's vocabulary has no piece for."""

TEXTS = [
    "The capital of France is Paris.",
    "def f(x):\n    return {k: v for k, v in x.items() if k != 'a'}\n\n\n# done\t\t\n",
    '{"order_id": "#W", "items": [], "note": "it\'s, they\'re, I\'ll"}',
    "  leading, trailing  \r\n\r\n \t mixed \u00a0\u3000 white space   ",
    "漢字かな交じり文 한국어 العربية עברית ελληνικά русский हिन्दी",
    "🙂👩‍👩‍👧🏳️‍🌈 e\u0301 \u202e \ufffd \x00\x1b[31m",
    "https://example.org/a/b?c=d&e=%20#f --flag=value /usr/bin/env",
    "a" * 300 + "=" * 300 + " " * 300,
]


@pytest.fixture(scope="module")
def tokenizer(smollm2: Path) -> HfTokenizer:
    found = load_tokenizer("smollm2-135m").tokenizer
    assert isinstance(found, HfTokenizer)
    return found


def count(tokenizer: HfTokenizer, text: str) -> int:
    return len(tokenizer.encode_contents([text])[0])


def test_weights_and_logits_are_those_that_transformers_reads_from_the_file(small_gguf: Path, tmp_path: Path) -> None:
    """On a small file, where it takes a second. The embedded model's own weights are pinned by `embedded.IDENTITY`,
    which was taken from a conversion that had been compared with transformers' reading in the same way."""
    import torch
    from safetensors.numpy import load_file
    from transformers import AutoModelForCausalLM

    automatic: Any = AutoModelForCausalLM
    reference = automatic.from_pretrained(small_gguf.parent, gguf_file=small_gguf.name, dtype=torch.float32).eval()
    expected = {name: tensor.numpy() for name, tensor in reference.state_dict().items()}
    convert_gguf(small_gguf, tmp_path)
    converted = load_file(tmp_path / "model.safetensors")
    assert set(expected) - set(converted) == {"lm_head.weight"}  # tied to the embedding, so it is not stored twice
    assert set(converted) <= set(expected)
    for name, tensor in converted.items():
        assert np.array_equal(tensor, expected[name]), name

    backbone = load_backbone(f"path:{tmp_path}")
    assert backbone.window == 256
    ids = np.arange(10, 210, dtype=np.int32)
    with torch.inference_mode():
        everywhere = reference(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
    np.testing.assert_allclose(backbone.logits(ids, [0, 150, 199]), everywhere[[0, 150, 199]], atol=1e-4)


@pytest.mark.parametrize("output", [None, "same", "another"])
def test_a_qwen2_file_and_its_output_matrix(tmp_path: Path, output: str | None) -> None:
    """As transformers reads it; an output matrix that is the embedding in more bits is kept once, for both."""
    import torch
    from safetensors.numpy import load_file
    from transformers import AutoModelForCausalLM

    (tmp_path / "gguf").mkdir()
    (tmp_path / "converted").mkdir()
    file = write_small_gguf(tmp_path / "gguf" / "small.gguf", "qwen2", output)
    automatic: Any = AutoModelForCausalLM
    reference = automatic.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    expected = {name: tensor.numpy() for name, tensor in reference.state_dict().items()}
    convert_gguf(file, tmp_path / "converted")
    converted = load_file(tmp_path / "converted" / "model.safetensors")
    config = json.loads((tmp_path / "converted" / "config.json").read_text())
    assert config["tie_word_embeddings"] == (output != "another")
    assert set(expected) - set(converted) == (set() if output == "another" else {"lm_head.weight"})
    for name, tensor in converted.items():
        source = "lm_head.weight" if output == "same" and name == "model.embed_tokens.weight" else name
        assert np.array_equal(tensor, expected[source]), name
    backbone = load_backbone(f"path:{tmp_path / 'converted'}")
    ids = np.arange(10, 60, dtype=np.int32)
    with torch.inference_mode():
        if output == "same":
            reference.model.embed_tokens.weight.copy_(reference.lm_head.weight)
        everywhere = reference(torch.from_numpy(ids.astype(np.int64))[None]).logits[0].numpy()
    np.testing.assert_allclose(backbone.logits(ids, [0, 30, 49]), everywhere[[0, 30, 49]], atol=1e-4)


def test_the_bytes_depend_on_the_file_alone(small_gguf: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        convert_gguf(small_gguf, tmp_path / name)
    for file in ("config.json", "tokenizer.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_tokens_are_those_that_transformers_makes_of_the_file_except_before_digits(
    tokenizer: HfTokenizer, gguf_file: Path
) -> None:
    from transformers import AutoTokenizer

    automatic: Any = AutoTokenizer
    reference = automatic.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    for text, ids in zip(TEXTS, tokenizer.encode_contents(TEXTS), strict=True):
        assert ids.tolist() == reference.encode(text, add_special_tokens=False), text
    frame = "<|im_start|>assistant\n<|im_end|><|endoftext|>"
    assert tokenizer.encode_frame(frame).tolist() == reference.encode(frame, add_special_tokens=False)
    # The one difference, and why it is there, is in the module's docstring.
    assert len(reference.encode("x  5", add_special_tokens=False)) == 4
    assert count(tokenizer, "x  5") == 3


def test_every_digit_is_a_token_of_its_own(tokenizer: HfTokenizer) -> None:
    assert count(tokenizer, "2024") == 4
    assert count(tokenizer, "½²٣") == sum(count(tokenizer, digit) for digit in "½²٣")
    assert count(tokenizer, "\n\n    42") == count(tokenizer, "\n\n    ") + 2


def test_special_tokens_come_from_frames_only(tokenizer: HfTokenizer) -> None:
    assert tokenizer.encode_frame("<|im_start|><|im_end|><|endoftext|>").tolist() == [1, 2, 0]
    assert tokenizer.lead.tolist() == []
    (ids,) = tokenizer.encode_contents(["<|im_start|><|im_end|><|endoftext|><repo_name><empty_output>"])
    assert ids.min() > 16


@pytest.mark.parametrize("character", [*LOST, "\U00040000"])
def test_characters_without_a_piece_are_refused(tokenizer: HfTokenizer, character: str) -> None:
    with pytest.raises(AlignmentError, match="^content 1: "):
        tokenizer.encode_contents(["a", f"b{character}c"])


def test_all_other_characters_survive(tokenizer: HfTokenizer, smollm2: Path) -> None:
    text = "".join(chr(code) for code in range(0xD800) if chr(code) not in LOST) + "".join(TEXTS) + "\U0010ffff"
    (ids,) = tokenizer.encode_contents([text])
    assert Tokenizer.from_file(str(smollm2 / "tokenizer.json")).decode(ids.tolist(), skip_special_tokens=False) == text


def write_gguf(path: Path, architecture: str, pre: str) -> Path:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    writer.add_tokenizer_pre(pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("architecture", "pre", "said"),
    [
        ("gpt2", "smollm", "general.architecture is 'gpt2', only 'llama' and 'qwen2' can be converted"),
        ("qwen2", "smollm", "tokenizer.ggml.pre is 'smollm', only 'qwen2' can be converted"),
        ("llama", "gpt-2", "tokenizer.ggml.pre is 'gpt-2'"),
        ("llama", "smollm", "the file does not say llama.attention.head_count"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, architecture: str, pre: str, said: str) -> None:
    with pytest.raises(BackboneError, match=said):
        convert_gguf(write_gguf(tmp_path / "other.gguf", architecture, pre), tmp_path)


def test_config_is_complete(smollm2: Path) -> None:
    config = json.loads((smollm2 / "config.json").read_text())
    assert (config["num_hidden_layers"], config["num_attention_heads"], config["num_key_value_heads"]) == (30, 9, 3)
    assert (config["max_position_embeddings"], config["tie_word_embeddings"]) == (8192, True)
