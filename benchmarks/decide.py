"""The price of a decision: `python -m benchmarks.decide`.

For requests of 3,000, 50,000 and 200,000 tokens, in one run:

- the light policy, CPU time of one thread against tokenizing once (benchmarks/light.py);
- the full policy in float32 and in 8 bits, with one thread and with two: a first decision and the next one of the same
  run in a session, by CPU time and by the clock, and the peak memory of a process that does nothing else. Beyond its
  window it reads the newest tokens that fit. Such a view moves with every call, so a session has nothing to go on from;
- everything in a decision other than the backbone's forward against that forward, by CPU time of one thread.

Policies have seeded weights of the real shapes (no full policy is released yet): what a decision costs does not depend
on what it decides. Four to eight minutes of CPU; `--light` ends after the first table, `--tokens 3000` keeps to one
length.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.light import TARGETS, light_request, light_rows, shown
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, freeze
from drsr.decide.representation import FrozenRepresentation
from drsr.decide.threads import use_quickest
from drsr.features.vectors import FeatureWatch
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.request.contracts import Tokenizer
from drsr.tables import table
from tests.seeded_policies import tiny_policy

TARGET = 0.05
SHORT = 3_000


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
    parser.add_argument("--backbone", default="smollm2-135m", help="in float32; 8 bits are its own kind of it")
    parser.add_argument("--turns", type=int, default=9, help="of each light decision")
    parser.add_argument("--light", action="store_true", help="the light policy alone")
    parser.add_argument("--tokens", type=int, nargs="+", choices=TARGETS, default=list(TARGETS), help="lengths")
    parser.add_argument("--full", metavar="BACKBONE", help="print the rows of one backbone as JSON and end")
    options = parser.parse_args()
    if options.full:
        print(json.dumps([row._asdict() for row in full_rows(options.full, options.tokens)]))
        return 0
    light = light_rows(options.backbone, options.turns, options.tokens)
    print(shown(light), end="\n\n", flush=True)
    if options.light:
        return 0 if all(row.is_met for row in light) else 1
    names = (options.backbone, f"{options.backbone}-int8")
    rows = [FullRow(**row) for name in names for row in _in_a_process(name, options.tokens)]
    print(shown_full(rows), end="\n\n", flush=True)
    gains = [one.first / other.first for one, other in zip(*_halves(rows), strict=True)]
    print(f"8-bit first decisions: {min(gains):.2f} to {max(gains):.2f} times faster than float32 by CPU time")
    ratio = forward_share(options.backbone)
    return 0 if ratio <= TARGET and all(row.is_met for row in light) else 1


class FullRow(NamedTuple):
    backbone: str
    threads: int
    tokens: int
    read: int
    """Tokens that the language model reads: the view."""
    first: float
    """CPU seconds of a first decision, of all threads."""
    first_clock: float
    session: float | None
    """CPU seconds of the next decision in a session; None if a session has no state to continue from."""
    session_clock: float | None
    new: int | None
    """Number of new tokens in that decision."""
    peak: float
    """Peak memory of the process so far, MB."""
    quickest: int
    """Threads that `use_quickest` chooses here."""


def full_rows(name: str, lengths: Sequence[int]) -> list[FullRow]:
    """Return a row for each length and number of threads, shortest first, so that the peak is that of the length."""
    backbone = load_backbone(name)
    assert isinstance(backbone, FrozenLM)
    policy = tiny_policy(backbone, minimums=None)
    quickest = use_quickest(backbone)
    return [_full_row(policy, backbone, tokens, threads, quickest) for tokens in lengths for threads in (1, 2)]


def _full_row(policy: Policy, backbone: FrozenLM, tokens: int, threads: int, quickest: int) -> FullRow:
    torch.set_num_threads(threads)
    body = light_request(backbone.tokenizer, tokens)
    first, decision, first_clock = _spent(lambda: policy.prune(request=body, session=None))
    assert decision.outcome is not None, decision.detail
    decided = decision.outcome.evidence.state
    assert decided is not None, decision.detail
    rendering = decided.rendering
    read = len(decided.view.token_ids(rendering.token_ids))
    session: float | None = None
    session_clock: float | None = None
    new: int | None = None
    if read == len(rendering):
        source = policy.frozen.representation.session()
        before = decision_before(decided, backbone.tokenizer, policy.numbers.view_cap)
        source.features(before)
        session, _, session_clock = _spent(lambda: source.features(decided))
        new = len(rendering) - len(before.rendering)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    about = (policy.numbers.backbone.name, threads, len(rendering), read)
    return FullRow(*about, first, first_clock, session, session_clock, new, peak, quickest)


def decision_before(state: DecisionState, tokenizer: Tokenizer, cap: int) -> DecisionState:
    """Return the latest earlier decision of the same run that has candidates."""
    request = state.history.request
    earlier = (request.with_messages(request.messages[: step.message]) for step in reversed(state.history.steps))
    frozen = (freeze(each, tokenizer, cap) for each in earlier)
    return next(found for found in frozen if isinstance(found, DecisionState))


def _spent(work: Callable[[], Any]) -> tuple[float, Any, float]:
    start, clock = time.process_time(), time.perf_counter()
    found = work()
    return time.process_time() - start, found, time.perf_counter() - clock


def _in_a_process(name: str, lengths: Sequence[int]) -> list[dict[str, Any]]:
    """Measure in a process of its own, for its memory."""
    command = [sys.executable, "-m", "benchmarks.decide", "--full", name, "--tokens", *map(str, lengths)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _halves(rows: list[FullRow]) -> tuple[list[FullRow], list[FullRow]]:
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def shown_full(rows: list[FullRow]) -> str:
    """Return the table of the full policy."""
    headers = ("backbone", "threads", "tokens", "read", "first, CPU s", "clock s", "in a session, CPU s", "clock s")
    cells = [
        (
            row.backbone,
            row.threads,
            row.tokens,
            row.read,
            f"{row.first:.1f}",
            f"{row.first_clock:.1f}",
            "as the first" if row.session is None else f"{row.session:.2f} ({row.new} new tokens)",
            "" if row.session_clock is None else f"{row.session_clock:.2f}",
            f"{row.peak:.0f}",
        )
        for row in rows
    ]
    chosen = ", ".join(f"{row.quickest} for {row.backbone}" for row in rows[:: max(len(rows) // 2, 1)])
    title = f"full policy, seeded weights; threads that the proxy would choose by measuring now: {chosen}\n"
    return title + table((*headers, "peak MB"), cells)


def forward_share(name: str) -> float:
    """Return everything in a decision but the backbone's forward, in parts of the forward."""
    torch.set_num_threads(1)
    backbone = load_backbone(name)
    assert isinstance(backbone, FrozenLM)
    policy = tiny_policy(backbone, minimums=None)
    body = light_request(backbone.tokenizer, SHORT)
    total, forward, decision = measured(policy, body)
    share = (total - forward) / forward
    print(
        f"{name}, one thread, {decision.tokens_before:,} tokens: forward {forward:.2f} s of CPU, all else "
        f"{1000 * (total - forward):.0f} ms, {share:.2%} (at most {TARGET:.0%})"
    )
    return share


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


if __name__ == "__main__":
    sys.exit(main())
