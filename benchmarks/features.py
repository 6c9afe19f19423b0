"""The price of features: `python -m benchmarks.features`.

- featurizing a state against a plain prefill of the same tokens by the same model, both by process CPU time, in turn;
- the further views `window` and `semantic` out of the same forward, against the full view alone;
- both against the usual way, an eager pass with `output_attentions` and `output_hidden_states`;
- the structural columns alone, for a request of 50,000 tokens;
- a decision in a session, with at most 5 % new tokens, against the full pass;
- peak memory of each, above the loaded model, in a process of its own.

One thread. The state is frozen before the clock starts; everything else that features need is inside. Exit code 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.continuation import Continuation
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, freeze
from drsr.features.session import FeatureSession
from drsr.features.structural import structural_features
from drsr.features.vectors import FeatureWatch, candidate_features
from drsr.features.view_layouts import Kind
from drsr.request.rendering import render
from drsr.request.request import read_request

TIME_TARGET, MEMORY_TARGET, SESSION_TARGET, FURTHER_TARGET = 1.10, 100, 8.0, 1.05
CONTEXT_CAP = 55_296


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "TOKENS"), help="print one peak in MB and end")
    options = parser.parse_args()
    torch.set_num_threads(1)
    backbone = load_backbone(options.backbone)
    assert isinstance(backbone, FrozenLM)
    if options.peak:
        way, tokens = options.peak
        state = agent_state(backbone, int(tokens))
        WAYS[way](backbone, agent_state(backbone, 600))  # weights are read from disk when they are first used
        print(peak_megabytes(lambda: WAYS[way](backbone, state)))
        return 0
    print(f"{options.backbone}, one thread, medians of {options.turns} turns of process CPU time")
    met = [against_prefill(backbone, tokens, options.turns) for tokens in (1_000, 2_000, 4_000)]
    met += [further_views(backbone, tokens, options.turns) for tokens in (1_000, 2_000)]
    met += [against_eager(backbone, tokens, options.backbone) for tokens in (1_000, 2_000)]
    structural_alone(backbone, 50_000, options.turns)
    met += [in_a_session(backbone, tokens) for tokens in (2_000, 4_000)]
    return 0 if all(met) else 1


def against_prefill(backbone: FrozenLM, tokens: int, turns: int) -> bool:
    state = agent_state(backbone, tokens)
    prefill(backbone, state), featurize(backbone, state)  # both warm
    plain, ours = [], []
    for _ in range(turns):
        plain.append(cpu_seconds(lambda: prefill(backbone, state)))
        ours.append(cpu_seconds(lambda: featurize(backbone, state)))
    ratios = [one / other for one, other in zip(ours, plain, strict=True)]
    print(
        f"{len(state.rendering):5,} tokens: prefill {statistics.median(plain):6.2f} s, features "
        f"{statistics.median(ours):6.2f} s, ratio {statistics.median(ratios):.2f} "
        f"(of the minima {min(ours) / min(plain):.2f}; from {min(ratios):.2f} to {max(ratios):.2f}; "
        f"at most {TIME_TARGET:.2f}): {verdict(statistics.median(ratios) <= TIME_TARGET)}"
    )
    return statistics.median(ratios) <= TIME_TARGET


def further_views(backbone: FrozenLM, tokens: int, turns: int) -> bool:
    state = agent_state(backbone, tokens)
    token_ids = state.view.token_ids(state.rendering.token_ids)

    def collect(*kinds: Kind) -> None:
        watch = FeatureWatch(backbone, state, kinds)
        Continuation(backbone, len(token_ids)).extend(token_ids, watch=watch)
        for kind in kinds:
            watch.features(kind)

    pairs = [
        (cpu_seconds(lambda: collect(Kind.FULL)), cpu_seconds(lambda: collect(Kind.FULL, Kind.WINDOW, Kind.SEMANTIC)))
        for _ in range(turns)
    ]
    ratios = [more / less for less, more in pairs]
    print(
        f"{len(token_ids):5,} tokens: full view {min(less for less, _ in pairs):6.2f} s, with window and semantic "
        f"{min(more for _, more in pairs):6.2f} s, ratio {statistics.median(ratios):.3f} (from {min(ratios):.3f} to "
        f"{max(ratios):.3f}; at most {FURTHER_TARGET:.2f}): {verdict(statistics.median(ratios) <= FURTHER_TARGET)}"
    )
    return statistics.median(ratios) <= FURTHER_TARGET


def against_eager(backbone: FrozenLM, tokens: int, name: str) -> bool:
    state = agent_state(backbone, tokens)
    print(f"{len(state.rendering):5,} tokens       CPU s     peak MB above the model")
    peaks = {}
    for way, run in WAYS.items():
        seconds = cpu_seconds(lambda run=run: run(backbone, state))  # type: ignore[misc]
        command = [sys.executable, "-m", "benchmarks.features", "--backbone", name, "--peak", way, str(tokens)]
        root = Path(__file__).resolve().parents[1]
        peaks[way] = float(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)
        print(f"      {way:9} {seconds:9.2f} {peaks[way]:10.0f}")
    above = peaks["features"] - peaks["prefill"]
    print(f"      features above prefill: {above:+.0f} MB (at most {MEMORY_TARGET}): {verdict(above <= MEMORY_TARGET)}")
    return above <= MEMORY_TARGET


def structural_alone(backbone: FrozenLM, tokens: int, turns: int) -> None:
    state = frozen(backbone, agent_body(backbone, tokens))
    seconds = statistics.median(cpu_seconds(lambda: structural_features(state)) for _ in range(turns))
    print(f"{len(state.rendering):5,} tokens: structural columns {seconds * 1000:.0f} ms")


def in_a_session(backbone: FrozenLM, tokens: int) -> bool:
    """The decisions from `tokens` on, as long as each adds at most 5 %."""
    body = agent_body(backbone, int(tokens * 1.25))
    cuts = [number for number, message in enumerate(body) if message["role"] == "assistant"]
    states = [frozen(backbone, body[:cut]) for cut in cuts if cut > 12]
    states = [state for state in states if len(state.rendering) >= tokens]
    session = FeatureSession(backbone)
    session.features(states[0])
    speedups, worst = [], 0.0
    for before, state in zip(states[:4], states[1:5], strict=True):
        grown = (len(state.rendering) - len(before.rendering)) / len(state.rendering)
        assert grown <= 0.05, grown
        alone = cpu_seconds(lambda state=state: candidate_features(backbone, state))  # type: ignore[misc]
        seconds = cpu_seconds(lambda state=state: session.features(state))  # type: ignore[misc]
        again = candidate_features(backbone, state).matrix
        worst = max(worst, float(np.abs(session.features(state).matrix - again).max()))
        speedups.append(alone / seconds)
        print(
            f"{len(state.rendering):5,} tokens, {grown:.1%} new: full {alone:5.2f} s, in the session {seconds:5.3f} s"
        )
    print(
        f"      {statistics.median(speedups):.1f} times faster (min {min(speedups):.1f}; "
        f"at least {SESSION_TARGET:.0f}): {verdict(statistics.median(speedups) >= SESSION_TARGET)}, largest difference "
        f"{worst:.1e}, session holds {session.nbytes / 1e6:.0f} MB"
    )
    return statistics.median(speedups) >= SESSION_TARGET


def verdict(met: bool) -> str:
    return "met" if met else "NOT MET"


def prefill(backbone: FrozenLM, state: DecisionState) -> Any:
    """Read a request as a model does before it answers."""
    with torch.inference_mode():
        return backbone.model(input_ids=tokens_of(state), logits_to_keep=1)


def featurize(backbone: FrozenLM, state: DecisionState) -> Any:
    return candidate_features(backbone, state)


def eager(backbone: FrozenLM, state: DecisionState) -> Any:
    """Compute attention weights and hidden states the usual way: all of them, at all positions."""
    usual = backbone.model.config._attn_implementation
    backbone.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            return backbone.model(
                input_ids=tokens_of(state), logits_to_keep=1, output_attentions=True, output_hidden_states=True
            )
    finally:
        backbone.model.set_attn_implementation(usual)


WAYS: dict[str, Callable[[FrozenLM, DecisionState], Any]] = {"prefill": prefill, "features": featurize, "eager": eager}


def tokens_of(state: DecisionState) -> torch.Tensor:
    token_ids = state.view.token_ids(state.rendering.token_ids)
    return torch.as_tensor(token_ids.astype(np.int64))[None]


def agent_state(backbone: FrozenLM, tokens: int) -> DecisionState:
    return frozen(backbone, agent_body(backbone, tokens))


def frozen(backbone: FrozenLM, messages: list[dict[str, Any]]) -> DecisionState:
    state = freeze(read_request(messages), backbone.tokenizer, CONTEXT_CAP)
    assert isinstance(state, DecisionState), state
    return state


def agent_body(backbone: FrozenLM, tokens: int) -> list[dict[str, Any]]:
    """Return messages of an agent that looks for an order in files, about that many tokens long."""
    choose = random.Random(7)
    words = ["order", "user", "file", "status", "pending", "shipped", "line", "error", "total", "path", "item", "found"]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You look things up and say what you found."},
        {"role": "user", "content": "Why was order W1047 not shipped?"},
    ]
    length, number = len(render(read_request(messages), backbone.tokenizer)), 0
    while length < tokens:
        arguments = json.dumps({"path": f"/data/{choose.choice(words)}/{number}.log", "limit": choose.randrange(50)})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": arguments}}
        said = " ".join(choose.choices(words, k=8))
        found = "\n".join(f"{choose.randrange(10_000)} {' '.join(choose.choices(words, k=5))}" for _ in range(2))
        messages.append({"role": "assistant", "content": said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": found})
        rendering = render(read_request(messages[-2:]), backbone.tokenizer)
        length += len(rendering) - rendering.prompt_length
        number += 1
    return messages


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak_megabytes(work: Callable[[], object]) -> float:
    """Return the largest resident memory while working, above what is resident before."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak of loading the model is not of interest
    kept = work()
    peak = _status("VmHWM")
    del kept
    return (peak - before) / 1e3


def _status(field: str) -> int:
    """Return a line of the kernel's account of this process, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    sys.exit(main())
