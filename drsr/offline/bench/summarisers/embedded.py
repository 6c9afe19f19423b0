"""The backbone itself as a summariser: greedy, on this machine, so that replay needs no endpoint.

A model of 135M parameters summarises badly, and the report says which one it was. What matters for a comparison is that
all methods use the same one.
"""

from __future__ import annotations

import numpy as np

from drsr.backbone.continuation import Continuation, why_not_continuable
from drsr.backbone.frozen_lm import FrozenLM
from drsr.errors import BackboneError, SummariserRefused
from drsr.offline.bench.summarisers.summariser import Ask, Completion
from drsr.request.contracts import TokenIds
from drsr.request.rendering import render
from drsr.request.request import read_request

_OMITTED = "\n[... left out: longer than the window ...]\n"
_END = "<|im_end|>"


class EmbeddedSummariser:
    """Asks a backbone: the same question gets the same answer."""

    def __init__(self, backbone: FrozenLM) -> None:
        reason = why_not_continuable(backbone)
        if reason is not None:
            raise BackboneError(
                f"it cannot write a summary token by token: {reason}",
                where=backbone.name,
                hint="use an endpoint as summariser",
            )
        self._backbone = backbone
        self._end = int(backbone.tokenizer.encode_frame(_END)[0])

    @property
    def name(self) -> str:
        return self._backbone.name

    def complete(self, ask: Ask) -> Completion:
        """Generate the likeliest token, again and again, until the turn ends. If the material is too long for the
        window its middle is left out; a text that cannot be tokenized exactly raises AlignmentError."""
        prompt = self._fitting(ask)
        written = self._written(prompt, ask.max_tokens)
        text = self._backbone.tokenizer.decode(np.array(written, dtype=np.int32)).strip()
        return Completion(text, len(prompt), len(written))

    def _written(self, prompt: TokenIds, limit: int) -> list[int]:
        state = Continuation(self._backbone, len(prompt) + limit)
        hidden = state.extend(prompt)
        written: list[int] = []
        while len(written) < limit:
            token = int(state.head(hidden[-1:])[0].argmax())
            if token == self._end:
                break
            written.append(token)
            if len(written) < limit:
                hidden = state.extend(np.array([token], dtype=np.int32))
        return written

    def _fitting(self, ask: Ask) -> TokenIds:
        room = self._backbone.window - ask.max_tokens
        prompt = self._prompt(ask.instructions, ask.material)
        kept = len(ask.material)
        while len(prompt) > room:
            if kept == 0:
                raise SummariserRefused(
                    f"instructions and an answer of {ask.max_tokens} tokens do not fit into its window", where=self.name
                )
            # A little less than the share that would fit, as characters and tokens are not quite proportional.
            kept = min(kept - 1, int(kept * room / len(prompt) * 0.95))
            head, tail = ask.material[: kept - kept // 2], ask.material[len(ask.material) - kept // 2 :]
            prompt = self._prompt(ask.instructions, head + _OMITTED + tail)
        return prompt

    def _prompt(self, instructions: str, material: str) -> TokenIds:
        messages = [{"role": "system", "content": instructions}, {"role": "user", "content": material}]
        return render(read_request(messages, protocol="openai"), self._backbone.tokenizer).token_ids
