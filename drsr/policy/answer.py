"""The answer to one request: what to send, and the reason for what was or was not removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from drsr.decide.decision import Outcome, Reason
from drsr.decide.distribution import Distance
from drsr.receipts.recall import Recalled, recalled
from drsr.receipts.receipt import build_receipt, explain

if TYPE_CHECKING:
    from drsr.policy.policy import Policy


@dataclass(frozen=True)
class Decision:
    """The request to send, and the reason for what was or was not removed."""

    id: str
    """Unique, 16 hexadecimal digits: the name of this decision in a receipts file."""
    request: Any = field(repr=False)
    """The request body to send, in the form received: `{"messages": [...], ...}`. If nothing was removed it holds the
    caller's own objects, otherwise copies."""
    pruned: bool
    """True if something that the caller passed in is missing from `request`."""
    reason: Reason | None
    """Reason why nothing was removed or, in a session with earlier removals, why nothing more was (`nothing_more`);
    None when this decision removed something."""
    detail: str
    """One more sentence about the reason, without any text of the request. For what cannot be read or breaks the
    protocol it gives the place in the request; for a failure, the class and the place in drsr. `error` says more."""
    tokens_before: int | None
    """Tokens of the request as received, counted with the policy's backbone; None if it could not be read."""
    tokens_after: int | None
    """Tokens of what is to be sent."""
    policy: Policy = field(repr=False)
    outcome: Outcome | None = field(default=None, repr=False)
    """Everything that was considered; None if the request could not be read or a failure occurred."""
    error: Exception | None = field(default=None, repr=False)
    """The exception that caused a failure, for debugging. Its text may quote the request: do not log it."""
    original: Any = field(default=None, repr=False)
    """The request body as received."""
    model: str | None = None
    """The model that the request asks for, if it names one."""
    session: Mapping[str, Any] | None = field(default=None, repr=False)
    """In a session: what it had removed before, and the costs it computed."""
    time: float = 0.0
    """Moment of the decision, in seconds since 1970."""
    total_milliseconds: float = 0.0
    recalled: Recalled | None = None
    """Record of what the model asked for again, if an adapter answered it."""

    @property
    def messages(self) -> Any:
        """The list of messages to send."""
        return self.request.get("messages") if isinstance(self.request, dict) else self.request

    @property
    def nothing_more(self) -> Reason | None:
        """Return, in a session, why no more was removed than before; None outside one."""
        return self.reason if self.pruned else None

    @property
    def tokens_saved(self) -> int:
        """Tokens that the decision removed; 0 if nothing was removed."""
        return 0 if self.tokens_before is None or self.tokens_after is None else self.tokens_before - self.tokens_after

    @cached_property
    def distance(self) -> Distance | None:
        """Distance of the request from what the policy was trained and calibrated on; `distance.outside` is true if it
        is too far to expect the published rates. None if nothing was read or the policy cannot tell."""
        features = None if self.outcome is None else self.outcome.evidence.features
        limits, found = self.policy.numbers.distribution, self.policy.distribution
        return (
            None
            if features is None or found is None or limits is None
            else found.distance(features.matrix, limits.limit)
        )

    def explain(self) -> str:
        """Return a table of every set considered, with saving, unsafe score, predicted harm and why it was not
        chosen."""
        return explain(self.receipt)

    @cached_property
    def receipt(self) -> dict[str, Any]:
        """The decision as one JSON record, without any text of the request."""
        return build_receipt(self)

    def recall(self, id: str | None = None) -> str:
        """Answer a call of the tool `recall_history`: the removed Block of that name, or the list of all."""
        return recalled(self.outcome, id)

    def receipt_with_text(self) -> dict[str, Any]:
        """Return the same with the request before and after, from which `drsr restore` gives back what was removed."""
        return {**self.receipt, "text": {"before": self.original, "after": self.request}}
