"""Long histories: what is outside the window of a full policy. `python -m benchmarks.long_histories`.

For requests of recorded runs at some lengths: the Blocks that may be deleted (complete, older than Recent2, text) and
their tokens, how many of them are before the view that the full policy reads, and what the candidates of each policy
would save if all of them were deleted. The light policy's view is the whole request. No language model is read.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.long_request import recorded_runs
from drsr.backbone.catalogue import load_tokenizer
from drsr.decide.candidates import DecisionState, Ineligible, freeze_rendered
from drsr.errors import DrsrError
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.contracts import Tokenizer
from drsr.request.history import History, read_history, removal
from drsr.request.protocol import violations
from drsr.request.rendering import Rendering, render
from drsr.request.request import read_request
from drsr.request.view import caps_for, find_view
from drsr.tables import table

SOURCES = ("pi-coding-agent", "swe-agent-v0", "openhands-v0", "openhands-codeact-0.15")
LENGTHS = (20_000, 50_000, 100_000, 200_000)


class Longest(NamedTuple):
    """One request, and what each policy can propose there."""

    source: str
    wanted: int
    tokens: int
    removable: int
    """Tokens of all Blocks that may be deleted."""
    outside: int
    """Number of those before the view of the full policy."""
    light: int
    """Tokens saved by deleting all candidates of the light policy."""
    full: int
    """The same for the full policy; 0 if it has none."""
    proposes: bool
    """True if the full policy has candidates."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--runs", type=int, default=10, help="of each source at most, the first that are long enough")
    options = parser.parse_args()
    read = load_tokenizer(options.backbone)
    cap = caps_for(read.window).context
    found = [one for source in SOURCES for one in requests_of(source, read.tokenizer, cap, options.runs)]
    print(f"{options.backbone}: the full policy reads at most {cap:,} tokens, the light one all")
    print(shown(found))
    return 0


def requests_of(source: str, tokenizer: Tokenizer, cap: int, runs: int) -> Iterator[Longest]:
    """Yield, for some runs of a source, the last request below each length."""
    folder = recorded_runs() / source
    taken = 0
    for run in read_runs(str(folder)) if folder.is_dir() else ():
        if taken == runs:
            return
        if not isinstance(run, Trajectory) or sum(len(str(message)) for message in run.request["messages"]) < 60_000:
            continue
        rows = list(lengths_of(source, run, tokenizer, cap))
        taken += bool(rows)
        yield from rows


def lengths_of(source: str, run: Trajectory, tokenizer: Tokenizer, cap: int) -> Iterator[Longest]:
    """Yield the last request of a run below each length that it reaches."""
    try:
        whole = read_request(run.request, protocol=run.protocol)
        rendering = render(whole, tokenizer)
    except DrsrError:
        return
    decisions = [step.message for step in read_history(whole).steps]
    for wanted in LENGTHS:
        fitting = [index for index in decisions if rendering.message_spans[index].start <= wanted]
        if not fitting or rendering.message_spans[fitting[-1]].start < wanted * 0.75:
            continue
        request = whole.with_messages(whole.messages[: fitting[-1]])
        found = compared(source, wanted, read_history(request), rendering.before(fitting[-1]), len(tokenizer.lead), cap)
        if found is not None:
            yield found


def compared(source: str, wanted: int, history: History, rendering: Rendering, lead: int, cap: int) -> Longest | None:
    """Return what both policies can propose for a request; None if not even the light one has candidates."""
    broken = violations(history.request)
    light = freeze_rendered(history, rendering, broken, lead, len(rendering))
    if isinstance(light, Ineligible):
        return None
    full = freeze_rendered(history, rendering, broken, lead, cap)
    view = find_view(history, rendering, lead, cap)
    first = len(history.request.messages) if view is None else view.first_message
    blocks = [
        (step.message, sum(map(len, rendering.token_spans(block))))
        for step in history.older
        for block in step.blocks
        if not block.opaque and not block.pinned
    ]
    return Longest(
        source=source,
        wanted=wanted,
        tokens=len(rendering),
        removable=sum(tokens for _, tokens in blocks),
        outside=sum(tokens for message, tokens in blocks if message < first),
        light=_saving(light),
        full=_saving(full) if isinstance(full, DecisionState) else 0,
        proposes=isinstance(full, DecisionState),
    )


def shown(found: Sequence[Longest]) -> str:
    """Return a row for each source and length, medians of shares."""
    rows = []
    for key in dict.fromkeys((one.source, one.wanted) for one in found):
        these = [one for one in found if (one.source, one.wanted) == key]
        rows.append(
            (
                *key,
                len(these),
                _median([one.removable / one.tokens for one in these]),
                _median([one.outside / one.removable for one in these]),
                f"{sum(one.proposes for one in these)} of {len(these)}",
                _median([one.full / one.tokens for one in these]),
                _median([one.light / one.tokens for one in these]),
            )
        )
    headers = ("source", "tokens up to", "requests", "removable", "outside the window", "full has candidates")
    return table((*headers, "full: all candidates", "light: all candidates"), rows)


def _saving(state: DecisionState) -> int:
    gone = removal(state.history, [candidate.block for candidate in state.candidates])
    return state.rendering.direct_saving(gone)


def _median(shares: list[float]) -> str:
    return f"{statistics.median(shares):.1%}"


if __name__ == "__main__":
    raise SystemExit(main())
