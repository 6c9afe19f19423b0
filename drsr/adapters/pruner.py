"""The core of all adapters: ask the policy about a view of the history, and never break the agent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypedDict, TypeVar

from drsr.adapters.chat_view import joined
from drsr.adapters.forms import Form, pinning, removed_by
from drsr.decide.decision import Reason
from drsr.errors import NotCarriedOver, SettingsError
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy, deadline_after
from drsr.receipts.recall import Recalled
from drsr.request.history import Protect
from drsr.request.protection import with_tool_rules
from drsr.request.request import Request
from drsr.sessions.many_runs import Sessions
from drsr.sessions.price_table import model_of
from drsr.sessions.pruning_session import PruningSession

T = TypeVar("T")

AnyPolicy = Policy | PruningSession | Sessions
"""A policy, the session of one run, or the sessions of many. A policy's runs get a session each."""

_log = logging.getLogger("drsr")

BYPASS_HEADER = "x-drsr-bypass"
"""Header that bypasses pruning for one call when set to 1, if the call can carry headers."""

_bypassed: ContextVar[bool] = ContextVar("drsr_bypassed", default=False)


class Options(TypedDict, total=False):
    """The keyword options of every adapter."""

    protect: Protect | None
    """Predicate `protect(block, request)` that pins every Block for which it returns True."""
    only_tools: Sequence[str] | None
    """Patterns of tool names; of the tool exchanges, only those with matching tools may be removed."""
    never_tools: Sequence[str] | None
    """Exchanges with tools that match one of these patterns stay: `["read_policy", "db_*"]`."""
    min_request_tokens: int | None
    """Minimum size in tokens: shorter requests are sent unchanged and unread. By default the policy's minimum, 500."""
    min_saving_tokens: int | None
    """Nothing is deleted that saves less. By default the policy's minimum, 64."""
    sessions: bool
    """True gives each of a policy's runs a session. False decides every request on its own, as in the paper, and makes
    provider caches of little use."""
    on_decision: Callable[[Decision], None] | None
    """Called with every decision, including those that left everything unchanged: `decision.explain()` says why."""
    shadow: bool
    """Decide and tell, but send everything: to see what would happen."""
    deadline_ms: float | None
    """Milliseconds that a call may wait for its decision. A request that takes longer is sent unchanged, and reading
    continues in the background for the run's next call."""
    warm: bool
    """Read each request in the background while the model answers, even if there was nothing to decide, so that the
    run's next decision has less to read."""
    recall: bool
    """Offer the model the tool `recall_history`, and answer its calls before the program sees them. `on_decision` and
    receipts then get the decision a second time, with `decision.recalled`."""


