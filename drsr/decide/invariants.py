"""The eight invariants of "Protocol-Preserving Deletion" (paper, appendix), each checked by its own function.

They look at the request that is about to be returned, not at the steps that led to it, and are logically separate from
the learned score. Each returns None, or one sentence that says what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from drsr.decide.candidates import DecisionState
from drsr.decide.deletion_sets import DeletionSet
from drsr.decide.selection import ProposedSets, Selection, SelectionRule
from drsr.features.spans import prefix_hash
from drsr.features.vectors import CandidateFeatures
from drsr.request.contracts import TokenIds
from drsr.request.history import Block, History, Rewrite
from drsr.request.parts import Message, PartRef, is_reasoning, says_something
from drsr.request.protocol import Violation, new_violations, pair_calls
from drsr.request.request import Request
from drsr.request.tokens_read import why_not_the_end_of


@dataclass(frozen=True, slots=True)
class Evidence:
    """A decision that is ready to be returned, and what it rests on."""

    original: History
    """The request as received, taken apart, with the Blocks that the consumer pinned."""
    base: Request
    """Request that was decided on: the original, or in a session the original without earlier deletions."""
    returned: Rewrite
    """Request to be sent, and for each of its messages the index in the original."""
    violations: tuple[Violation, ...]
    """Protocol violations of the original itself."""
    rule: SelectionRule
    base_kept: tuple[int, ...] | None = None
    """Index in the original of each message of the base; None if the base is the original."""
    tokens_before: int | None = None
    """Tok(C) of the original; None if it could not be rendered."""
    tokens_after: int | None = None
    """Tok of what is returned: its own messages rendered, those of the original as they were."""
    sets: tuple[DeletionSet, ...] = ()
    """The sets that were proposed, a row each."""
    proposed: ProposedSets | None = None
    selection: Selection | None = None
    """Selected set; None if nothing was scored because the request is ineligible or scoring failed."""
    state: DecisionState | None = None
    features: CandidateFeatures | None = None
    passes: int = 0
    """Number of times the representation model was asked for this decision."""
    tokens_read: tuple[TokenIds, ...] = ()
    """Tokens that the model read for this decision, recorded where it reads them."""

    @property
    def deletes(self) -> bool:
        """Return whether this decision deletes something."""
        return self.returned.request is not self.base and self.returned.request != self.base


class Held(NamedTuple):
    """One invariant and whether it held."""

    name: str
    problem: str | None
    """Reason why the invariant does not hold; None if it does."""


def recent_steps_stay(evidence: Evidence) -> str | None:
    """(i) The two latest complete Steps, and all that came after them, are as they were. So is what is pinned,
    opaque, the user's, or the prefix."""
    history, returned = evidence.original, evidence.returned
    place = {original: number for number, original in enumerate(returned.kept)}
    first_recent = history.recent[0].message if history.recent else 0
    older = _older_blocks(history)
    for index, message in enumerate(history.request.messages):
        after = returned.request.messages[place[index]] if index in place else None
        if after is message or (after is not None and after.wire == message.wire):
            continue
        if index < history.prefix_length or index >= first_recent:
            where = "the prefix" if index < history.prefix_length else "Recent2"
            return f"message {index} of {where} was changed"
        kept = Counter(_said(after)) if after else Counter[str]()
        protected = Counter(_said(message, _protected(message, older.get(index, []))))
        if protected - kept:
            return f"message {index} lost a protected part"
    return None


def exchanges_stay_whole(evidence: Evidence) -> str | None:
    """(ii) A call and its result stay together or go together."""
    before, after = evidence.original.request, evidence.returned.request
    had, has = _exchanges(before, range(len(before.messages))), _exchanges(after, evidence.returned.kept)
    if has.answered - had.answered:
        return f"{(has.answered - had.answered).total()} results answer other calls than before"
    if has.open != had.open:
        return "other calls than before have no result"
    if has.orphans != had.orphans:
        return "other results than before have no call"
    return None


def nothing_dangles(evidence: Evidence) -> str | None:
    """(iii) No dangling id and no empty assistant message that the original did not have, nor any other violation."""
    found = new_violations(evidence.returned.request, evidence.returned.kept, evidence.violations)
    return f"{len(found)} new violations, such as {found[0].kind}" if found else None


def removal_within_cap(evidence: Evidence) -> str | None:
    """(iv) The full serialised request shrinks by at most the removal cap, and never grows."""
    before, after = evidence.tokens_before, evidence.tokens_after
    if before is None or after is None:
        return "a request was changed that could not be measured" if evidence.deletes else None
    if after > before:
        return f"{after} tokens, {before} before"
    if before - after > evidence.rule.removal_cap * before:
        return f"{before - after} of {before} tokens removed, the cap is {evidence.rule.removal_cap:.0%}"
    if evidence.deletes and after == before:
        return "something was deleted and nothing saved"
    return None


def only_gated_sets(evidence: Evidence) -> str | None:
    """(v) What is missing from the returned request is exactly a scored set of at most K candidates, whose unsafe score
    is within the threshold."""
    if not evidence.deletes:
        return None
    if evidence.proposed is None or evidence.state is None or evidence.selection is None:
        return "something was deleted that no selection chose"
    gone = _gone(evidence)
    rows = [row for row, found in enumerate(evidence.sets) if _is_what_is_gone(evidence.state, found, gone)]
    if not rows:
        return "what was deleted is none of the sets that were scored"
    if evidence.selection.chosen not in rows:
        return "another set was deleted than was chosen"
    row = evidence.selection.chosen
    score, size = float(evidence.proposed.unsafe_score[row]), len(evidence.sets[row].members)
    if not score <= evidence.rule.risk_threshold:
        return f"unsafe score {score} above {evidence.rule.risk_threshold}"
    if not 1 <= size <= evidence.rule.max_cardinality:
        return f"{size} candidates at once, at most {evidence.rule.max_cardinality}"
    return None


