"""Frames become special tokens, contents never do, and no character is lost on the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from drsr.backbone.tokenizer import HfTokenizer
from drsr.errors import AlignmentError, BackboneCorrupt, BackboneError, MissingExtra
from tests.tiny_models import ADDED_TOKENS, SPECIAL_TOKENS, tokenizer_json

TINY = HfTokenizer(tokenizer_json())
PLAIN = Tokenizer.from_str(tokenizer_json())
RESERVED = {PLAIN.token_to_id(token) for token in (*SPECIAL_TOKENS, *ADDED_TOKENS)}

fragments = st.sampled_from([*SPECIAL_TOKENS, *ADDED_TOKENS, "<|im_", "start|>", "<tool", "_call>", "</", "|", ">"])
hostile_text = st.lists(st.one_of(fragments, st.text(max_size=12)), max_size=8).map("".join)


def spec(**changes: Any) -> str:
    """The tiny tokenizer's JSON with some of its entries replaced."""
    return json.dumps({**json.loads(tokenizer_json()), **changes})


@given(st.lists(hostile_text, min_size=1, max_size=5))
def test_content_never_becomes_a_special_or_added_token_and_loses_nothing(texts: list[str]) -> None:
    for text, ids in zip(texts, TINY.encode_contents(texts), strict=True):
        assert not RESERVED.intersection(ids.tolist())
        assert PLAIN.decode(ids.tolist(), skip_special_tokens=False) == text


@given(st.lists(hostile_text, min_size=1, max_size=5))
def test_a_batch_equals_separate_encodes(texts: list[str]) -> None:
    together = np.concatenate(TINY.encode_contents(texts))
    apart = np.concatenate([TINY.encode_contents([text])[0] for text in texts])
    assert together.dtype == np.int32
    assert np.array_equal(together, apart)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=200))
def test_ordinary_text_is_tokenized_as_by_the_library(text: str) -> None:
    (ids,) = TINY.encode_contents([text])
    assert ids.tolist() == PLAIN.encode(text, add_special_tokens=False).ids


def test_frames_become_special_and_added_tokens() -> None:
    ids = TINY.encode_frame("<|im_start|>assistant\n<tool_call>\n").tolist()
    assert ids[0] == PLAIN.token_to_id("<|im_start|>")
    assert PLAIN.token_to_id("<tool_call>") in ids
    assert PLAIN.decode(ids, skip_special_tokens=False) == "<|im_start|>assistant\n<tool_call>\n"


def test_frames_are_remembered_and_cannot_be_changed_by_a_caller() -> None:
    ids = TINY.encode_frame("<|im_end|>\n")
    assert TINY.encode_frame("<|im_end|>\n") is ids
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 7


def test_no_contents_and_empty_contents() -> None:
    assert TINY.encode_contents([]) == []
    assert [ids.tolist() for ids in TINY.encode_contents(["", ""])] == [[], []]


def test_half_a_surrogate_pair_is_refused_with_its_index() -> None:
    with pytest.raises(AlignmentError, match="^content 2: half of a surrogate pair at character 1"):
        TINY.encode_contents(["fine", "\0 too", "a\ud800"])


def merging_to(token: str) -> str:
    """A byte-level BPE whose merges can spell an added token out of ordinary characters."""
    parsed = json.loads(tokenizer_json())
    vocab = {piece: number for piece, number in parsed["model"]["vocab"].items() if len(piece) == 1}
    vocab = {piece: number for number, piece in enumerate(vocab)}
    merges = [[token[:length], token[length]] for length in range(1, len(token))]
    vocab.update({"".join(merge): len(vocab) + number for number, merge in enumerate(merges)})
    added = [{**parsed["added_tokens"][0], "id": vocab[token], "content": token}]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return spec(
        added_tokens=added, pre_tokenizer=byte_level, model={**parsed["model"], "vocab": vocab, "merges": merges}
    )


def test_a_vocabulary_that_can_spell_a_special_token_is_caught() -> None:
    tokenizer = HfTokenizer(merging_to("<s>"))
    assert len(tokenizer.encode_contents(["< s >"])[0]) == 5
    with pytest.raises(AlignmentError, match="^content 1: the text would become the special token '<s>'"):
        tokenizer.encode_contents(["", "ab<s>", "<s>"])


def test_a_character_outside_the_vocabulary_is_refused() -> None:
    word_level = {"type": "WordLevel", "vocab": {"[UNK]": 0, "yes": 1, "no": 2}, "unk_token": "[UNK]"}
    tokenizer = HfTokenizer(spec(model=word_level, added_tokens=[], pre_tokenizer={"type": "WhitespaceSplit"}))
    assert [ids.tolist() for ids in tokenizer.encode_contents(["yes no", "no"])] == [[1, 2], [2]]
    with pytest.raises(AlignmentError, match="^content 1: a character is not in"):
        tokenizer.encode_contents(["yes", "no maybe"])


def without_pieces_of(*characters: str) -> dict[str, Any]:
    """The tiny BPE model without some of its single bytes."""
    model = json.loads(tokenizer_json())["model"]
    vocab = {piece: number for piece, number in model["vocab"].items() if not set(piece) & set(characters)}
    merges = [merge for merge in model["merges"] if "".join(merge) in vocab]
    return {**model, "vocab": vocab, "merges": merges}


