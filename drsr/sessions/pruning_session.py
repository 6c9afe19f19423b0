"""One agent's run with a policy, without breaking the provider's prompt cache.

    session = policy.session()
    for ...:
        decision = session.prune(messages, tools=tools)      # the whole history, every time

What was removed stays removed, so that the beginning of what is sent stays the same from call to call. More is removed
only if that is expected to save more over the rest of the run than rewriting the cached prefix costs. The policy
decides about the request as it would be sent; the removal cap holds for the run's whole history.

Token prices come from a table by the request's model (`drsr/sessions/price_table.py`). If the model is not in it, a
deletion is weighed by the usual ratios of providers and no amount of money is reported.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drsr.decide.candidates import DecisionState, invalid_protocol
from drsr.decide.decision import Admitted, Outcome, Reason, decide
from drsr.decide.deletion_sets import DeletionSet
from drsr.decide.invariants import check_all
from drsr.decide.minimums import Minimums
from drsr.decide.representation import FeatureSource
from drsr.decide.selection import Standing
from drsr.errors import AlignmentError, SettingsError
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.history import Block, BlockKind, History, Protect, Rewrite, delete, read_history, removal
from drsr.request.protocol import Violation, new_violations, violations
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import Rendering, common_prefix, render
from drsr.request.request import Request
from drsr.sessions.price_table import PriceTable, model_of, plain_name
from drsr.sessions.prices import RELATIVE, Prices, Weighed, calls_to_come

if TYPE_CHECKING:
    from drsr.policy.answer import Decision
    from drsr.policy.policy import Format, Policy


class _Removed(NamedTuple):
    """A Block that was removed earlier in the run, in the form needed to find it in a later request."""

    step: int
    component: int
    fingerprint: str


class _Base(NamedTuple):
    """A request of the run before anything new is removed from it."""

    history: History
    violations: tuple[Violation, ...]
    rendering: Rendering
    """All three of the full request."""
    removed: tuple[Block, ...]
    """Blocks that stay removed."""
    rewrite: Rewrite
    """The request without it."""
    token_ids: TokenIds

    def saving(self) -> int:
        return len(self.rendering) - len(self.token_ids)


def check_expected_calls(given: Any) -> None:
    """Raise SettingsError unless it is a number of calls, or None for unknown."""
    if given is None:
        return
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise SettingsError(f"the number of expected calls must be a whole number from 1 on, not {given!r}")


class PruningSession:
    """The requests of one run. Safe to use from several threads, one decision at a time."""

    def __init__(
        self,
        policy: Policy,
        prices: Prices | PriceTable,
        expected_calls: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expected_calls` is the usual number of calls of such a run; a longer run removes nothing more. Without it,
        the longer a run has lasted, the longer it is expected to continue; see `calls_to_come`."""
        check_expected_calls(expected_calls)
        self.policy = policy
        self.table = prices if isinstance(prices, PriceTable) else PriceTable({}, prices)
        self.prices = self.table.any_model or RELATIVE
        """Prices of the model that was asked last."""
        self.priced = self.table.any_model is not None
        """True if these are that model's own prices, so that amounts of money can be reported."""
        self.expected_calls = expected_calls
        self.calls = 0
        """Requests that were decided about."""
        self.calls_before = 0
        """Calls that the run had had when it was joined: the Steps of the first request."""
        self.may_be_lost = False
        """Set by a holder of sessions that has had to forget some. Then a run that is joined midway was probably
        forgotten and may be again, and what is removed now would come back with its next request: no later call is
        counted on before the run has come back once."""
        self.joins_cached = True
        """True if a run that is joined midway counts as sent before; otherwise none of it is assumed to be in the
        provider's cache."""
        self._had = 0
        """Calls that the run has had by its latest request: its Steps. A branch may begin long before the last call."""
        self._clock = clock
        self._lock = threading.Lock()
        self._source = policy.frozen.representation.session()
        self._removed: tuple[_Removed, ...] = ()
        self._sent: TokenIds = np.empty(0, dtype=np.int32)
        self._sent_at = clock()

    def prune(
        self,
        messages: Any = None,
        *,
        request: Any = None,
        tools: Any = None,
        system: Any = None,
        format: Format = "auto",
        model: str | None = None,
        protect: Protect | None = None,
        deadline_ms: float | None = None,
        minimums: Minimums | None = None,
    ) -> Decision:
        """Decide about the run's next request, like `Policy.prune`. Pass in the whole history: what was removed is
        found again.

        `pruned` says whether anything is missing, `nothing_more` why no more was removed now. After the deadline
        nothing more is removed; what was removed before stays removed.
        """
        from drsr.policy.policy import deadline_after, request_body

        body = request_body(messages, request, tools, system)
        deadline = deadline_after(deadline_ms)
        source = self.policy.source_until(deadline) or self._source
        least = minimums or self.policy.minimums
        model = model or model_of(body)

        def run(read: Request) -> tuple[Outcome, Mapping[str, Any]]:
            self._price(model, read)
            return self._decide(read, protect, source, least)

        with self._lock:
            decision = self.policy.decided(body, format, run, model=model)
            self.calls += 1
            return decision

    def read_ahead(
        self, *, request: Any, format: Format = "auto", model: str | None = None, protect: Protect | None = None
    ) -> bool:
        """Do the same as `Policy.read_ahead`, for the run's history as it would be sent. Changes nothing in the
        session."""

        def taken(read: Request) -> tuple[Request, History] | None:
            base = self._base(read, protect, self.policy.frozen.representation.tokenizer)
            if base is None:
                return None
            names = _names_in_original(base)
            return base.rewrite.request, read_history(base.rewrite.request, _stays(names))

        with self._lock:
            return self.policy.reads_ahead(request, format, taken)

    def _price(self, model: str | None, request: Request) -> None:
        found = self.table.of(model)
        self.priced = found is not None
        self.prices = found or RELATIVE
        if model and plain_name(model).startswith("claude") and request.protocol == "anthropic":
            # Anthropic caches only what a request marks.
            marked = _has_mark(request.fields) or any(_has_mark(message.wire) for message in request.messages)
            self.prices = self.prices if marked else self.prices.without_cache()

    def _decide(
        self, request: Request, protect: Protect | None, source: FeatureSource, minimums: Minimums
    ) -> tuple[Outcome, Mapping[str, Any]]:
        if not self._removed and minimums.why_below(request, self.policy.numbers.removal_cap) is not None:
            # Nothing stays removed, so its tokens need not be counted. What comes next finds it in the cache.
            self.went_whole()
            return decide(request, self.policy.frozen, protect=protect, minimums=minimums), self._about(None)
        tokenizer = RememberedTokens(self.policy.frozen.representation.tokenizer)
        base = self._base(request, protect, tokenizer)
        if base is None:  # not valid, or not to be counted: Algorithm 1 says which
            found = decide(request, self.policy.frozen, protect=protect, tokenizer=tokenizer, minimums=minimums)
            return found, self._about(None)
        self._had = len(base.history.steps)
        if not len(self._sent):
            self.calls_before = max(len(base.history.steps) - self.calls, 0)
        names = _names_in_original(base)
        weighed: dict[int, Weighed] = {}
        cached = self._cached(base)
        outcome = decide(
            base.rewrite.request,
            self.policy.frozen,
            protect=_stays(names),
            source=source,
            tokenizer=tokenizer,
            minimums=minimums,
            admit=lambda state, sets: [self._verdict(base, state, found, cached, weighed) for found in sets],
        )
        outcome = self._in_original(base, outcome, names)
        about = self._about(base, cached, weighed, outcome)
        self._remember(base, outcome)
        return outcome, about

    def went_whole(self) -> None:
        """Note that a request was sent unchanged. The next request finds it in the cache, unless something was missing
        from earlier ones: then the next request finds what was sent earlier."""
        if not self._removed:
            self._sent, self.joins_cached = self._sent[:0], True

    def _base(self, request: Request, protect: Protect | None, tokenizer: Tokenizer) -> _Base | None:
        """Return the request without what stays removed; None if it cannot be taken apart."""
        found = violations(request)
        if invalid_protocol(found) is not None:
            return None
        try:
            rendering = render(request, tokenizer)
        except AlignmentError:
            return None
        history = read_history(request, protect)
        removed = self._found_again(history)
        # A run that was taken back to an earlier point is shorter: then less may be missing from it.
        cap = self.policy.numbers.removal_cap * len(rendering)
        while removed and rendering.direct_saving(removal(history, removed)) > cap:
            removed = removed[:-1]
        rewritten = delete(history, removed) if removed else Rewrite(request, tuple(range(len(request.messages))))
        if new_violations(rewritten.request, rewritten.kept, found):
            removed, rewritten = (), Rewrite(request, tuple(range(len(request.messages))))
        left = rendering.without(removal(history, removed))
        return _Base(history, tuple(found), rendering, removed, rewritten, left)

    def _found_again(self, history: History) -> tuple[Block, ...]:
        """Return the Blocks removed before that are still there, unchanged, and still may be removed; oldest removal
        first."""
        older = {step.index: step for step in history.older}
        found = []
        for step, component, fingerprint in self._removed:
            blocks = older[step].blocks if step in older else ()
            for block in blocks:
                same = block.component == component and _fingerprint(history.request, block) == fingerprint
                if same and not block.opaque and not block.pinned:
                    found.append(block)
        return tuple(found)

    def _cached(self, base: _Base) -> int:
        """Return the number of tokens of a request that the provider should have in its cache.

        A run that is joined midway (because this process restarted or had forgotten it) has been sent before:
        everything before its last answer counts as cached.
        """
        if not len(self._sent):
            steps = base.history.steps if self.joins_cached else ()
            return base.rendering.message_spans[steps[-1].message].start if steps else 0
        lifetime = self.prices.cache_lifetime
        if lifetime is not None and self._clock() - self._sent_at > lifetime:
            return 0
        return common_prefix(self._sent, base.token_ids)

    @property
    def remaining_calls(self) -> int:
        """Calls expected after the next one."""
        if self.may_be_lost and self.calls_before and not len(self._sent):
            return 0
        return calls_to_come(self._had, self.expected_calls)

    def _verdict(
        self, base: _Base, state: DecisionState, found: DeletionSet, cached: int, weighed: dict[int, Weighed]
    ) -> Admitted:
        """Return why a set may not be taken now, or what taking it is worth."""
        if base.saving() + found.direct_saving > self.policy.numbers.removal_cap * len(base.rendering):
            return Admitted(Standing.OVER_REMOVAL_CAP)
        spans = state.rendering.removed_spans(found.removal)
        weighed[found.mask] = now = self.prices.weigh(
            tokens=len(state.rendering),
            cached=cached,
            first_changed=spans[0].start if spans else len(state.rendering),
            saving=found.direct_saving,
            remaining_calls=self.remaining_calls,
        )
        return Admitted(None if now.worth_it else Standing.NOT_WORTH_REWRITING, now.worth)

    def _in_original(self, base: _Base, outcome: Outcome, names: Mapping[str, Block]) -> Outcome:
        """Return the outcome in terms of the full request instead of the base, checked on it once more."""
        removed = (*base.removed, *(names[block.name] for block in outcome.removed))
        returned = delete(base.history, removed) if outcome.removed else base.rewrite
        evidence = replace(
            outcome.evidence,
            original=base.history,
            base=base.rewrite.request,
            base_kept=base.rewrite.kept,
            returned=returned,
            violations=base.violations,
            tokens_before=len(base.rendering),
        )
        checks = outcome.checks if outcome.reason is Reason.INVARIANT_VIOLATED else check_all(evidence)
        problems = [f"{check.name}: {check.problem}" for check in checks if check.problem]
        if outcome.removed and returned.request != outcome.evidence.returned.request:
            problems.append("deleting together gives another request than deleting one after another")
        if not problems:
            return replace(outcome, evidence=evidence, checks=checks, removed=removed, renamed=dict(names))
        whole = Rewrite(base.history.request, tuple(range(len(base.history.request.messages))))
        evidence = replace(evidence, returned=whole, tokens_after=len(base.rendering))
        return replace(
            outcome,
            reason=Reason.INVARIANT_VIOLATED,
            detail=problems[0],
            evidence=evidence,
            checks=checks,
            removed=(),
            renamed=dict(names),
        )

    def _remember(self, base: _Base, outcome: Outcome) -> None:
        request = base.history.request
        self._removed = tuple(
            _Removed(block.step, block.component, _fingerprint(request, block)) for block in outcome.removed
        )
        self._sent = self._sent_now(base, outcome)
        self._sent_at = self._clock()

    def _cost(self, base: _Base, cached: int, outcome: Outcome) -> dict[str, float]:
        """Return the expected input cost of this call as it is sent, and the cost it would have without any pruning."""
        sent = self._sent_now(base, outcome)
        return {
            "sent": self.prices.input_cost(len(sent), min(cached, common_prefix(base.token_ids, sent))),
            "unpruned": self.prices.input_cost(len(base.rendering), cached + base.saving() if cached else 0),
        }

    def _sent_now(self, base: _Base, outcome: Outcome) -> TokenIds:
        return base.rendering.without(removal(base.history, outcome.removed))

    def _about(
        self,
        base: _Base | None,
        cached: int = 0,
        weighed: Mapping[int, Weighed] | None = None,
        outcome: Outcome | None = None,
    ) -> dict[str, Any]:
        """Return the receipt's record of the session."""
        weighed = weighed or {}
        best = max(weighed.values(), key=lambda each: each.worth, default=None)
        said = zip(outcome.sets, outcome.verdicts, strict=True) if outcome else ()
        chosen = next((weighed[found.mask] for found, verdict in said if verdict is Standing.CHOSEN), None)
        return {
            "call": self.calls + 1,
            "remaining_calls": self.remaining_calls,
            "priced": self.priced,
            "cost": self._cost(base, cached, outcome) if base and outcome else None,
            "removed_before": [block.name for block in base.removed] if base else [],
            "tokens": len(base.token_ids) if base else None,
            "cached_tokens": cached,
            "prices": self.prices.to_json(),
            "best": best._asdict() if best else None,
            "chosen": chosen._asdict() if chosen else None,
        }


