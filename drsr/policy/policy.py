"""A frozen policy: load it, and ask it before each model call which old history Blocks can go.

    from drsr import load_policy

    policy = load_policy("policies/2026.11.16")
    decision = policy.prune(messages, tools=tools)      # or request={...}; OpenAI chat or Anthropic form
    client.chat.completions.create(messages=decision.messages, ...)
    print(decision.explain())

Pruning never breaks an agent: whatever goes wrong, the decision holds the original request and says why. The caller's
objects are never changed.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.decide.background import BackgroundReader
from drsr.decide.candidates import DecisionState, freeze_rendered
from drsr.decide.decision import Frozen, Outcome, Reason, decide
from drsr.decide.distribution import DISTRIBUTION_FILE, TrainingDistribution
from drsr.decide.minimums import NO_MINIMUMS, Minimums
from drsr.decide.numbers import PolicyNumbers
from drsr.decide.representation import FeatureSource, LazyRepresentation, Representation
from drsr.errors import (
    BackboneError,
    FeatureError,
    InputError,
    LayoutMismatch,
    MissingExtra,
    PolicyError,
    PolicyMismatch,
    RequestError,
    ScorerError,
    SettingsError,
)
from drsr.policy.answer import Decision
from drsr.policy.folder import policy_identity, write_policy
from drsr.policy.light_representation import LightRepresentation
from drsr.receipts.recall import with_recall
from drsr.request.contracts import SetScorer
from drsr.request.history import History, Protect, read_history
from drsr.request.protection import with_tool_rules
from drsr.request.protocol import violations
from drsr.request.rendering import render
from drsr.request.request import Request, read_request
from drsr.request.text_actions import with_text_actions
from drsr.scorer.frozen import FrozenScorer
from drsr.scorer.weights import scorer_bytes
from drsr.sessions.price_table import PriceTable, bundled_prices, model_of
from drsr.sessions.prices import Prices
from drsr.tables import excerpt

if TYPE_CHECKING:
    from drsr.sessions.many_runs import Sessions
    from drsr.sessions.pruning_session import PruningSession

Format = Literal["auto", "openai", "anthropic"]
Receipts = Callable[[Decision], None]
"""Receives every decision: a `ReceiptFile`, or a function of the consumer."""

_log = logging.getLogger("drsr")


class Policy:
    """A frozen policy. Safe to use from several threads. It remembers the runs that it has seen, so that what was
    removed from one stays removed; a request that is `prune`d with `session=None` is decided on its own."""

    def __init__(
        self,
        numbers: PolicyNumbers,
        scorer: SetScorer,
        representation: Representation,
        *,
        receipts: Receipts | None = None,
        prices: PriceTable | None = None,
        minimums: Minimums | None = None,
        distribution: TrainingDistribution | None = None,
    ) -> None:
        """`load_policy` is the usual way in; this one is for code that has just made the parts.

        `prices` are those that sessions use, by default the list prices that come with drsr.

        Raises PolicyMismatch unless the parts belong together.
        """
        numbers.check()
        if not numbers.layout_hash == scorer.layout_hash == representation.layout_hash:
            raise PolicyMismatch(
                f"feature layouts differ: the policy's {numbers.layout_hash}, the scorer's {scorer.layout_hash}, the "
                f"backbone's {representation.layout_hash}",
                where=f"policy {numbers.version}",
            )
        if representation.identity != numbers.backbone.identity:
            raise PolicyMismatch(
                f"made with the backbone {numbers.backbone.identity}, given {representation.identity}",
                where=f"policy {numbers.version}",
                hint=f"give it the backbone {numbers.backbone.name}",
            )
        named = None if numbers.distribution is None else numbers.distribution.sha256
        if named != (None if distribution is None else distribution.sha256):
            raise PolicyMismatch(
                "the distribution of its training features is not the one that its numbers name",
                where=f"policy {numbers.version}",
                hint=f"hand in the one of its {DISTRIBUTION_FILE}, or none where the numbers name none",
            )
        self.frozen = Frozen(numbers, representation, scorer)
        self.distribution = distribution
        self.receipts = receipts
        self.prices = prices or bundled_prices()
        self.minimums = minimums or Minimums()

    @property
    def numbers(self) -> PolicyNumbers:
        """Every frozen number."""
        return self.frozen.numbers

    @property
    def version(self) -> str:
        return self.numbers.version

    @cached_property
    def identity(self) -> str:
        """SHA-256 over numbers and scorer: two policies with the same identity decide identically."""
        scorer = self.frozen.scorer
        data = scorer_bytes(scorer) if isinstance(scorer, FrozenScorer) else f"{type(scorer).__name__}".encode()
        return policy_identity(self.numbers, data)

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
        only_tools: Sequence[str] | None = None,
        never_tools: Sequence[str] | None = None,
        session: PruningSession | Literal["auto"] | None = "auto",
        deadline_ms: float | None = None,
        minimums: Minimums | None = None,
        recall: bool = False,
    ) -> Decision:
        """Decide about one request: either `messages` (with `tools`, and `system` for Anthropic), or a whole `request`.

        `format` names the protocol if the content does not reveal it, `model` the model whose prices apply.
        `protect(block, request)` pins every Block for which it returns True; `never_tools` pins the exchanges with
        tools whose names match one of these patterns (`read_*`), `only_tools` those with all others. A request that
        cannot be read or pruned comes back unchanged, with the reason.

        A request that repeats the messages of an earlier one and adds some belongs to the same run: what was removed
        stays removed, and more is removed only if that pays at the prices. `session` names the run instead; None
        decides about the request on its own, as in the paper, without `minimums` unless they are given.

        `deadline_ms` limits how long to wait for reading. A request that takes longer comes back unchanged, with the
        reason `deadline_exceeded`; reading continues in the background, and the next request of that run continues from
        there. Features are then equal to those without a deadline up to rounding, as in a session.

        `recall` adds the tool `recall_history` to the request, which your program answers with `decision.recall`.
        """
        body = request_body(messages, request, tools, system)
        if recall:
            body = with_recall(body, None if format == "auto" else format)
        deadline = deadline_after(deadline_ms)
        protect = with_tool_rules(protect, only_tools, never_tools)
        if session is not None:
            run = self.runs if session == "auto" else session
            if run.policy is not self:
                raise ValueError("the session is another policy's")
            return run.prune(
                request=body,
                format=format,
                model=model,
                protect=protect,
                deadline_ms=deadline_ms,
                minimums=minimums,
            )
        source, least = self.source_until(deadline), minimums or NO_MINIMUMS
        return self.decided(
            body,
            format,
            lambda read: (decide(read, self.frozen, protect=protect, source=source, minimums=least), None),
            model=model or model_of(body),
        )

    @cached_property
    def runs(self) -> Sessions:
        """The runs that `prune` has seen. A first request counts as new: none of it is cached yet."""
        from drsr.sessions.many_runs import Sessions

        return Sessions(self, joined_runs_are_cached=False)

    def source_until(self, deadline: float | None) -> FeatureSource | None:
        """Return the source of features to wait for until a deadline; None without a deadline, or for a light policy,
        which reads in milliseconds and has no state to continue from."""
        return None if deadline is None or self.numbers.light is not None else self.reader.by(deadline)

    def read_ahead(
        self, *, request: Any, format: Format = "auto", model: str | None = None, protect: Protect | None = None
    ) -> bool:
        """Read a request in the background, so that the next decision of its run finds it read. Return False if there
        is nothing to read: the request is not eligible, the policy is light, or too much is in flight. Never raises."""
        return self.reads_ahead(request, format, lambda read: (read, read_history(read, protect)))

    def reads_ahead(
        self, body: Any, format: Format, taken: Callable[[Request], tuple[Request, History] | None]
    ) -> bool:
        """Read ahead the request that `taken` says would be decided on. For sessions."""
        numbers = self.numbers
        if numbers.light is not None or numbers.always_abstains:
            return False
        try:
            found = taken(_read(body, format))
            if found is None:
                return False
            request, history = found
            tokenizer = self.frozen.representation.tokenizer
            state = freeze_rendered(
                history, render(request, tokenizer), violations(request), len(tokenizer.lead), numbers.view_cap
            )
            return isinstance(state, DecisionState) and self.reader.read_ahead(state)
        except Exception as error:  # nobody waits for it, and the decision to come says what is wrong
            _log.debug("a request was not read ahead: %s", type(error).__name__)
            return False

    @cached_property
    def reader(self) -> BackgroundReader:
        """Reads for decisions with a deadline, and ahead of decisions to come."""
        return BackgroundReader(self.frozen.representation.session)

    def session(self, prices: Prices | PriceTable | None = None, expected_calls: int | None = None) -> PruningSession:
        """Open a session for a run whose requests grow at their end: what was removed stays removed, and more is
        removed only if that is worth rewriting the provider's cached prefix. `expected_calls` is the usual length of
        such a run."""
        from drsr.sessions.pruning_session import PruningSession

        return PruningSession(self, self.prices if prices is None else prices, expected_calls)

    def prepare(self, *, choose_threads: bool = False) -> None:
        """Load the backbone now instead of with the first eligible request, and raise an error if that fails.

        `choose_threads` measures which number of threads reads fastest here, and sets torch to it for the whole
        process.
        """
        representation = self.frozen.representation
        if isinstance(representation, LazyRepresentation) and not self.numbers.always_abstains:
            loaded = representation.loaded()
            if choose_threads:
                from drsr.decide.threads import use_quickest

                use_quickest(loaded.backbone)
        if self.numbers.view_cap > representation.window:
            raise PolicyMismatch(
                f"it reads up to {self.numbers.view_cap} tokens, the window holds {representation.window}",
                where=f"policy {self.version}",
            )

    def to_json(self) -> dict[str, Any]:
        """Return every frozen number, version and hash: the content of `policy.json`."""
        return self.numbers.to_json()

    def save(self, folder: str | os.PathLike[str], others: Mapping[str, bytes] | None = None) -> None:
        """Write a new folder that `load_policy` reads. `others` are further files, by name, to be hashed as well."""
        if not isinstance(self.frozen.scorer, FrozenScorer):
            raise InputError(
                f"a {type(self.frozen.scorer).__name__} has no weights to save",
                where=f"policy {self.version}",
                hint="only a policy with a trained ensemble can be saved",
            )
        representation = self.frozen.representation
        own = {TOKENIZER_FILE: representation.tokenizer_file} if isinstance(representation, LightRepresentation) else {}
        own |= {} if self.distribution is None else {DISTRIBUTION_FILE: self.distribution.data}
        write_policy(Path(folder), self.numbers, self.frozen.scorer, {**own, **(others or {})})

    def decided(
        self, body: Any, format: Format, run: Callable[[Request], _Run], *, model: str | None = None
    ) -> Decision:
        """Read a request and decide by `run`; any failure becomes a reason. For sessions."""
        if format not in ("auto", "openai", "anthropic"):
            raise ValueError(f"unknown format {format!r}: auto, openai or anthropic")
        start = time.perf_counter()
        outcome: Outcome | None = None
        session: Mapping[str, Any] | None = None
        error: Exception | None = None
        reason: Reason | None
        try:
            read = _read(body, format)
            reading = 1000 * (time.perf_counter() - start)
            outcome, session = run(read)
            outcome = replace(outcome, milliseconds={"read": reading, **outcome.milliseconds})
            reason, detail = outcome.reason, outcome.detail
        except RequestError as caught:
            reason, detail, error = Reason.UNREADABLE_REQUEST, _unreadable(caught), caught
        except Exception as caught:  # whatever it is: the agent goes on with its request
            reason, detail, error = Reason.INTERNAL_FAILURE, _described(caught), caught
        pruned = False
        sent, before, after = body, None, None
        if outcome is not None:
            evidence = outcome.evidence
            before, after = evidence.tokens_before, evidence.tokens_after
            pruned = evidence.returned.request is not evidence.original.request
            sent = evidence.returned.request.to_wire() if pruned else body
        decision = Decision(
            id=secrets.token_hex(8),
            request=sent,
            pruned=pruned,
            reason=reason,
            detail=detail,
            tokens_before=before,
            tokens_after=after,
            policy=self,
            outcome=outcome,
            error=error,
            original=body,
            model=model,
            session=session,
            time=time.time(),
            total_milliseconds=1000 * (time.perf_counter() - start),
        )
        self.keep_receipt(decision)
        return decision

    def keep_receipt(self, decision: Decision) -> None:
        """Tell the receipts of a decision. Never raises."""
        if self.receipts is None:
            return
        try:
            self.receipts(decision)
        except Exception as error:  # a full disk must not stop an agent; its text could quote the request
            _log.warning("the receipt of decision %s was not kept: %s", decision.id, type(error).__name__)


_WITHOUT_TEXT = (PolicyError, BackboneError, FeatureError, ScorerError, LayoutMismatch, MissingExtra, SettingsError)
"""Errors whose text we write ourselves, from names and numbers."""

_Run = tuple[Outcome, Mapping[str, Any] | None]


def _read(body: Any, format: Format) -> Request:
    return with_text_actions(read_request(body, protocol=None if format == "auto" else format))


def request_body(messages: Any, request: Any, tools: Any, system: Any) -> Any:
    """Return one request body from the caller's arguments."""
    if (messages is None) == (request is None):
        raise TypeError("prune() takes either messages or request=")
    if request is not None:
        if tools is not None or system is not None:
            raise TypeError("tools and system are fields of request= already")
        return request
    fields = {"messages": list(messages) if isinstance(messages, tuple) else messages, "tools": tools, "system": system}
    return {name: value for name, value in fields.items() if name == "messages" or value is not None}


def deadline_after(milliseconds: float | None) -> float | None:
    """Return the moment on `time.perf_counter()` until which to wait. Raise ValueError unless the deadline is a valid
    time."""
    if milliseconds is None:
        return None
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not 0 < milliseconds < 1e9:
        raise ValueError(f"deadline_ms must be a number of milliseconds above 0 and below 1e9, not {milliseconds!r}")
    return time.perf_counter() + milliseconds / 1000


_PLACE = re.compile(r"(message|item) \d+")
"""The places that name nothing but a number; a field's name may be any text."""


def _unreadable(error: RequestError) -> str:
    """Return the place where the request cannot be read, not its content: a wrong role, id or field may be any text."""
    place = error.where if error.where is not None and _PLACE.fullmatch(error.where) else "the request"
    return f"{place} cannot be read; the decision's error says why"


def _described(error: Exception) -> str:
    """Return the exception's class and where in drsr it came from. Not its text: that may quote the request."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.startswith("drsr."):
            place = f" in {name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    said = f": {excerpt(error.what, 160)}" if isinstance(error, _WITHOUT_TEXT) else ""
    return f"{type(error).__name__}{place}{said}"
