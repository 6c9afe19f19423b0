"""The price of a light decision, against tokenizing its request once: `python -m benchmarks.light`.

CPU milliseconds of one thread, medians within one run: reading the request, tokenizing it, freezing, all columns,
scoring, selection, the rewrite, all invariants and the receipt. The policy has seeded weights of the real shapes, and
lets every set pass, so that there is always something to rewrite. The yardstick is tokenizing once with the package
`tokenizers`, which light policies used at first; drsr's own tokenizer is reported next to it. It remembers words:
"first" is one decision of a policy that was just loaded and remembers none.
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
"""Maximum cost of a decision, in multiples of tokenizing once, for a request long enough that fixed costs do not
matter."""
LONG = 50_000


class LightRow(NamedTuple):
    tokens: int
    target_tokens: int
    messages: int
    tokenizing: float
    """Milliseconds of the package `tokenizers`."""
    ours: float
    """The same by the policy's own tokenizer."""
    first: float
    """A decision of a policy that was just loaded."""
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


def light_rows(backbone: str, turns: int, lengths: Sequence[int] = tuple(TARGETS)) -> list[LightRow]:
    """Return a row for each length."""
    file, identity = read_tokenizer_file(backbone), identity_of(backbone)
    library, window = load_tokenizer(backbone)

    def loaded() -> Policy:
        return seeded_light_policy(LightRepresentation(file, name=backbone, identity=identity), window)

    return [_row(loaded, library, tokens, turns) for tokens in lengths]


def shown(rows: Sequence[LightRow]) -> str:
    headers = (
        "tokens",
        "messages",
        "tokenizers once, ms",
        "ours, ms",
        "first, ms",
        "decision, ms",
        "at most",
        "ratio",
        "",
    )
    cells = [
        (
            row.tokens,
            row.messages,
            f"{row.tokenizing:.1f}",
            f"{row.ours:.1f}",
            f"{row.first:.1f}",
            f"{row.decision:.1f}",
            f"{TARGETS[row.target_tokens]:.0f}",
            f"{row.ratio:.2f}" + (f" (at most {RATIO:g})" if row.target_tokens >= LONG else ""),
            "met" if row.is_met else "NOT MET",
        )
        for row in rows
    ]
    return "light policy, CPU time of one thread, medians\n" + table(headers, cells)


def _row(loaded: Callable[[], Policy], library: Tokenizer, tokens: int, turns: int) -> LightRow:
    policy = loaded()
    body = light_request(library, tokens)
    request = read_request(body)
    recorder = _Recorder(library)
    length = len(render(request, recorder))
    first = _milliseconds(lambda: policy.prune(request=body, session=None).receipt)
    decision = policy.prune(request=body, session=None)
    assert decision.outcome is not None, decision.detail
    assert decision.receipt["passes"] == 1, decision.detail
    assert decision.tokens_before == length
    own = policy.frozen.representation.tokenizer
    spent = [  # in turn, because a busy machine is not equally busy all the time
        (
            _milliseconds(lambda: library.encode_contents(recorder.texts)),
            _milliseconds(lambda: own.encode_contents(recorder.texts)),
            _milliseconds(lambda: policy.prune(request=body, session=None).receipt),
        )
        for _ in range(turns)
    ]
    tokenizing, ours, decision_time = (statistics.median(column) for column in zip(*spent, strict=True))
    ratio = statistics.median(decided / tokenized for tokenized, _, decided in spent)
    return LightRow(length, tokens, len(request.messages), tokenizing, ours, first, decision_time, ratio)


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
    """Return an eligible request of about that length: from one recorded run if it is short, else cut from a long
    session."""
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