def _has_mark(value: Any) -> bool:
    if isinstance(value, dict):
        return "cache_control" in value or any(map(_has_mark, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_mark, value))


def _fingerprint(request: Request, block: Block) -> str:
    """Return the SHA-256 of a Block's content."""
    parts = (request.messages[ref.message].parts[ref.part] for ref in block.parts)
    return hashlib.sha256(repr([replace(part, place=()) for part in parts]).encode()).hexdigest()


def _stays(names: Mapping[str, Block]) -> Protect:
    """Pin what may not be deleted from the full request.

    A Block of the base can look free where sealed reasoning, which made it opaque, went with a call removed before.
    """

    def stays(block: Block, request: Request) -> bool:
        original = names[block.name]
        return original.pinned or (original.opaque and not block.opaque)

    return stays


def _names_in_original(base: _Base) -> dict[str, Block]:
    """Return the same Block of the full request for every Block of the base, by its name there."""
    steps = {step.message: step for step in base.history.steps}
    removed = {block.name for block in base.removed}
    found: dict[str, Block] = {}
    for step in read_history(base.rewrite.request).steps:
        left = [block for block in steps[base.rewrite.kept[step.message]].blocks if block.name not in removed]
        for kind in BlockKind:
            here: Sequence[Block] = [block for block in step.blocks if block.kind is kind]
            there = [block for block in left if block.kind is kind]
            found.update((block.name, same) for block, same in zip(here, there, strict=False))
    return found
