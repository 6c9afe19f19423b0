"""Every id is the library's: of recorded texts, of all classes of characters, of frames and of hostile contents."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.byte_level import ByteLevelTokenizer, characters, other_form
from drsr.backbone.tokenizer import HfTokenizer
from drsr.errors import AlignmentError, BackboneCorrupt, BackboneError
from drsr.offline import samples
from tests.tiny_models import tokenizer_json

SPLIT = [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False}]
FULL_SPLIT = [SPLIT[0], {**SPLIT[1], "trim_offsets": True, "use_regex": True}]
PLAIN_STEPS = {"type": "Sequence", "pretokenizers": FULL_SPLIT}


def tiny(**changes: Any) -> str:
    """A tokenizer trained here, of SmolLM2's form, with some of its entries replaced."""
    spec = json.loads(tokenizer_json())
    special = [token for token in spec["added_tokens"] if token["special"]]
    return json.dumps({**spec, "pre_tokenizer": PLAIN_STEPS, "added_tokens": special, **changes})


def tiny_model(**changes: Any) -> dict[str, Any]:
    return {**json.loads(tokenizer_json())["model"], **changes}


TINY = ByteLevelTokenizer(tiny())
TINY_LIBRARY = HfTokenizer(tiny())

pieces = st.sampled_from(
    [" ", "  ", "\n", "\t ", "'s", "'ve", "'", "'S", "1", "२", "Ⅷ", "é", "—", "\u00a0", "\x1c", "<|im_end|>"]
)
texts = st.lists(st.one_of(pieces, st.text(max_size=6)), max_size=12).map("".join)


def assert_alike(ours: ByteLevelTokenizer, library: HfTokenizer, contents: list[str]) -> None:
    for text, mine, theirs in zip(
        contents, ours.encode_contents(contents), library.encode_contents(contents), strict=True
    ):
        assert mine.tolist() == theirs.tolist(), repr(text)
        assert mine.dtype == theirs.dtype
        assert not mine.flags.writeable


@given(st.lists(texts, max_size=4))
def test_any_text_gives_the_ids_of_the_library(contents: list[str]) -> None:
    assert_alike(TINY, TINY_LIBRARY, contents)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.items() if isinstance(value, dict) else value:
            yield from strings(list(item) if isinstance(item, tuple) else item)


def test_recorded_texts_give_the_ids_of_the_library(ours: ByteLevelTokenizer, library: HfTokenizer) -> None:
    lines = gzip.decompress(samples.CORPUS.read_bytes()).decode().splitlines()[:40]
    assert len(lines) == 40
    found = [text for line in lines for text in strings(json.loads(line))]
    found += [characters.__doc__ or "", *lines, " ".join(lines)]
    assert sum(map(len, found)) > 100_000
    assert_alike(ours, library, found)


def test_a_word_that_is_too_long_is_refused_with_its_content(ours: ByteLevelTokenizer) -> None:
    with pytest.raises(AlignmentError, match="a word of 40,001 characters") as refused:
        ours.encode_contents(["short", "a ruler " + "=" * 40_000])
    assert refused.value.content == 1


def ends_of_classes() -> list[int]:
    """Code points right before and behind every place where the class of characters changes."""
    changes: list[int] = np.flatnonzero(np.diff(characters._stand_ins())).tolist()
    return sorted({point for change in changes for point in range(max(change - 1, 0), change + 3)})


def test_every_class_of_characters_ends_where_the_library_ends_it(
    ours: ByteLevelTokenizer, library: HfTokenizer
) -> None:
    points = sorted({*ends_of_classes(), *range(0x300), *range(0, 0x110000, 1009)})
    shown = [chr(point) for point in points if not 0xD800 <= point <= 0xDFFF and point < 0x110000]
    contents = [f"a{each}b {each} 1{each}2{each}{each}'{each}s  {each}\n{each}!{each}" for each in shown]
    refused = {index for index, text in enumerate(contents) if not _both_encode(ours, library, text)}
    assert 0 < len(refused) < len(contents) / 2  # six control characters, and planes that SmolLM2 has no bytes for
    assert_alike(ours, library, [text for index, text in enumerate(contents) if index not in refused])


def _both_encode(ours: ByteLevelTokenizer, library: HfTokenizer, text: str) -> bool:
    """False where the library refuses; then drsr refuses with the same words."""
    try:
        library.encode_contents([text])
    except AlignmentError as error:
        with pytest.raises(AlignmentError, match=f"^{re.escape(str(error))}$"):
            ours.encode_contents([text])
        return False
    return True


