"""The price of a decision: `python -m benchmarks.decide`.

First a light policy's, against tokenizing once (benchmarks/light.py). Then the full policy's: everything in a decision
other than the backbone's forward against that forward: reading the request, freezing, the reduction of hidden states
and attention to features while they pass, structural features, scoring, selection, the rewrite, all invariants and the
receipt. By CPU time of one thread, within one run; the median of the ratios.

The policy has seeded weights of the real shapes: what a decision costs does not depend on what it decides.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from benchmarks.light import light_rows, shown
from benchmarks.long_request import recorded_runs
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.representation import FrozenRepresentation
from drsr.features.vectors import FeatureWatch
from drsr.offline import samples
from drsr.offline.freeze.states import eligible_decisions
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory
from drsr.policy.policy import Decision, Policy
from drsr.request.history import read_history
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.request.view import caps_for
from tests.seeded_policies import tiny_policy

TARGET = 0.05


class Found(NamedTuple):
    name: str
    body: dict[str, Any]
    tokens: int


class Clock:
    """CPU seconds of this thread inside some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def over(self, owner: type[Any], name: str) -> Iterator[None]:
        plain: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            try:
                return plain(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - start

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, plain)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=3_000, help="length of the request")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    light = light_rows(options.backbone, options.turns)
    print(shown(light), end="\n\n")
    backbone = load_backbone(options.backbone)
    assert isinstance(backbone, FrozenLM)
    policy = tiny_policy(backbone, minimums=None)
    found = nearest_request(backbone, options.tokens)
    print(f"{options.backbone}, one thread, CPU time; {found.name}: {found.tokens:,} tokens")
    measured(policy, found.body)  # warm
    ratios = []
    for _ in range(options.turns):
        total, forward, decision = measured(policy, found.body)
        ratios.append((total - forward) / forward)
        phases = ", ".join(f"{name} {spent:.0f}" for name, spent in decision.receipt["milliseconds"].items())
        print(f"  forward {forward:6.2f} s, all else {1000 * (total - forward):5.0f} ms, {ratios[-1]:.2%}")
    print(f"  wall milliseconds of the last one: {phases} (features with the forward)")
    ratio = statistics.median(ratios)
    print(f"  all else / forward: {ratio:.2%} (min {min(ratios):.2%}, max {max(ratios):.2%}; at most {TARGET:.0%})")
    return 0 if ratio <= TARGET and all(row.is_met for row in light) else 1


def measured(policy: Policy, body: Any) -> tuple[float, float, Decision]:
    """CPU seconds of a decision with its receipt, and those inside the backbone's own forward."""
    representation = policy.frozen.representation
    assert isinstance(representation, FrozenRepresentation)
    decoder = type(representation.backbone.model.get_decoder())
    inside, watching = Clock(), Clock()
    with inside.over(decoder, "forward"), watching.over(FeatureWatch, "attention"):  # called in the midst of a forward
        start = time.thread_time()
        decision = policy.prune(request=body, session=None)
        assert decision.receipt["passes"] == 1, decision.detail
        total = time.thread_time() - start
    return total, inside.seconds - watching.seconds, decision


def nearest_request(backbone: FrozenLM, tokens: int) -> Found:
    """The eligible request of a recorded run whose length is nearest."""
    folder = recorded_runs() / "tau-bench"
    place = str(folder) if folder.is_dir() else str(samples.CORPUS)
    best: Found | None = None
    for run in read_runs(place):
        if not isinstance(run, Trajectory):
            continue
        whole = read_request(run.request, protocol=run.protocol)
        history, rendering = read_history(whole), render(whole, backbone.tokenizer)
        cap = caps_for(backbone.window).context
        for decision in eligible_decisions(history, rendering, len(backbone.tokenizer.lead), cap):
            length = len(rendering.before(decision))
            if best is None or abs(length - tokens) < abs(best.tokens - tokens):
                body = {**run.request, "messages": run.request["messages"][:decision]}
                best = Found(f"{run.external_id} before message {decision}", body, length)
    assert best is not None
    return best


if __name__ == "__main__":
    sys.exit(main())
