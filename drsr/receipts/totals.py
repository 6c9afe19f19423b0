"""Totals of receipts: decisions, tokens and money with and without pruning, by reason, model or day.

A request counts as sent unless the proxy says that its upstream refused it: a failed request saved nothing. Money is
reported if the model's price was known at the time of the decision. If the upstream's own usage is on record, the
amount paid is computed from that, as on the proxy's page; else it is the session's expected input cost. A decision
whose removed parts the model asked for again saved nothing, and is charged with the extra cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from drsr.sessions.prices import MILLION
from drsr.tables import table

INELIGIBLE = frozenset(
    {
        *("unreadable_request", "invalid_protocol", "alignment_failure", "recent_exceeds_view"),
        *("below_minimum", "too_few_candidates", "always_abstains"),
        *("bypass", "kill_switch", "encoded_body", "too_large", "history_upstream"),
    }
)
"""Reasons of requests that no policy could have pruned: the policy's own reasons and the proxy's."""

PRUNED = "pruned"
BY: dict[str, Callable[[dict[str, Any]], str]] = {
    "reason": lambda record: PRUNED if _applied(record) else _why(record),
    "model": lambda record: str(record.get("model") or "not said"),
    "day": lambda record: str(record["time"])[:10],
}


@dataclass(slots=True)
class Total:
    """Sums over some receipts."""

    decisions: int = 0
    eligible: int = 0
    """Decisions about requests from which something could have been removed."""
    pruned: int = 0
    """From which something was missing when they were sent."""
    failed: int = 0
    """Refused by the upstream: in no sum below."""
    tokens_without: int = 0
    """Tokens of the requests as received, if they were counted."""
    tokens_sent: int = 0
    priced: int = 0
    """Those whose money is known."""
    money_without: float = 0.0
    money_paid: float = 0.0

    def add(self, record: dict[str, Any]) -> None:
        applied = _applied(record)
        self.decisions += 1
        self.eligible += applied or INELIGIBLE.isdisjoint({record["reason"], _why(record)})
        self.pruned += applied
        if record.get("success") is False:
            self.failed += 1
            if record.get("recalled"):  # answers before the one that failed were paid for
                self._pay(_money(record, applied))
            return
        before, after = record["tokens"]["before"], record["tokens"]["after"]
        self.tokens_without += before or 0
        self.tokens_sent += (after if applied and not record.get("recalled") else before) or 0
        money = _money(record, applied)
        self.priced += money is not None
        self._pay(money)

    def _pay(self, money: tuple[float, float] | None) -> None:
        self.money_paid += money[0] if money else 0.0
        self.money_without += money[1] if money else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "tokens_saved": self.tokens_without - self.tokens_sent}

    @property
    def row(self) -> tuple[Any, ...]:
        """Rows to read."""
        saved = self.tokens_without - self.tokens_sent
        money: tuple[Any, ...] = (None, None, None)
        if self.priced or self.money_paid:
            money = (
                self.money_without,
                self.money_paid,
                _share(self.money_without - self.money_paid, self.money_without),
            )
        tokens = (self.tokens_without, self.tokens_sent, saved, _share(saved, self.tokens_without))
        return (self.decisions, self.eligible, self.pruned, self.failed, *tokens, *money)


HEADERS = (
    *("decisions", "eligible", "pruned", "failed", "tokens without", "sent", "saved", "share"),
    *("money without", "paid", "less"),
)
COLUMNS = ("group", *(field.name for field in fields(Total)), "tokens_saved")
"""Columns of the CSV form."""


def add_up(records: Iterable[dict[str, Any]], by: str | None = None) -> dict[str, Total]:
    """Sums by reason, model or day, in the order of their names; without, one for all."""
    found: dict[str, Total] = {}
    for record in records:
        group = BY[by](record) if by else "all"
        found.setdefault(group, Total()).add(record)
    return dict(sorted(found.items()))


def newest(records: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Return the last record of every decision: a decision with a recall is written twice."""
    return {record["id"]: record for record in records}.values()


def told(totals: dict[str, Total], by: str | None) -> str:
    """Return the sums as a table, with what the money leaves out."""
    if not totals:
        return "no receipts"
    lines = [table((by or "", *HEADERS), [(name, *total.row) for name, total in totals.items()])]
    everything = sum(total.decisions - total.failed for total in totals.values())
    priced = sum(total.priced for total in totals.values())
    if priced < everything:
        lines.append(f"money is of {priced:,} of {everything:,} decisions: of the others price or usage is not known")
    return "\n".join(lines)


def listed(records: Iterable[dict[str, Any]]) -> str:
    """Return one line per receipt."""
    rows = [
        (
            record["id"],
            str(record["time"])[:19],
            str(record.get("model") or ""),
            BY["reason"](record),
            record["tokens"]["before"],
            record["tokens"]["saved"] if _applied(record) else 0,
        )
        for record in records
    ]
    return table(("decision", "time", "model", "reason", "tokens", "saved"), rows)


def _applied(record: dict[str, Any]) -> bool:
    """Return whether something was missing from what was sent."""
    proxy = record.get("proxy")
    return bool(record["pruned"]) and (proxy is None or bool(proxy.get("applied")))


def _why(record: dict[str, Any]) -> str:
    proxy = record.get("proxy")
    return str((proxy or {}).get("reason") or record["reason"])


def _money(record: dict[str, Any], applied: bool) -> tuple[float, float] | None:
    """Return the amount paid, and the amount without pruning; None if no price is known."""
    billed = (record.get("proxy") or {}).get("bill")
    if billed:
        return billed["paid"], billed["without_pruning"]
    session, usage = record.get("session"), record.get("usage")
    if not session or not session.get("priced"):
        return None
    cost = session.get("cost") or {"sent": 0.0, "unpruned": 0.0}
    saved = cost["unpruned"] - cost["sent"] if applied else 0.0
    recalled = record.get("recalled")
    if recalled and not recalled.get("usage"):  # of a recall without usage nobody knows the cost
        return None
    if usage:
        paid = _cost(session["prices"], usage)
        if recalled:
            saved = -_cost(session["prices"], recalled["usage"])
        return paid, paid + saved
    if recalled or session.get("cost") is None:
        return None
    return cost["unpruned"] - saved, cost["unpruned"]


def _cost(prices: dict[str, float], usage: dict[str, int]) -> float:
    kinds = {"input": "input", "cached": "cached_input", "cache_creation": "cache_write", "output": "output"}
    return sum(usage.get(kind, 0) * prices[price] for kind, price in kinds.items()) / MILLION


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""
