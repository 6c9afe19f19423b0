"""Candidates: Blocks that may be proposed for deletion, fixed before any harm is measured (paper, appendix B.1).

Complete Steps older than Recent2 and inside the view, split into at most four chronological bins of near-equal count;
of each bin the Block whose deletion alone saves most, the earliest on ties. Three or four candidates, or none at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from drsr.errors import AlignmentError
from drsr.request.contracts import Tokenizer
from drsr.request.history import Block, History, Protect, Step, read_history, removal
from drsr.request.protocol import Violation, ViolationKind, violations
from drsr.request.removals import Removals
from drsr.request.rendering import Rendering, render
from drsr.request.request import Request
from drsr.request.view import View, find_view

RULE_VERSION = "recent2-bins4-longest/1"
"""Changes whenever the same request would give other candidates. Part of a frozen state's identity."""

TOLERATED = frozenset({ViolationKind.CALL_WITHOUT_RESULT})
"""Violations that a request may bring with it: real histories hold calls that were aborted. Their Steps are incomplete,
and so protected. Any other violation makes a request ineligible, and no rewrite may add one of any kind."""

BINS = 4
MINIMUM = 3
"""Fewer candidates than this leave the request unchanged."""


class IneligibleReason(StrEnum):
    INVALID_PROTOCOL = "invalid_protocol"
    ALIGNMENT_FAILURE = "alignment_failure"
    RECENT_EXCEEDS_VIEW = "recent_exceeds_view"
    TOO_FEW_CANDIDATES = "too_few_candidates"


class Ineligible(NamedTuple):
    """The reason why a request has no candidates. An expected outcome, not an error."""

    reason: IneligibleReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


class Candidate(NamedTuple):
    """A Block that may be proposed for deletion."""

    block: Block
    direct_saving: int
    """Tokens saved on the full request by deleting it alone."""
    token_spans: tuple[range, ...]
    """Its tokens in the rendering of the full request."""


class DecisionState(NamedTuple):
    """An eligible request, taken apart once: all that deletion sets, features and labels start from."""

    history: History
    rendering: Rendering
    view: View
    candidates: tuple[Candidate, ...]
    violations: tuple[Violation, ...]
    """Protocol violations of the request itself, all of them tolerated; a rewrite may not add any."""


def freeze(
    request: Request, tokenizer: Tokenizer, context_cap: int, protect: Protect | None = None
) -> DecisionState | Ineligible:
    """Take a request apart and freeze its candidates, or say why it has none."""
    found = violations(request)
    invalid = invalid_protocol(found)
    if invalid is not None:
        return invalid
    try:
        rendering = render(request, tokenizer)
    except AlignmentError as error:
        return Ineligible(IneligibleReason.ALIGNMENT_FAILURE, str(error))
    return freeze_rendered(read_history(request, protect), rendering, found, len(tokenizer.lead), context_cap)


def freeze_rendered(
    history: History, rendering: Rendering, found: Sequence[Violation], lead: int, context_cap: int
) -> DecisionState | Ineligible:
    """Freeze the candidates of a request that was taken apart and rendered before, and whose violations are known."""
    invalid = invalid_protocol(found)
    if invalid is not None:
        return invalid
    older = len(history.older)
    steps = f"{len(history.steps)} Steps, {older} older than the latest two"
    if older < MINIMUM:
        return Ineligible(IneligibleReason.TOO_FEW_CANDIDATES, f"{older} of at least {MINIMUM}: {steps}")
    view = find_view(history, rendering, lead, context_cap)
    if view is None:
        return Ineligible(
            IneligibleReason.RECENT_EXCEEDS_VIEW,
            f"the two latest Steps and what follows are longer than the context cap of {context_cap} tokens",
        )
    candidates = choose_candidates(history, rendering, view, found)
    if len(candidates) < MINIMUM:
        inside = sum(step.message >= view.first_message for step in history.older)
        return Ineligible(
            IneligibleReason.TOO_FEW_CANDIDATES,
            f"{len(candidates)} of at least {MINIMUM}: {steps}, {inside} of them inside the view of "
            f"{context_cap} tokens, not all with a Block that can be deleted",
        )
    return DecisionState(history, rendering, view, candidates, tuple(found))


def invalid_protocol(found: Sequence[Violation]) -> Ineligible | None:
    """Return the outcome for a request that breaks the protocol's rules itself in a way that is not tolerated."""
    broken = [violation for violation in found if violation.kind not in TOLERATED]
    if not broken:
        return None
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    # Without the call's id: whoever wrote the request chose it, and it would get into receipts.
    return Ineligible(IneligibleReason.INVALID_PROTOCOL, f"{broken[0].place}{more}")


def choose_candidates(
    history: History, rendering: Rendering, view: View, found: Sequence[Violation], bins: int = BINS
) -> tuple[Candidate, ...]:
    """Return the longest Block of each chronological bin whose deletion adds no violation to those found in the
    request."""
    inside = [step for step in history.older if step.message >= view.first_message]
    proposals = [(step, _deletable(step)) for step in inside]
    proposals = [(step, blocks) for step, blocks in proposals if blocks]
    judge = Removals(history.request, found)
    chosen = []
    for lower, upper in bin_edges(len(proposals), bins):
        blocks = [block for _, blocks in proposals[lower:upper] for block in blocks]
        candidate = _longest_valid(history, rendering, blocks, judge)
        if candidate is not None:
            chosen.append(candidate)
    return tuple(chosen)


def bin_edges(count: int, bins: int) -> list[tuple[int, int]]:
    """Return at most `bins` consecutive ranges over `count` items; sizes differ by at most one, larger ranges first."""
    bins = min(bins, count)
    if bins == 0:
        return []
    size, larger = divmod(count, bins)
    edges = [0]
    for number in range(bins):
        edges.append(edges[-1] + size + (number < larger))
    return list(zip(edges[:-1], edges[1:], strict=True))


def _deletable(step: Step) -> list[Block]:
    return [block for block in step.blocks if not block.opaque and not block.pinned]


def _longest_valid(history: History, rendering: Rendering, blocks: list[Block], judge: Removals) -> Candidate | None:
    """Longest first, so that as a rule only one rewrite is validated."""
    removals = [(block, removal(history, [block])) for block in blocks]
    savings = [(rendering.direct_saving(removed), block, removed) for block, removed in removals]
    savings.sort(key=lambda item: (-item[0], item[1].step, item[1].component))
    for saving, block, removed in savings:
        if saving > 0 and not judge.new_violations(removed):
            return Candidate(block, saving, rendering.token_spans(block))
    return None
