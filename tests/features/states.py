"""Decision states for the tests of features and sessions."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import torch
import transformers

from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, freeze
from drsr.request.contracts import Tokenizer
from drsr.request.request import read_request
from tests.tiny_backbones import as_backbone
from tests.tiny_models import WINDOW, tiny_config

# The test processes share the cores as it is: two threads in each would spend their time waiting for one another.
torch.set_num_threads(1)

WORDS = ["order", "file", "alpha", "pending", "order_17", "W2301", "/a/b.txt", "error", "ok", "42", "found"]


def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """An OpenAI tool call with the id `c<number>`."""
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def run_messages(steps: int, *, words: int = 4, seed: int = 3) -> list[dict[str, Any]]:
    """An agent's run of so many Steps: each says something, calls a tool and gets an answer of about `words` words."""
    choose = random.Random(seed)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Find order_17 in /data/log.txt"},
    ]
    for number in range(steps):
        said, query, found = (" ".join(choose.choices(WORDS, k=k)) for k in (2, 1, words))
        calls = [call(number, choose.choice(("bash", "read")), query=query)]
        messages.append({"role": "assistant", "content": said, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": found})
    return messages


def state_of(body: Any, tokenizer: Tokenizer, context_cap: int = WINDOW) -> DecisionState:
    """The decision state of a request that has candidates."""
    state = freeze(read_request(body), tokenizer, context_cap)
    assert isinstance(state, DecisionState), state
    return state


@functools.cache
def paper_backbone() -> FrozenLM:
    """Qwen3.5 with the paper's 32 layers and 16 heads at small widths. Small weights too: with wide ones, so many
    random layers turn a difference of 1e-7 in the first into 1e-4 in the last, whatever computes them."""
    config = tiny_config("qwen3_5")
    config.initializer_range = 0.05
    with torch.random.fork_rng():
        torch.manual_seed(0)
        automatic: Any = transformers.AutoModelForCausalLM
        return as_backbone(automatic.from_config(config))
