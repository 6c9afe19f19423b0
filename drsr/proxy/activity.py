"""The proxy's record of what it did: metrics, and recent exchanges for the page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from drsr.proxy.http.exchange import Ending, Exchange
from drsr.proxy.metrics import Counter, Gauge, Histogram, Metric, exposition

RECENT = 200
"""Exchanges of the two pruned endpoints that are remembered."""
SHOWN = 50
"""How many of them the page lists."""


class Activity:
    """Everything that is counted. Told of each exchange when it has ended."""

    def __init__(self) -> None:
        self.started = time.time()
        self.recent: deque[Exchange] = deque(maxlen=RECENT)
        self.requests = Counter("drsr_requests_total", "Requests answered, by status.", "endpoint", "code")
        self.decisions = Counter(
            "drsr_decisions_total", "Requests to the pruned endpoints: pruned, or why not.", "endpoint", "reason"
        )
        self.refusals = Counter("drsr_refusals_total", "Requests that the proxy answered with an error itself.", "kind")
        self.gone = Counter("drsr_client_disconnects_total", "Clients that hung up before their answer was complete.")
        self.broken = Counter("drsr_upstream_broken_total", "Answers that the upstream broke off.")
        self.tokens = Counter("drsr_tokens_total", "Tokens of the requests that could be read, as they came.")
        self.saved = Counter("drsr_tokens_saved_total", "Tokens that were not sent.")
        self.shadow_saved = Counter("drsr_shadow_tokens_saved_total", "Tokens that shadow mode would not have sent.")
        self.late = Counter(
            "drsr_late_decisions_total", "Decisions thrown away: behind their deadline, or nobody waited any more."
        )
        self.forgotten = Counter(
            "drsr_sessions_forgotten_total",
            "Conversations forgotten to make room. If it grows steadily, raise --max-sessions.",
        )
        self.receipts = Counter("drsr_receipts_total", "Receipts of decisions, by what became of them.", "outcome")
        self.decision_seconds = Histogram("drsr_decision_seconds", "Time to decide, waiting for a worker included.")
        self.upstream_seconds = Histogram("drsr_upstream_seconds", "Time until the upstream's answer began.")
        self._gauges: list[Gauge] = []

    def watch(self, name: str, help: str, read: Callable[[], float], labels: Sequence[tuple[str, str]] = ()) -> None:
        """Show what a function says."""
        self._gauges.append(Gauge(name, help, read, labels))

    def record(self, exchange: Exchange) -> None:
        """Count one exchange."""
        endpoint = exchange.endpoint.value
        if exchange.status is not None:
            self.requests.add(endpoint, str(exchange.status))
        if exchange.reason is not None:
            self.decisions.add(endpoint, exchange.reason)
        if exchange.refusal is not None:
            self.refusals.add(exchange.refusal)
        if exchange.ending is Ending.CLIENT_GONE:
            self.gone.add()
        if exchange.ending is Ending.UPSTREAM_BROKE:
            self.broken.add()
        if exchange.refusal is None:  # what was refused reached nobody, and is probably sent again
            self.tokens.add(by=exchange.tokens_before or 0)
            self.saved.add(by=exchange.tokens_saved)
            self.shadow_saved.add(by=exchange.shadow_saved)
        if exchange.decision_milliseconds is not None:
            self.decision_seconds.observe(exchange.decision_milliseconds / 1000)
        if exchange.upstream_milliseconds is not None:
            self.upstream_seconds.observe(exchange.upstream_milliseconds / 1000)
        if exchange.endpoint.prunable:
            self.recent.append(exchange)

    def exposition(self) -> str:
        """All metrics for Prometheus."""
        counted: list[Metric] = [
            self.requests,
            self.decisions,
            self.refusals,
            self.gone,
            self.broken,
            self.tokens,
            self.saved,
            self.shadow_saved,
            self.late,
            self.forgotten,
            self.receipts,
            self.decision_seconds,
            self.upstream_seconds,
        ]
        return exposition([*counted, *self._gauges])

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        reasons: dict[str, int] = {}
        for (_, reason), count in self.decisions.items():
            reasons[reason] = reasons.get(reason, 0) + int(count)
        decided = [each.decision_milliseconds for each in self.recent]
        answered = [each.upstream_milliseconds for each in self.recent]
        return {
            "uptime_seconds": round(time.time() - self.started),
            "requests": int(sum(count for _, count in self.requests.items())),
            "reasons": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            "tokens": int(self.tokens.value()),
            "tokens_saved": int(self.saved.value()),
            "shadow_tokens_saved": int(self.shadow_saved.value()),
            "late_decisions": int(self.late.value()),
            "client_disconnects": int(self.gone.value()),
            "refusals": {kind: int(count) for (kind,), count in self.refusals.items()},
            "decision_milliseconds": percentiles([value for value in decided if value is not None]),
            "upstream_milliseconds": percentiles([value for value in answered if value is not None]),
            "recent": [exchange.to_json() for exchange in list(self.recent)[: -SHOWN - 1 : -1]],
        }


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Of the values, each the smallest of them that so many per cent do not exceed; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    return {f"p{share}": round(ordered[max(-(-share * len(ordered) // 100) - 1, 0)], 1) for share in (50, 90, 99)}
