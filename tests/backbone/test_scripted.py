"""The double behaves like a language model where it matters, and the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.backbone.scripted import SPECIAL_TOKENS, VOCABULARY, WINDOW, ScriptedBackbone, ScriptedTokenizer
from drsr.errors import AlignmentError, WindowExceeded
from drsr.request.contracts import Backbone, TokenIds, Tokenizer

TOKENIZER: Tokenizer = ScriptedTokenizer()
BACKBONE: Backbone = ScriptedBackbone()

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)


@given(st.lists(st.one_of(st.sampled_from(SPECIAL_TOKENS), texts), max_size=6))
def test_content_never_reaches_the_ids_of_special_tokens(pieces: list[str]) -> None:
    whole = "".join(pieces)
    (ids,) = TOKENIZER.encode_contents([whole])
    assert ids.dtype == np.int32
    assert np.all((ids >= 64) & (ids < VOCABULARY))
    assert bool(whole) == bool(len(ids))
    assert len(ids) <= len(whole)


@given(st.lists(texts, min_size=1, max_size=5))
def test_every_text_is_encoded_on_its_own(contents: list[str]) -> None:
    apart = [ScriptedTokenizer().encode_contents([text])[0].tolist() for text in contents]
    assert [ids.tolist() for ids in TOKENIZER.encode_contents(contents)] == apart


def test_frames_have_special_tokens() -> None:
    ids = TOKENIZER.encode_frame("<|im_start|>assistant\n<tool_call>\n").tolist()
    assert ids[0] == SPECIAL_TOKENS.index("<|im_start|>")
    assert SPECIAL_TOKENS.index("<tool_call>") in ids
    assert [number for number in ids if number >= 64] == np.concatenate(
        TOKENIZER.encode_contents(["assistant\n", "\n"])
    ).tolist()
    assert TOKENIZER.encode_frame("").tolist() == []
    assert TOKENIZER.lead.tolist() == []


def test_ids_are_the_same_on_every_machine() -> None:
    """A changed number here means a new `_VERSION`: labels made with the old one no longer fit."""
    assert TOKENIZER.encode_contents(["Order #W12 shipped."])[0].tolist() == [
        15964,
        559,
        15450,
        32567,
        12237,
        18041,
        24524,
        20610,
    ]


def test_counts_are_of_the_order_of_a_real_tokenizer() -> None:
    english = "The customer asked whether the second order could still be changed before it was shipped. " * 20
    assert 0.15 < len(TOKENIZER.encode_contents([english])[0]) / len(english) < 0.35


def test_half_a_surrogate_pair_is_refused_with_its_index() -> None:
    with pytest.raises(AlignmentError, match="^content 1: half of a surrogate pair at character 1"):
        TOKENIZER.encode_contents(["fine", "a\ud800"])


def nll(context: str, target: str) -> float:
    """Mean negative log-likelihood of a target behind a context, in nats per token."""
    before, after = (TOKENIZER.encode_contents([text])[0] for text in (context, target))
    ids: TokenIds = np.concatenate([before, after])
    logits = BACKBONE.logits(ids, list(range(len(before) - 1, len(ids) - 1))).astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return float(-log_probabilities[np.arange(len(after)), after].mean())


def test_deleting_what_the_target_repeats_does_more_harm_than_deleting_chatter() -> None:
    evidence = "The order W1234567 is in the warehouse at Utrecht. "
    chatter = "Let me think about this for a moment, please wait. "
    question = "Where is it now? "
    target = "It is in the warehouse at Utrecht."
    intact = nll(chatter + evidence + question, target)
    assert nll(chatter + question, target) - intact > 0.5
    assert abs(nll(evidence + question, target) - intact) < 0.2


def test_rows_belong_to_their_positions_and_do_not_see_the_future() -> None:
    (ids,) = TOKENIZER.encode_contents(["one two one three one two"])
    rows = BACKBONE.logits(ids, [5, 0, 3])
    assert rows.shape == (3, VOCABULARY)
    assert rows.dtype == np.float32
    assert np.array_equal(rows[2], BACKBONE.logits(ids[:4], [3])[0])
    assert not np.array_equal(rows[0], rows[2])
    assert BACKBONE.logits(ids, []).shape == (0, VOCABULARY)
    assert np.array_equal(rows, ScriptedBackbone().logits(ids, [5, 0, 3]))


def test_bounds() -> None:
    assert (BACKBONE.name, BACKBONE.window) == ("scripted", WINDOW)
    with pytest.raises(WindowExceeded, match="58369 tokens, the window holds 58368"):
        BACKBONE.logits(np.zeros(WINDOW + 1, dtype=np.int32), [0])
    with pytest.raises(IndexError, match="positions must be from 0 to 2"):
        BACKBONE.logits(np.zeros(3, dtype=np.int32), [3])


def test_identities_differ_from_each_other_and_stay() -> None:
    assert BACKBONE.identity == ScriptedBackbone().identity
    assert TOKENIZER.identity == BACKBONE.tokenizer.identity != BACKBONE.identity