class Pruner:
    """One policy in one adapter. Safe to use from several threads."""

    def __init__(
        self,
        policy: AnyPolicy,
        *,
        protect: Protect | None = None,
        only_tools: Sequence[str] | None = None,
        never_tools: Sequence[str] | None = None,
        min_request_tokens: int | None = None,
        min_saving_tokens: int | None = None,
        sessions: bool = True,
        on_decision: Callable[[Decision], None] | None = None,
        shadow: bool = False,
        deadline_ms: float | None = None,
        warm: bool = False,
        recall: bool = False,
    ) -> None:
        deadline_after(deadline_ms)  # what is no time is said now, and not with the first call
        if not isinstance(policy, AnyPolicy):
            raise TypeError(f"a policy or sessions of one, not a {type(policy).__name__}: see drsr.load_policy")
        frozen = policy if isinstance(policy, Policy) else policy.policy
        self.minimums = frozen.minimums.replaced(min_request_tokens, min_saving_tokens)
        self.policy = Sessions(policy) if isinstance(policy, Policy) and sessions else policy
        self.protect = with_tool_rules(protect, only_tools, never_tools)
        self.on_decision = on_decision
        self.shadow = shadow
        self.deadline_ms = deadline_ms
        self.warm = warm
        self.recall = recall

    def view(self, native: T, read: Callable[[T], Form[T]], model: str | None = None) -> T:
        """Return what to send instead of `native`: the very same object unless something is removed from a copy."""
        return native if bypassed() else self.decide(native, read, model)[0]

    def decide(self, native: T, read: Callable[[T], Form[T]], model: str | None = None) -> tuple[T, Decision]:
        """Return what to send instead of `native`, and the decision.

        `read` turns it into a request. It raises RequestError if it cannot; the decision then says so. `model` is the
        name of the model that is asked, if `native` does not contain it.
        """
        seen = native
        try:
            form = read(native)
            model, protect = model or model_of(native), pinning(form.pinned, self.protect)
            prune = partial(self.policy.prune, session=None) if isinstance(self.policy, Policy) else self.policy.prune
            decision = prune(
                request=form.request,
                format=form.format,
                model=model,
                protect=protect,
                deadline_ms=self.deadline_ms,
                minimums=self.minimums,
            )
            if self.warm:
                self.policy.read_ahead(request=form.request, format=form.format, model=model, protect=protect)
            if decision.pruned and not self.shadow:
                seen = form.without(removed_by(decision))
                if not same_messages(read(seen).request["messages"], decision.messages, form.format):
                    raise NotCarriedOver("what was removed is not what the policy decided", where=type(form).__name__)
        except Exception as error:  # whatever it is: the agent goes on with what it had
            seen, decision = native, self._passed_through(error)
        self._tell(decision)
        return seen, decision

    async def view_in_thread(self, native: T, read: Callable[[T], Form[T]], model: str | None = None) -> T:
        """Return the same without blocking the event loop: a decision runs a language model."""
        return native if bypassed() else (await self.decide_in_thread(native, read, model))[0]

    async def decide_in_thread(
        self, native: T, read: Callable[[T], Form[T]], model: str | None = None
    ) -> tuple[T, Decision]:
        """Decide like `decide`, in a thread."""
        import anyio.to_thread  # every framework that has an event loop brings it

        try:
            return await anyio.to_thread.run_sync(partial(self.decide, native, read, model), abandon_on_cancel=True)
        except Exception as error:  # no thread to be had
            decision = self._passed_through(error)
            self._tell(decision)
            return native, decision

    def tell_recalled(self, decision: Decision, recalled: Recalled | None) -> None:
        """Report a decision a second time if the model recalled something."""
        if recalled is not None:
            decision = replace(decision, recalled=recalled)
            decision.policy.keep_receipt(decision)
            self._tell(decision)

    def _passed_through(self, error: Exception) -> Decision:
        """Return the decision to leave everything unchanged, with the reason, in the policy's receipts like any
        other."""

        def fail(_: Request) -> NoReturn:
            raise error

        policy = self.policy if isinstance(self.policy, Policy) else self.policy.policy
        return policy.decided({"messages": []}, "openai", fail)

    def _tell(self, decision: Decision) -> None:
        if decision.reason is Reason.INTERNAL_FAILURE:
            _log.warning("decision %s left the request unchanged: %s", decision.id, decision.detail)
        if self.on_decision is None:
            return
        try:
            self.on_decision(decision)
        except Exception as error:  # the consumer's own code, and no reason to stop its agent; may quote the request
            _log.warning("on_decision failed for decision %s: %s", decision.id, type(error).__name__)


@contextmanager
def bypass() -> Iterator[None]:
    """Bypass pruning for single calls: what is sent in this context, also by tasks and threads started in it, is sent
    unchanged, through whichever adapter."""
    token = _bypassed.set(True)
    try:
        yield
    finally:
        _bypassed.reset(token)


def bypassed() -> bool:
    """Return whether this is inside `with bypass():`."""
    return _bypassed.get()


def asks_for_bypass(headers: Mapping[str, Any]) -> bool:
    """Return whether these headers ask to bypass the policy: any value but an empty one, `0`, `false` or `no` does."""
    asked = [str(value).strip().lower() for name, value in headers.items() if str(name).lower() == BYPASS_HEADER]
    return any(value not in ("", "0", "false", "no") for value in asked)


def refuse_recall(options: Options, why: str) -> Options:
    """Raise SettingsError if an adapter that cannot answer recalls is asked to."""
    if options.get("recall"):
        raise SettingsError(f"cannot be answered here: {why}", where="recall=True", hint="use the proxy with --recall")
    return options


def model_name(model: Any) -> str | None:
    """Return the name of a framework's model, if it is in one of the usual attributes."""
    names = [model, *(getattr(model, attribute, None) for attribute in ("model_name", "model"))]
    return next((name for name in names if isinstance(name, str) and name), None)


def same_messages(told: list[Any], decided: list[Any], format: str) -> bool:
    """Return whether the framework's objects tell what was decided."""
    return told == decided or (format == "openai" and joined(told) == joined(decided))