@pytest.mark.parametrize(
    "frame",
    ["", "<|im_start|>assistant\n", "<|im_end|>\n", "<|im_start|><|im_end|>", "a<|im_start|> b<reponame>c", "plain 12"],
)
def test_frames_become_added_tokens_as_in_the_library(
    ours: ByteLevelTokenizer, library: HfTokenizer, frame: str
) -> None:
    found = ours.encode_frame(frame)
    assert found.tolist() == library.encode_frame(frame).tolist()
    assert not found.flags.writeable


def test_the_longest_of_two_added_tokens_is_taken() -> None:
    model, [token, *_] = tiny_model(), json.loads(tiny())["added_tokens"]
    ids = {content: len(model["vocab"]) + number for number, content in enumerate(("<x>", "<x>y"))}
    added = [{**token, "content": content, "id": id} for content, id in ids.items()]
    both = tiny(model={**model, "vocab": {**model["vocab"], **ids}}, added_tokens=added)
    found = ByteLevelTokenizer(both).encode_frame("<x>a<x>yb<x")
    assert found.tolist() == HfTokenizer(both).encode_frame("<x>a<x>yb<x").tolist()
    assert set(ids.values()) <= set(found.tolist())


def test_identity_and_lead_are_those_of_the_library(ours: ByteLevelTokenizer, library: HfTokenizer) -> None:
    assert ours.identity == library.identity
    assert ours.lead.tolist() == library.lead.tolist() == []
    assert ours.encode_contents([]) == []


@pytest.mark.parametrize("texts", [["fine", "a\ud800"], ["\x04"], ["ok", "b\x1d"]])
def test_what_cannot_be_encoded_is_refused_in_the_words_of_the_library(
    ours: ByteLevelTokenizer, library: HfTokenizer, texts: list[str]
) -> None:
    with pytest.raises(AlignmentError) as theirs:
        library.encode_contents(texts)
    with pytest.raises(AlignmentError) as mine:
        ours.encode_contents(texts)
    assert str(mine.value) == str(theirs.value)
    assert mine.value.content == theirs.value.content


def spelling() -> str:
    """Return the tiny tokenizer with an added token that its merges can make."""
    parsed = json.loads(tiny())
    merge = next(merge for merge in parsed["model"]["merges"] if "".join(merge).isascii())
    spelled = "".join(merge)
    added = [{**parsed["added_tokens"][0], "id": parsed["model"]["vocab"][spelled], "content": spelled}]
    return json.dumps({**parsed, "added_tokens": added})


OTHER_FORMS = {
    "ByteLevel, not Digits": tokenizer_json(),
    "normalizer NFC": tiny(normalizer={"type": "NFC"}),
    "post_processor ByteLevel": tiny(post_processor={"type": "ByteLevel"}),
    "nothing, not Digits": tiny(pre_tokenizer=None),
    "Digits and ByteLevel, not": tiny(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [{**SPLIT[0], "individual_digits": False}, FULL_SPLIT[1]]}
    ),
    "and ByteLevel, not Digits": tiny(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [SPLIT[0], {**FULL_SPLIT[1], "add_prefix_space": True}]}
    ),
    "type 'WordPiece'": tiny(model=tiny_model(type="WordPiece")),
    "unk_token 'a'": tiny(model=tiny_model(unk_token="a")),
    "ignore_merges True": tiny(model=tiny_model(ignore_merges=True)),
    "byte_fallback True": tiny(model=tiny_model(byte_fallback=True)),
    "make the same token": tiny(model=tiny_model(merges=tiny_model()["merges"] + tiny_model()["merges"][:1])),
    "is not a plain entry": tiny(added_tokens=[{**json.loads(tiny())["added_tokens"][0], "lstrip": True}]),
    "can spell the added token": spelling(),
}


@pytest.mark.parametrize("reason", OTHER_FORMS)
def test_another_form_is_refused_by_name(reason: str) -> None:
    assert reason in other_form(OTHER_FORMS[reason])
    with pytest.raises(BackboneError, match=r"^some/tokenizer.json: .*itself: ") as caught:
        ByteLevelTokenizer(OTHER_FORMS[reason], where="some/tokenizer.json")
    assert reason in str(caught.value)


def test_the_form_of_the_embedded_model_is_read(smollm2_json: bytes) -> None:
    assert other_form(smollm2_json) == other_form(tiny()) == ""
    spec = json.loads(smollm2_json)
    spec["model"]["merges"] = [" ".join(merge) for merge in spec["model"]["merges"]]
    assert other_form(json.dumps(spec)) == ""  # as older versions of the library wrote them


NO_PAIR = tiny_model(merges=[["no", "pair"]])


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"model": 3}',
        tiny(model=NO_PAIR),
        tiny(added_tokens=7),
    ],
)
def test_a_broken_file_is_named(broken: str) -> None:
    with pytest.raises(BackboneCorrupt, match="^some/tokenizer.json: "):
        other_form(broken, where="some/tokenizer.json")
