"""One request and its answer in the form that the log, the metrics and the page record, without text or secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from drsr.proxy.bill import Bill
from drsr.proxy.http.endpoints import Endpoint
from drsr.proxy.http.usage import Usage
from drsr.proxy.reasons import PRUNED, ProxyReason
from drsr.receipts.recall import Recalled
from drsr.tables import excerpt


class Ending(StrEnum):
    """The end of an exchange."""

    COMPLETED = "completed"
    """The upstream's answer was passed on to its end, whatever its status."""
    REFUSED = "refused"
    """The proxy answered by itself; `refusal` says why."""
    CLIENT_GONE = "client_gone"
    UPSTREAM_BROKE = "upstream_broke"
    """In the middle of its answer; the client's connection was cut off too."""
    FAILED = "failed"
    """A fault of the proxy's own."""


@dataclass(slots=True)
class Exchange:
    """Filled in as the request makes its way."""

    endpoint: Endpoint
    method: str
    path: str
    """Without the query, in which some clients send their keys."""
    started: float = field(default_factory=time.time)
    status: int | None = None
    ending: Ending = Ending.CLIENT_GONE
    refusal: str | None = None
    reason: str | None = None
    """`pruned`, or the reason why the request was not changed; None if no policy was asked."""
    decision: str | None = None
    """The decision's id."""
    tokens_before: int | None = None
    tokens_saved: int = 0
    """Not sent because of the decision."""
    model: str | None = None
    """The model that the request asks for, if it could be read."""
    usage: Usage | None = None
    """The tokens that the upstream counted, if it reported them."""
    bill: Bill | None = None
    """The bill, if the model's prices are known as well."""
    receipt: dict[str, Any] | None = None
    """The decision's, to be kept when the exchange has ended."""
    session: Mapping[str, Any] | None = None
    """Figures that the conversation's session computed for it."""
    outside: bool | None = None
    """True if the request is outside what the policy was calibrated on; None if that is unknown."""
    recalled: Recalled | None = None
    """Parts that the model asked for again before its answer. Such an exchange saved nothing."""
    recalling: Usage | None = None
    """The part of the usage that this took."""
    shadow: bool = False
    """True if nothing is changed, whatever is decided."""
    shadow_reason: str | None = None
    """Reason that would have been given without shadow mode."""
    shadow_saved: int = 0
    decision_milliseconds: float | None = None
    upstream_milliseconds: float | None = None
    """From sending the request to the first byte of the answer."""
    total_milliseconds: float = 0.0

    @property
    def succeeded(self) -> bool:
        """Return whether the upstream took the request. What it did not costs and saves nothing."""
        asked = self.endpoint is not Endpoint.DECIDE
        return asked and self.refusal is None and self.status is not None and 200 <= self.status < 300

    def recalled_for(self, recalled: Recalled | None, usage: Usage | None, *, given_up: bool) -> None:
        """Record what the model asked for again, its usage, and whether the original request was sent in the end."""
        self.recalled, self.recalling = recalled, usage if recalled is not None else None
        if given_up and self.reason == PRUNED:
            self.reason = ProxyReason.RECALL_FAILED

    def answered(self, status: int) -> None:
        """Note the upstream's status."""
        self.status = status
        if not self.succeeded or self.recalled is not None:
            self.tokens_saved = self.shadow_saved = 0

    def response_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that tell the client what was decided."""
        found = {
            "x-drsr-reason": self.reason or (None if self.endpoint.prunable else ProxyReason.UNSUPPORTED_PATH),
            "x-drsr-decision": self.decision,
            "x-drsr-tokens-saved": self.tokens_saved if self.reason else None,
            "x-drsr-shadow-reason": self.shadow_reason,
            "x-drsr-shadow-tokens-saved": self.shadow_saved if self.shadow_reason else None,
        }
        return [(name.encode(), str(value).encode()) for name, value in found.items() if value is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the exchange for the log and the page."""
        return {
            "time": round(self.started, 3),
            "method": self.method,
            "path": excerpt(self.path, 120),
            "endpoint": self.endpoint.value,
            "status": self.status,
            "ending": self.ending,
            "refusal": self.refusal,
            "reason": self.reason,
            "decision": self.decision,
            "tokens_before": self.tokens_before,
            "tokens_saved": self.tokens_saved,
            "model": None if self.model is None else excerpt(self.model, 100),
            "usage": None if self.usage is None else self.usage._asdict(),
            "bill": None if self.bill is None else self.bill._asdict(),
            "outside": self.outside,
            "recalled": None if self.recalled is None else self.recalled._asdict(),
            "shadow_reason": self.shadow_reason,
            "shadow_saved": self.shadow_saved,
            "decision_milliseconds": _rounded(self.decision_milliseconds),
            "upstream_milliseconds": _rounded(self.upstream_milliseconds),
            "total_milliseconds": _rounded(self.total_milliseconds),
        }

    def __str__(self) -> str:
        """Return one line of the log."""
        words = [self.method, excerpt(self.path, 120), str(self.status or "-"), f"{self.total_milliseconds:.0f} ms"]
        if self.ending is not Ending.COMPLETED:
            words.append(self.refusal or self.ending)
        if self.reason:
            words.append(self.reason)
        if self.tokens_saved:
            words.append(f"saved {self.tokens_saved:,} of {self.tokens_before:,} tokens")
        if self.shadow_saved:
            words.append(f"would have saved {self.shadow_saved:,} of {self.tokens_before:,} tokens")
        if self.recalled and self.recalled.calls:
            words.append(f"recalled in {self.recalled.calls} further calls")
        if self.decision:
            words.append(f"decision {self.decision}")
        return "  ".join(words)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
