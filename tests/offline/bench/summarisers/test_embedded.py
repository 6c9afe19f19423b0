"""The backbone as a summariser: greedy decoding against one forward per token, windows, ends of turns."""

from __future__ import annotations

import numpy as np
import pytest

from drsr.errors import SummariserRefused
from drsr.offline.bench.summarisers.embedded import EmbeddedSummariser
from drsr.offline.bench.summarisers.summariser import Ask
from drsr.request.contracts import TokenIds
from drsr.request.rendering import render
from drsr.request.request import read_request
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture

ASK = Ask("summary", "Be short.", "result: order 7 was paid", 12)


def prompt_of(ask: Ask, architecture: Architecture) -> TokenIds:
    messages = [{"role": "system", "content": ask.instructions}, {"role": "user", "content": ask.material}]
    return render(read_request(messages), tiny_backbone(architecture).tokenizer).token_ids


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_decoding_equals_a_whole_forward_per_token(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    prompt = prompt_of(ASK, architecture)
    ids = [int(token) for token in prompt]
    for _ in range(ASK.max_tokens):
        ids.append(int(backbone.logits(np.array(ids, dtype=np.int32), [len(ids) - 1])[0].argmax()))
    end = int(backbone.tokenizer.encode_frame("<|im_end|>")[0])
    written = ids[len(prompt) :]
    written = written[: written.index(end)] if end in written else written
    found = EmbeddedSummariser(backbone).complete(ASK)
    assert found.text == backbone.tokenizer.decode(np.array(written, dtype=np.int32)).strip()
    assert (found.input_tokens, found.output_tokens) == (len(prompt), len(written))
    assert EmbeddedSummariser(backbone).complete(ASK) == found


def test_it_stops_at_the_end_of_its_turn() -> None:
    """A model that always says the end of the turn writes nothing."""
    backbone = fresh_backbone("llama")
    end = int(backbone.tokenizer.encode_frame("<|im_end|>")[0])
    head = backbone.model.get_output_embeddings()
    head.weight.data = head.weight.data.clone()  # perhaps tied to the embeddings
    summariser = EmbeddedSummariser(backbone)
    hidden = backbone.model.get_decoder()(input_ids=_as_batch(prompt_of(ASK, "llama"))).last_hidden_state[0, -1]
    head.weight.data[end] = hidden * 1_000
    found = summariser.complete(ASK)
    assert (found.text, found.output_tokens) == ("", 0)


def _as_batch(ids: TokenIds) -> object:
    import torch

    return torch.as_tensor(ids.astype(np.int64))[None]


def test_material_longer_than_the_window_loses_its_middle() -> None:
    backbone = tiny_backbone("llama")
    long = ASK._replace(material="first " + "middle words and more " * backbone.window + " last")
    found = EmbeddedSummariser(backbone).complete(long)
    assert backbone.window // 2 < found.input_tokens <= backbone.window - ASK.max_tokens


def test_what_can_never_fit_is_refused() -> None:
    backbone = tiny_backbone("llama")
    with pytest.raises(SummariserRefused, match="do not fit"):
        EmbeddedSummariser(backbone).complete(ASK._replace(max_tokens=backbone.window))
