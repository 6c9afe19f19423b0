"""The price of a light decision, against tokenizing its request once: `python -m benchmarks.light`.

CPU milliseconds of one thread, medians within one run: reading the request, tokenizing it, freezing, all columns,
scoring, selection, the rewrite, all invariants and the receipt. The policy has seeded weights of the real shapes, and
lets every set pass, so that there is always something to rewrite.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.long_request import long_request, recorded_runs
from drsr.backbone.catalogue import identity_of, load_tokenizer, read_tokenizer_file
from drsr.offline import samples
from drsr.offline.freeze.states import eligible_decisions
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory
from drsr.policy.light_representation import LightRepresentation
from drsr.policy.policy import Policy
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.history import read_history
from drsr.request.rendering import render
from drsr.request.request import read_request
from drsr.tables import table
from tests.seeded_policies import seeded_light_policy

TARGETS = {3_000: 25.0, 50_000: 150.0, 200_000: 600.0}
"""Most milliseconds of a decision, by tokens of the request."""
RATIO = 1.5
"""Most of a decision, in times of tokenizing once, where a request is long enough for fixed costs not to count."""
LONG = 50_000


class LightRow(NamedTuple):
    tokens: int
    target_tokens: int
    messages: int
    tokenizing: float
    """Milliseconds."""
    decision: float
    ratio: float
    """Median of a decision to the tokenizing right before it."""

    @property
    def is_met(self) -> bool:
        """Scaled to the length that the target is for: no recorded request has exactly that."""
        within = self.decision <= TARGETS[self.target_tokens] * max(1.0, self.tokens / self.target_tokens)
        return within and (self.target_tokens < LONG or self.ratio <= RATIO)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="smollm2-135m", help="whose tokens are counted")
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    rows = light_rows(options.backbone, options.turns)
    print(shown(rows))
    return 0 if all(row.is_met for row in rows) else 1


def light_rows(backbone: str, turns: int) -> list[LightRow]:
    """A row for each length."""
    read = LightRepresentation(read_tokenizer_file(backbone), name=backbone, identity=identity_of(backbone))
    policy = seeded_light_policy(read, load_tokenizer(backbone).window)
    return [_row(policy, tokens, turns) for tokens in TARGETS]


def shown(rows: Sequence[LightRow]) -> str:
    headers = ("tokens", "messages", "tokenizing once, ms", "light decision, ms", "at most", "ratio", "")
    cells = [
        (
            row.tokens,
            row.messages,
            f"{row.tokenizing:.1f}",
            f"{row.decision:.1f}",
            f"{TARGETS[row.target_tokens]:.0f}",
            f"{row.ratio:.2f}" + (f" (at most {RATIO:g})" if row.target_tokens >= LONG else ""),
            "met" if row.is_met else "NOT MET",
        )
        for row in rows
    ]
    return "light policy, CPU time of one thread, medians\n" + table(headers, cells)


def _row(policy: Policy, tokens: int, turns: int) -> LightRow:
    tokenizer = policy.frozen.representation.tokenizer
    body = light_request(tokenizer, tokens)
    request = read_request(body)
    recorder = _Recorder(tokenizer)
    length = len(render(request, recorder))
    decision = policy.prune(request=body, session=None)
    assert decision.outcome is not None, decision.detail
    assert decision.receipt["passes"] == 1, decision.detail
    assert decision.tokens_before == length
    spent = [  # in turn, because a busy machine is not equally busy all the time
        (
            _milliseconds(lambda: tokenizer.encode_contents(recorder.texts)),
            _milliseconds(lambda: policy.prune(request=body, session=None).receipt),
        )
        for _ in range(turns)
    ]
    tokenizing, decision_time = (statistics.median(column) for column in zip(*spent, strict=True))
    ratio = statistics.median(decided / tokenized for tokenized, decided in spent)
    return LightRow(length, tokens, len(request.messages), tokenizing, decision_time, ratio)


def _milliseconds(work: Callable[[], Any]) -> float:
    start = time.thread_time()
    work()
    return 1000 * (time.thread_time() - start)


class _Recorder:
    """A tokenizer that writes down which contents it was asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.identity, self.lead = tokenizer.identity, tokenizer.lead
        self.texts: list[str] = []

    def encode_frame(self, text: str) -> TokenIds:
        return self._tokenizer.encode_frame(text)

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        self.texts += texts
        return self._tokenizer.encode_contents(texts)


def light_request(tokenizer: Tokenizer, tokens: int) -> Any:
    """An eligible request of about that length: of one recorded run where it is short, cut from a long session else."""
    if tokens >= LONG:
        return long_request(tokenizer, tokens).request.to_wire()
    folder = recorded_runs() / "tau-bench"
    best: tuple[int, Any] | None = None
    for run in read_runs(str(folder) if folder.is_dir() else str(samples.CORPUS)):
        if not isinstance(run, Trajectory):
            continue
        whole = read_request(run.request, protocol=run.protocol)
        rendering = render(whole, tokenizer)
        for decision in eligible_decisions(read_history(whole), rendering, len(tokenizer.lead), sys.maxsize):
            off = abs(len(rendering.before(decision)) - tokens)
            if best is None or off < best[0]:
                best = off, {**run.request, "messages": run.request["messages"][:decision]}
    assert best is not None
    return best[1]


if __name__ == "__main__":
    sys.exit(main())
