"""The check after every comparator: what it broke is counted and shown, and an invalid request is never sent on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from drsr.errors import ComparatorError, DrsrError, SummariserFailed
from drsr.offline.bench.comparators.contract import Comparator, Keep, Rewrite
from drsr.offline.bench.summarisers.summariser import Ask, Completion, Summariser
from drsr.request.history import read_history
from drsr.request.parts import Message, Text
from drsr.request.protocol import Violation, ViolationKind, violations
from drsr.request.request import Request


class Checked(NamedTuple):
    """A rewrite that was looked at."""

    request: Request
    """Request to send: the rewrite, or the original if the rewrite cannot be sent."""
    rewrite: Rewrite
    """Rewrite that the comparator made, whatever it is. Its cost counts even if it fell back."""
    violations: tuple[Violation, ...]
    """Rules that the rewrite breaks and the request did not."""
    failure: str | None
    """Reason, other than violations, why there is no rewrite that could be sent; contains nothing of the request."""
    lost: frozenset[Keep]
    """Parts of the request that the rewrite no longer keeps, among all that can be kept."""
    seconds: float
    """Seconds that the comparator took, including model calls but not this check."""

    @property
    def fell_back(self) -> bool:
        return bool(self.violations) or self.failure is not None

    @property
    def reason(self) -> str:
        """Return why it fell back, in a few words that hold nothing of the request; empty if it did not."""
        kinds = sorted({str(violation.kind) for violation in self.violations})
        return "; ".join([*([", ".join(kinds)] if kinds else []), *([self.failure] if self.failure else [])])


class CountedSummariser:
    """Count the usage of a summariser, even if the comparator fails afterwards."""

    def __init__(self, summariser: Summariser) -> None:
        self._summariser = summariser
        self.input_tokens = 0
        self.output_tokens = 0

    @property
    def name(self) -> str:
        return self._summariser.name

    def complete(self, ask: Ask) -> Completion:
        completion = self._summariser.complete(ask)
        self.input_tokens += completion.input_tokens
        self.output_tokens += completion.output_tokens
        return completion


def checked_rewrite(comparator: Comparator, request: Request, state: Any, summariser: Summariser) -> Checked:
    """Rewrite, check, and fall back to the original request if the rewrite is not valid. SummariserFailed passes
    through: the caller stops."""
    counted = CountedSummariser(summariser)
    started = time.perf_counter()
    try:
        rewrite = comparator.rewrite(request, state, counted)
    except SummariserFailed:  # no question would be answered: that says nothing about the comparator
        raise
    except DrsrError as error:
        # Only a comparator's own complaints are known to quote nothing of the request.
        why = error.what if isinstance(error, ComparatorError) else type(error).__name__
        nothing = Rewrite(request, counted.input_tokens, counted.output_tokens)
        return Checked(request, nothing, (), why, frozenset(), time.perf_counter() - started)
    seconds = time.perf_counter() - started
    found = added_violations(request, rewrite.request)
    failure = None if _speaks(rewrite.request) or not _speaks(request) else "nothing of the conversation is left"
    lost = lost_by(request, rewrite.request, found)
    return Checked(request if found or failure else rewrite.request, rewrite, found, failure, lost, seconds)


def added_violations(before: Request, after: Request) -> tuple[Violation, ...]:
    """Return what `after` breaks beyond `before`. Messages may have moved, so violations are matched by kind and id."""
    if after is before:
        return ()
    left = Counter(_comparable(violation) for violation in violations(before))
    added = []
    for violation in violations(after):
        if left[_comparable(violation)]:
            left[_comparable(violation)] -= 1
        else:
            added.append(violation)
    return tuple(added)


def lost_by(before: Request, after: Request, added: Sequence[Violation]) -> frozenset[Keep]:
    """Return the parts of `before` that are not unchanged in `after`."""
    if after is before:
        return frozenset()
    history = read_history(before)
    prefix = before.messages[: history.prefix_length]
    recent = before.messages[history.recent[0].message if history.recent else history.prefix_length :]
    later = [message for message in before.messages[history.prefix_length :] if message.role == "user"]
    kept = {
        Keep.PAIRS: not added,
        Keep.PREFIX: before.system == after.system and _same(prefix, after.messages[: len(prefix)]),
        Keep.TASK: _in_order([m for m in prefix if m.role == "user" and not m.demonstration], after),
        Keep.RECENT2: not recent or _same(recent, after.messages[-len(recent) :]),
        Keep.USER: _in_order(later, after),
    }
    return frozenset(keep for keep, held in kept.items() if not held)


def _comparable(violation: Violation) -> tuple[ViolationKind, str]:
    return (violation.kind, "" if violation.kind is ViolationKind.FIRST_MESSAGE_NOT_USER else violation.detail)


def _speaks(request: Request) -> bool:
    return any(message.role != "system" for message in request.messages)


def _same(some: Sequence[Message], others: Sequence[Message]) -> bool:
    return len(some) == len(others) and all(
        one is other or one.wire == other.wire for one, other in zip(some, others, strict=True)
    )


def _in_order(wanted: Sequence[Message], after: Request) -> bool:
    """Return whether what these messages of the user say begins messages of the user in `after`, in the same order."""
    remaining = iter(after.messages)
    return all(
        any(other.role == "user" and _begins(_words(other), words) for other in remaining)
        for words in map(_words, wanted)
        if words
    )


def _words(message: Message) -> list[str]:
    """Return what the user said in it. Results, which Anthropic's user messages carry, are a tool's words."""
    said = [part.text if isinstance(part, Text) else "" for part in message.parts]
    return [text for text in said if text]


def _begins(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """Return whether all texts before the last are the same, and the last begins the same. `shorter` is not empty."""
    head, last = shorter[:-1], shorter[-1]
    return list(longer[: len(head)]) == list(head) and len(longer) > len(head) and longer[len(head)].startswith(last)
