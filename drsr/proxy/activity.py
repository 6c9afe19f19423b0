"""The proxy's record of what it did: metrics, and recent exchanges for the page."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from drsr.proxy.http.exchange import Ending, Exchange
from drsr.proxy.reasons import ProxyReason
from drsr.receipts.totals import INELIGIBLE

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Upper edges for durations from a quick decision to a model that thinks for minutes."""
RECENT = 200
"""Exchanges of the two pruned endpoints that are remembered."""
SHOWN = 50
"""Number of recent exchanges that the page lists."""
_LATE = frozenset({str(ProxyReason.DEADLINE_EXCEEDED), str(ProxyReason.BUSY)})
FEWEST_DECISIONS = 5
"""Minimum number of recent eligible requests before the page can say that most were late."""


class Activity:
    """Counts of everything. Receives each exchange when it has ended."""

    def __init__(self) -> None:
        self.started = time.time()
        self.recent: deque[Exchange] = deque(maxlen=RECENT)
        self._registry = CollectorRegistry()  # not the one of the whole process: there may be two proxies in it
        self.requests = self._counter("drsr_requests_total", "Requests answered, by status.", "endpoint", "code")
        self.decisions = self._counter(
            "drsr_decisions_total", "Requests to the pruned endpoints: pruned, or why not.", "endpoint", "reason"
        )
        self.eligible = self._counter(
            "drsr_eligible_total", "Requests from which something could have gone, if the policy had said so."
        )
        self.compared = self._counter(
            "drsr_compared_total", "Requests inside and outside what the policy was calibrated on.", "where"
        )
        self.recalled = self._counter(
            "drsr_recall_calls_total", "Answers of a model that only asked for what had been removed."
        )
        self.refusals = self._counter(
            "drsr_refusals_total", "Requests that the proxy answered with an error itself.", "kind"
        )
        self.gone = self._counter(
            "drsr_client_disconnects_total", "Clients that hung up before their answer was complete."
        )
        self.websockets = self._counter(
            "drsr_websockets_total", "WebSockets passed on. Requests in those of the Responses API are also counted."
        )
        self.broken = self._counter("drsr_upstream_broken_total", "Answers that the upstream broke off.")
        self.tokens = self._counter("drsr_tokens_total", "Tokens of the requests that could be read, as they came.")
        self.saved = self._counter("drsr_tokens_saved_total", "Tokens that were not sent.")
        self.shadow_saved = self._counter(
            "drsr_shadow_tokens_saved_total", "Tokens that shadow mode would not have sent."
        )
        self.used = self._counter("drsr_usage_tokens_total", "Tokens that the upstream counted, by kind.", "kind")
        self.money = self._counter(
            "drsr_money_total", "What was paid at list prices, and what would have been without pruning.", "kind"
        )
        self.unpriced = self._counter(
            "drsr_unpriced_total", "Answers without usage, or of models without known prices: not in drsr_money_total."
        )
        self.late = self._counter(
            "drsr_late_decisions_total", "Decisions thrown away: past their deadline, or no client waited any more."
        )
        self.forgotten = self._counter(
            "drsr_sessions_forgotten_total",
            "Conversations forgotten to make room. If it grows steadily, raise --max-sessions.",
        )
        self.receipts = self._counter(
            "drsr_receipts_total", "Receipts of decisions, by what became of them.", "outcome"
        )
        self.decision_seconds = self._seconds("drsr_decision_seconds", "Time to decide, waiting for a worker included.")
        self.upstream_seconds = self._seconds("drsr_upstream_seconds", "Time until the upstream's answer began.")

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(name, help, labels, registry=self._registry)

    def _seconds(self, name: str, help: str) -> Histogram:
        return Histogram(name, help, buckets=SECONDS, registry=self._registry)

    def watch(self, name: str, help: str, read: Callable[[], float], labels: Mapping[str, str] | None = None) -> None:
        """Show the value that a function returns at the moment of reading."""
        gauge = Gauge(name, help, tuple(labels or ()), registry=self._registry)
        (gauge.labels(**labels) if labels else gauge).set_function(read)

    def record(self, exchange: Exchange) -> None:
        """Count one exchange."""
        endpoint = exchange.endpoint.value
        if exchange.status is not None:
            self.requests.labels(endpoint, str(exchange.status)).inc()
        if exchange.reason is not None:
            self.decisions.labels(endpoint, exchange.reason).inc()
            self.eligible.inc(_is_eligible(exchange))
        if exchange.outside is not None:
            self.compared.labels("outside" if exchange.outside else "inside").inc()
        if exchange.recalled is not None:
            self.recalled.inc(exchange.recalled.calls)
        if exchange.refusal is not None:
            self.refusals.labels(exchange.refusal).inc()
        if exchange.ending is Ending.CLIENT_GONE:
            self.gone.inc()
        if exchange.ending is Ending.UPSTREAM_BROKE:
            self.broken.inc()
        if exchange.succeeded:  # what was refused is probably sent again
            self.tokens.inc(exchange.tokens_before or 0)
            self.saved.inc(exchange.tokens_saved)
            self.shadow_saved.inc(exchange.shadow_saved)
        if exchange.usage is not None:
            for kind, number in exchange.usage._asdict().items():
                self.used.labels(kind).inc(number)
        if exchange.bill is not None:
            self.money.labels("paid").inc(exchange.bill.paid)
            self.money.labels("without_pruning").inc(exchange.bill.without_pruning)
        elif exchange.succeeded and exchange.endpoint.prunable:
            self.unpriced.inc()
        if exchange.decision_milliseconds is not None:
            self.decision_seconds.observe(exchange.decision_milliseconds / 1000)
        if exchange.upstream_milliseconds is not None:
            self.upstream_seconds.observe(exchange.upstream_milliseconds / 1000)
        if exchange.endpoint.prunable:
            self.recent.append(exchange)

    def mostly_late(self) -> dict[str, int] | None:
        """Return the number of recent decisions that came too late, and the total, if most of them did."""
        recent = [each.shadow_reason or each.reason for each in self.recent if _is_eligible(each)]
        late = sum(reason in _LATE for reason in recent)
        return {"late": late, "of": len(recent)} if len(recent) >= FEWEST_DECISIONS and 2 * late > len(recent) else None

    def exposition(self) -> bytes:
        """Return all metrics for Prometheus, in its text format."""
        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics as they are now, without the moments at which each began to be counted."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric

    def to_json(self) -> dict[str, Any]:
        """Return the figures for the page."""
        reasons: dict[str, int] = {}
        for (_, reason), count in counted(self.decisions).items():
            reasons[reason] = reasons.get(reason, 0) + count
        decided = [each.decision_milliseconds for each in self.recent]
        answered = [each.upstream_milliseconds for each in self.recent]
        return {
            "uptime_seconds": round(time.time() - self.started),
            "requests": sum(counted(self.requests).values()),
            "failed": sum(count for (_, code), count in counted(self.requests).items() if int(code) >= 400),
            "websockets": counted(self.websockets)[()],
            "reasons": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
            "eligible": counted(self.eligible)[()],
            "mostly_late": self.mostly_late(),
            "compared": {where: count for (where,), count in counted(self.compared).items()},
            "tokens": counted(self.tokens)[()],
            "tokens_saved": counted(self.saved)[()],
            "shadow_tokens_saved": counted(self.shadow_saved)[()],
            "usage": {kind: count for (kind,), count in counted(self.used).items()},
            "money": {kind: amount for (kind,), amount in values(self.money).items()},
            "unpriced": counted(self.unpriced)[()],
            "late_decisions": counted(self.late)[()],
            "client_disconnects": counted(self.gone)[()],
            "refusals": {kind: count for (kind,), count in counted(self.refusals).items()},
            "decision_milliseconds": percentiles([value for value in decided if value is not None]),
            "upstream_milliseconds": percentiles([value for value in answered if value is not None]),
            "recent": [exchange.to_json() for exchange in list(self.recent)[: -SHOWN - 1 : -1]],
        }


def _is_eligible(exchange: Exchange) -> bool:
    reason = exchange.shadow_reason or exchange.reason
    return reason is not None and reason not in INELIGIBLE


def values(counter: Counter) -> dict[tuple[str, ...], float]:
    """Return the value of a counter, by the values of its labels."""
    samples = [sample for metric in counter.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


def counted(counter: Counter) -> dict[tuple[str, ...], int]:
    """Return the same for a counter of whole numbers."""
    return {labels: int(value) for labels, value in values(counter).items()}


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Return percentiles of the values: for each share the smallest value that this share does not exceed; None if
    there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    return {f"p{share}": round(ordered[max(-(-share * len(ordered) // 100) - 1, 0)], 1) for share in (50, 90, 99)}
