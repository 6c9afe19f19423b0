"""The proxy's own reasons to forward a request unchanged, in addition to those of the policy."""

from __future__ import annotations

from enum import StrEnum

PRUNED = "pruned"
"""Word that takes the place of a reason if something was removed."""


class ProxyReason(StrEnum):
    """A reason of the proxy's own. The policy's are `drsr.decide.decision.Reason`."""

    BYPASS = "bypass"
    """The request asked for it by `x-drsr-bypass: 1` or `x-drsr-mode: off`, or its key is switched off."""
    SHADOW = "shadow"
    """The proxy only records what it would have done: always, for this key, or for this request."""
    KILL_SWITCH = "kill_switch"
    """The kill file exists."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The decision was not made in time; it was thrown away."""
    STOPPING = "stopping"
    """The proxy was asked to end while the decision was being made."""
    BUSY = "busy"
    """Too many decisions were waiting already, or the memory for requests on their way was taken."""
    TOO_LARGE = "too_large"
    """The request's body is larger than is read; it was streamed through."""
    HISTORY_UPSTREAM = "history_upstream"
    """The upstream keeps the history or items of it: `previous_response_id`, `conversation`, `item_reference`."""
    UNSUPPORTED_PATH = "unsupported_path"
    """Requests to this path are passed on unchanged."""
    RECALL_FAILED = "recall_failed"
    """It had been pruned, but the original was sent in the end: the upstream refused the tool for recalls, or they led
    nowhere."""
    ENCODED_BODY = "encoded_body"
    """The request's body is compressed."""