def kept_when_nothing_feasible(evidence: Evidence) -> str | None:
    """(vi) Without a feasible set the complete request is retained."""
    selection = evidence.selection
    if selection is None or selection.feasible.any():
        return None
    return "no set is feasible, yet the request was changed" if evidence.deletes else None


def kept_when_not_eligible(evidence: Evidence) -> str | None:
    """(vii) A request that cannot be aligned or breaks the protocol itself, or has too few candidates, is unchanged."""
    if evidence.state is not None:
        return None
    return "the request is not eligible, yet it was changed" if evidence.deletes else None


def one_look_at_the_intact_prefix(evidence: Evidence) -> str | None:
    """(viii) The representation model was run once, over exactly the intact request and never over a rewrite: so no
    future and no counterfactual can have entered. Judged by the tokens that went into the model."""
    if evidence.features is None or evidence.state is None:
        unscored = evidence.passes or len(evidence.tokens_read)
        return f"{unscored} passes of the model without a score" if unscored else None
    if evidence.passes != 1:
        return f"{evidence.passes} passes of the model for one decision"
    if evidence.features.prefix_hash != prefix_hash(evidence.state):
        return "the features are of another prefix"
    view = evidence.state.view.token_ids(evidence.state.rendering.token_ids)
    return why_not_the_end_of(view, evidence.tokens_read)


INVARIANTS: tuple[Callable[[Evidence], str | None], ...] = (
    recent_steps_stay,
    exchanges_stay_whole,
    nothing_dangles,
    removal_within_cap,
    only_gated_sets,
    kept_when_nothing_feasible,
    kept_when_not_eligible,
    one_look_at_the_intact_prefix,
)
"""In the paper's order, (i) to (viii)."""


def check_all(evidence: Evidence) -> tuple[Held, ...]:
    """Return every invariant, in order."""
    return tuple(Held(invariant.__name__, invariant(evidence)) for invariant in INVARIANTS)


class _Exchanges(NamedTuple):
    """The exchanges of a request, with messages numbered as in the original."""

    answered: Counter[tuple[int, int]]
    """Number of calls answered from one message to another."""
    open: Counter[int]
    """Per message, how many calls have no result."""
    orphans: Counter[int]
    """Per message, how many results have no call."""


def _exchanges(request: Request, original: tuple[int, ...] | range) -> _Exchanges:
    pairing = pair_calls(request)
    return _Exchanges(
        Counter((original[call.message], original[result.message]) for call, result in pairing.result_of.items()),
        Counter(original[call.message] for call in pairing.unanswered),
        Counter(original[result.message] for result in pairing.orphans),
    )


def _older_blocks(history: History) -> dict[int, list[tuple[Block, int]]]:
    """Return, for each message, its parts in Blocks that are older than Recent2 and not pinned, each with its Block."""
    found: dict[int, list[tuple[Block, int]]] = {}
    for block in (block for step in history.older for block in step.blocks if not block.pinned):
        for ref in block.parts:
            found.setdefault(ref.message, []).append((block, ref.part))
    return found


def _protected(message: Message, older: list[tuple[Block, int]]) -> list[int]:
    """Return the parts that must stay: all except text parts that belong to older Blocks. Reasoning is removed with the
    call it led to, and parts without content (an empty text next to results) with their message."""
    may_go = {number for block, number in older if not block.opaque or is_reasoning(message.parts[number])}
    return [n for n, part in enumerate(message.parts) if n not in may_go and says_something(part)]


def _gone(evidence: Evidence) -> dict[int, Counter[str]]:
    """Return what each message of the base has lost, by comparing the messages themselves."""
    kept = evidence.base_kept or range(len(evidence.base.messages))
    place = {original: number for number, original in enumerate(evidence.returned.kept)}
    found = {}
    for index, message in enumerate(evidence.base.messages):
        after = evidence.returned.request.messages[place[kept[index]]] if kept[index] in place else None
        if after is message:
            continue
        lost = Counter(_said(message)) - (Counter(_said(after)) if after else Counter[str]())
        if lost:
            found[index] = lost
    return found


def _is_what_is_gone(state: DecisionState, found: DeletionSet, gone: dict[int, Counter[str]]) -> bool:
    """Return whether what is gone is this set: all parts of its Blocks, and apart from them, in the same messages, at
    most reasoning that led to them and parts without content."""
    if {ref.message for ref in _parts_of(state, found)} != gone.keys():
        return False
    members: dict[int, Counter[str]] = {}
    for ref in _parts_of(state, found):
        message = state.history.request.messages[ref.message]
        members.setdefault(ref.message, Counter()).update(_said(message, [ref.part]))
    if any(members[index] - gone[index] for index in members):
        return False
    for index in gone:
        parts = state.history.request.messages[index].parts
        along = [n for n, part in enumerate(parts) if is_reasoning(part) or not says_something(part)]
        if gone[index] - members[index] - Counter(_said(state.history.request.messages[index], along)):
            return False
    return True


def _parts_of(state: DecisionState, found: DeletionSet) -> Iterator[PartRef]:
    return (ref for member in found.members for ref in state.candidates[member].block.parts)


def _said(message: Message, numbers: list[int] | None = None) -> list[str]:
    """Return the content of some parts of a message, independent of their positions in it."""
    wanted = range(len(message.parts)) if numbers is None else numbers
    return [repr(replace(message.parts[number], place=())) for number in wanted]
