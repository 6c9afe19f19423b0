"""Measure what each comparator does to recorded requests, before any harm is known: `python -m benchmarks.comparators`.

Uses the requests before every fourth decision of runs outside the train split, and measures how much of a request is
removed, what a method's own model reads and writes (relative to the requests), how often its output is invalid and so
not sent, what is lost, and how long it takes without the model that it calls. LRE is trained on the train split of the
same runs. The summariser is the scripted double: the content of a summary means nothing here; its length is limited by
the method itself.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.long_request import recorded_runs
from drsr.backbone import embedded
from drsr.backbone.catalogue import load_tokenizer
from drsr.offline import samples
from drsr.offline.bench.comparators.contract import Comparator, Keep
from drsr.offline.bench.comparators.lre_training import fit_lre
from drsr.offline.bench.comparators.registry import Registry, comparators
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.replay.checked import Checked, checked_rewrite
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.ingest import formats as sources
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from drsr.request.contracts import Tokenizer
from drsr.request.request import Request, read_request
from drsr.tables import table


@dataclass
class Tally:
    """One row of the table."""

    before: int = 0
    after: int = 0
    auxiliary: int = 0
    changed: int = 0
    fell_back: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    lost: Counter[Keep] = field(default_factory=Counter)
    milliseconds: list[float] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("location", nargs="?", help="recorded runs; by default tau-bench's, or the sample corpus")
    parser.add_argument("--runs", type=int, default=12, help="how many runs to rewrite")
    parser.add_argument("--every", type=int, default=4, help="every how many decisions")
    parser.add_argument("--window", type=int, default=8_192, help="the acting model's window, in tokens")
    options = parser.parse_args()
    tokenizer, _ = load_tokenizer(embedded.NAME)
    tau_bench = recorded_runs() / "tau-bench"
    location = options.location or str(tau_bench if tau_bench.is_dir() else samples.CORPUS)
    train, others = split(location)
    registry = comparators(
        tokenizer, window=options.window, lre=fit_lre(train, TokenCounts(tokenizer)) if train else None
    )
    others = sorted(others, key=lambda request: -len(request.messages))[: options.runs]
    requests = [decisions(run)[:: options.every] for run in others]
    print(
        f"{len(others)} runs, {sum(map(len, requests))} requests, a window of {options.window:,} tokens; "
        f"LRE trained on {len(train)} runs"
    )
    rows = [row(one, tally(one, requests, tokenizer, registry)) for one in registry.available.values()]
    print(table(["method", "trained", "removed", "auxiliary", "changed", "not sent", "violations", "lost", "ms"], rows))
    for missing in registry.not_available.values():
        print(f"{missing.title}: {missing.reason}")
    return 0


def split(location: str) -> tuple[list[Request], list[Request]]:
    """Runs of the train split, and all others."""
    found: dict[bool, list[Request]] = {True: [], False: []}
    for trajectory in _trajectories(location):
        key = group_key("benchmark", trajectory.external_id, trajectory.task)
        request = read_request(trajectory.request, protocol=trajectory.protocol)
        found[assign_split(key) == "train"].append(request)
    return found[True], found[False]


def _trajectories(location: str) -> Iterator[Trajectory]:
    for file in open_location(location):
        yield from (item for item in sources.read(file) if isinstance(item, Trajectory))


def decisions(run: Request) -> list[Request]:
    """Return the requests before each assistant message."""
    ends = [index for index, message in enumerate(run.messages) if message.role == "assistant"]
    return [run.with_messages(run.messages[:end]) for end in ends]


def tally(comparator: Comparator, runs: list[list[Request]], tokenizer: Tokenizer, registry: Registry) -> Tally:
    counts, summariser, found = TokenCounts(tokenizer), ScriptedSummariser(tokenizer), Tally()
    for requests in runs:
        registry.forget()  # or later runs look quick
        state = comparator.begin()
        for request in requests:
            checked = checked_rewrite(comparator, request, state, summariser)
            found.milliseconds.append(1000 * checked.seconds)
            add(found, request, checked, counts)
    return found


def add(found: Tally, request: Request, checked: Checked, counts: TokenCounts) -> None:
    found.before += counts.request(request)
    found.after += counts.request(checked.request)
    found.auxiliary += checked.rewrite.auxiliary_input_tokens + checked.rewrite.auxiliary_output_tokens
    found.changed += checked.request is not request
    found.fell_back += checked.fell_back
    found.violations.update(str(violation.kind) for violation in checked.violations)
    found.violations.update([checked.failure] if checked.failure else [])
    found.lost.update(checked.lost)


def row(comparator: Comparator, found: Tally) -> list[str]:
    requests = len(found.milliseconds)
    return [
        comparator.title,
        comparator.trained,
        f"{1 - found.after / found.before:.1%}",
        f"{found.auxiliary / found.before:.1%}",
        f"{found.changed / requests:.0%}",
        f"{found.fell_back / requests:.0%}",
        ", ".join(f"{kind} {number}" for kind, number in sorted(found.violations.items())) or "-",
        ", ".join(f"{keep} {number}" for keep, number in sorted(found.lost.items())) or "-",
        f"{statistics.median(found.milliseconds):.1f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