def test_a_byte_that_the_vocabulary_lacks_is_refused_not_left_out() -> None:
    lacking = spec(model=without_pieces_of("q"))
    assert Tokenizer.from_str(lacking).encode("aqa").ids == Tokenizer.from_str(lacking).encode("a").ids * 2
    tokenizer = HfTokenizer(lacking)
    assert len(tokenizer.encode_contents(["aa"])[0]) == 2
    with pytest.raises(AlignmentError, match="^content 1: the tokenizer has no piece for the byte 0x71"):
        tokenizer.encode_contents(["aa", "aqa"])


@pytest.mark.parametrize(
    "lossy",
    [
        spec(pre_tokenizer={"type": "WhitespaceSplit"}),
        spec(model=without_pieces_of("q"), normalizer={"type": "Lowercase"}),
    ],
)
def test_a_tokenizer_whose_losses_cannot_be_seen_is_refused(lossy: str) -> None:
    with pytest.raises(BackboneError, match="leave out characters without a trace"):
        HfTokenizer(lossy, where="model/tokenizer.json")


def test_truncation_padding_and_dropout_of_the_file_are_not_active() -> None:
    parsed = json.loads(tokenizer_json())
    active = HfTokenizer(
        spec(
            truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
            padding={
                "strategy": {"Fixed": 64},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "<|endoftext|>",
            },
            model={**parsed["model"], "dropout": 0.9},
        )
    )
    texts = ["The agent reads the file and writes the report.", "a"]
    for ids, expected in zip(active.encode_contents(texts), TINY.encode_contents(texts), strict=True):
        assert ids.tolist() == expected.tolist()
    assert active.identity == TINY.identity


def template(*single: dict[str, Any]) -> dict[str, Any]:
    ids = {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}
    return {"type": "TemplateProcessing", "single": list(single), "pair": list(single), "special_tokens": ids}


TEXT, SPECIAL = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}


@pytest.mark.parametrize(
    ("single", "lead"), [([SPECIAL, TEXT], [0]), ([SPECIAL, TEXT, SPECIAL], [0]), ([TEXT, SPECIAL], []), ([TEXT], [])]
)
def test_the_lead_is_what_the_tokenizer_itself_puts_in_front(single: list[dict[str, Any]], lead: list[int]) -> None:
    tokenizer = HfTokenizer(spec(post_processor=template(*single)))
    assert tokenizer.lead.tolist() == lead
    assert tokenizer.encode_contents(["a"])[0].tolist() == TINY.encode_contents(["a"])[0].tolist()
    assert tokenizer.encode_frame("a").tolist() == TINY.encode_frame("a").tolist()


def test_identity_is_of_the_meaning_not_of_the_spelling() -> None:
    parsed = json.loads(tokenizer_json())
    reordered = json.dumps(dict(reversed(parsed.items())), indent=4, ensure_ascii=False)
    assert HfTokenizer(reordered).identity == TINY.identity
    fewer_merges = {**parsed["model"], "merges": parsed["model"]["merges"][:-1]}
    assert HfTokenizer(spec(model=fewer_merges)).identity != TINY.identity
    assert HfTokenizer(spec(added_tokens=parsed["added_tokens"][:-1])).identity != TINY.identity


@pytest.mark.parametrize("broken", ["", "{", "[]", "{}", '{"model": 3}', tokenizer_json()[:-200], spec(model={})])
def test_a_broken_file_is_named(broken: str) -> None:
    with pytest.raises(BackboneCorrupt, match="^some/tokenizer.json: "):
        HfTokenizer(broken, where="some/tokenizer.json")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'drsr\[backbone\]'"):
        HfTokenizer(tokenizer_json())


def test_a_fork_after_encoding_is_silent_and_still_encodes() -> None:
    script = """
import os, sys
from drsr.backbone.tokenizer import HfTokenizer
tokenizer = HfTokenizer(sys.stdin.read())
expected = [ids.tolist() for ids in tokenizer.encode_contents(["some text"] * 100)]
child = os.fork()
if child == 0:
    os._exit(0 if [ids.tolist() for ids in tokenizer.encode_contents(["some text"] * 100)] == expected else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, input=tokenizer_json(), env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", ["word ", "a", "\n", "7", "é"])
def test_one_long_text_takes_linear_time(unit: str) -> None:
    def seconds(characters: int) -> float:
        text = unit * (characters // len(unit))
        started = time.process_time()
        TINY.encode_contents([text])
        return time.process_time() - started

    small = min(seconds(50_000) for _ in range(3))
    large = min(seconds(800_000) for _ in range(2))
    assert large < 16 * small * 4  # sixteen times the text; quadratic time would be 256 times as much


def test_decoding_gives_the_text_back_and_leaves_special_tokens_out() -> None:
    tokenizer = HfTokenizer(tokenizer_json())
    text = "Order #W12, 12.50 €: déjà vu\n"
    [content] = tokenizer.encode_contents([text])
    framed = np.concatenate([tokenizer.encode_frame("<|im_start|>"), content, tokenizer.encode_frame("<|im_end|>")])
    assert tokenizer.decode(content) == tokenizer.decode(framed) == text
