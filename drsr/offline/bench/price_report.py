"""The price report: costs of recorded runs without pruning, pruned request by request, and in sessions.

Every recorded call is repeated on paper: its request is the recorded history up to it and its output the recorded one,
whatever a mode would have sent. Tokens are those of the policy's backbone. The provider is assumed to keep every prefix
that it has seen in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from drsr.decide.decision import Reason
from drsr.errors import AlignmentError, RequestError
from drsr.files import KeptResults
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.policy.answer import Decision
from drsr.policy.policy import Policy
from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.history import read_history
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import common_prefix, render, render_output
from drsr.request.request import Request, read_request
from drsr.sessions.prices import Prices

NO_PRUNING, PER_REQUEST, SESSION = "no pruning", "per request", "session"
MODES = (NO_PRUNING, PER_REQUEST, SESSION)


@dataclass(frozen=True, slots=True)
class Bill:
    """The totals of one or more runs in one mode."""

    calls: int = 0
    pruned: int = 0
    """Calls whose request was shortened."""
    input_tokens: int = 0
    cached_tokens: int = 0
    """Number of input tokens that the provider reads from its cache."""
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            self.calls + other.calls,
            self.pruned + other.pruned,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
        )


class RunBill(NamedTuple):
    """One run in every mode."""

    name: str
    bills: dict[str, Bill]


@dataclass(slots=True)
class PrefixCache:
    """A provider's prompt cache, as far as one run can fill it."""

    seen: list[TokenIds] = field(default_factory=list)

    def read(self, token_ids: TokenIds) -> int:
        """Return how much of a request is in the cache; afterwards all of it is."""
        cached = max((common_prefix(earlier, token_ids) for earlier in self.seen), default=0)
        # What another one begins with is remembered by the other.
        self.seen = [earlier for earlier in self.seen if common_prefix(earlier, token_ids) < len(earlier)]
        self.seen.append(token_ids)
        return cached


def kept_bills(path: Path, policy: Policy, prices: Prices, expected_calls: int | None) -> KeptResults:
    """Open a file that keeps the bill of every run. Raise InputError if it is something else, or cannot be read."""
    return KeptResults(path, [policy.identity, prices.to_json(), expected_calls], "bills of a price report")


def price_runs(
    runs: Iterable[Trajectory],
    policy: Policy,
    prices: Prices,
    expected_calls: int | None,
    kept: KeptResults | None = None,
) -> Iterator[RunBill | Quarantined]:
    """Yield the bills of every run, or why they cannot be computed; bills in `kept` are not computed again."""
    for run in runs:
        found = kept.get(run.content_hash) if kept else None
        try:
            bill = _read_bill(found) if found else price_run(run, policy, prices, expected_calls)
        except (RequestError, AlignmentError) as error:
            yield Quarantined(run.external_id, "unreadable", str(error))
            continue
        if kept and found is None:
            kept.keep(run.content_hash, [bill.name, {mode: asdict(one) for mode, one in bill.bills.items()}])
        yield bill


def _read_bill(kept: Any) -> RunBill:
    name, bills = kept
    return RunBill(name, {mode: Bill(**bills[mode]) for mode in MODES})


def price_run(run: Trajectory, policy: Policy, prices: Prices, expected_calls: int | None) -> RunBill:
    """Return one run in every mode."""
    whole = read_request(run.request, protocol=run.protocol, where=run.external_id)
    session = policy.session(prices=prices, expected_calls=expected_calls)
    modes: dict[str, Callable[[Any], Decision | None]] = {
        NO_PRUNING: lambda body: None,
        PER_REQUEST: lambda body: policy.prune(request=body, format=run.protocol, session=None),
        SESSION: lambda body: session.prune(request=body, format=run.protocol),
    }
    tokenizer = RememberedTokens(policy.frozen.representation.tokenizer)
    return RunBill(run.external_id, {mode: _bill(whole, decide, tokenizer, prices) for mode, decide in modes.items()})


def _bill(whole: Request, decide: Callable[[Any], Decision | None], tokenizer: Tokenizer, prices: Prices) -> Bill:
    cache = PrefixCache()
    bill = Bill()
    for step in read_history(whole).steps:
        request = whole.with_messages(whole.messages[: step.message])
        sent, pruned = _sent(request, decide(request.to_wire()))
        token_ids = render(sent, tokenizer).token_ids
        cached = cache.read(token_ids)
        output = len(render_output(whole.messages[step.message], tokenizer))
        cost = prices.input_cost(len(token_ids), cached) + prices.output_cost(output)
        read = prices.readable(cached) if len(token_ids) >= prices.cache_minimum else 0
        bill += Bill(1, int(pruned), len(token_ids), read, output, cost)
    return bill


def _sent(request: Request, decision: Decision | None) -> tuple[Request, bool]:
    """Return what goes out. A report must not take a fault of ours for an abstention: such a fault is raised."""
    if decision is None:
        return request, False
    if decision.error is not None and decision.reason is Reason.INTERNAL_FAILURE:
        raise decision.error
    if decision.reason is Reason.INVARIANT_VIOLATED:
        raise AssertionError(decision.detail)
    if decision.outcome is None:
        return request, False
    return decision.outcome.evidence.returned.request, decision.pruned


def totals(bills: Iterable[RunBill]) -> dict[str, Bill]:
    """Return the bill of all runs together, by mode."""
    total = dict.fromkeys(MODES, Bill())
    for run in bills:
        total = {mode: replace(total[mode]) + run.bills[mode] for mode in MODES}
    return total
