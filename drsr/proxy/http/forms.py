"""A request's body as a policy reads it, and a decision carried back to the body: chat, messages, or responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from drsr.adapters.forms import Pins, pinning, removed_by
from drsr.adapters.items_form import ResponsesBody
from drsr.adapters.pruner import same_messages
from drsr.errors import NotCarriedOver
from drsr.policy.answer import Decision
from drsr.proxy.http.endpoints import Endpoint
from drsr.request.history import Protect


class Asked(NamedTuple):
    """The request that the policy decides about."""

    request: dict[str, Any]
    """With `messages`, whatever the body calls them."""
    format: Literal["auto", "openai", "anthropic"]
    pinned: Pins
    """Blocks that may not go, although they look as if they could."""
    carried: Callable[[Decision], Any]
    """The body without what a decision removes."""

    def protect(self, also: Protect | None) -> Protect | None:
        """Pins these Blocks, and what `also` pins."""
        return pinning(self.pinned, also)


def asked_about(body: dict[str, Any], endpoint: Endpoint) -> Asked:
    """Return the request that a body contains. Raise RequestError if it cannot be expressed as one."""
    if endpoint is Endpoint.RESPONSES or (endpoint is Endpoint.DECIDE and "input" in body and "messages" not in body):
        form = ResponsesBody(body)
        return Asked({"model": body.get("model"), **form.request}, form.format, form.pinned, _items(form))
    format = "auto" if endpoint is Endpoint.DECIDE else endpoint.protocol
    return Asked(body, format, frozenset(), lambda decision: decision.request)


def history_is_upstream(body: dict[str, Any]) -> bool:
    """Return whether the upstream keeps the history that the request continues, or items of it that the request only
    refers to."""
    items = body.get("input")
    return (
        body.get("previous_response_id") is not None
        or body.get("conversation") is not None
        or (isinstance(items, list) and any(_is_reference(item) for item in items))
    )


def _is_reference(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "item_reference"


def _items(form: ResponsesBody) -> Callable[[Decision], Any]:
    def carried(decision: Decision) -> Any:
        left = form.without(removed_by(decision))
        if not same_messages(ResponsesBody(left).request["messages"], decision.messages, form.format):
            raise NotCarriedOver("what was removed is not what the policy decided", where="a responses request")
        return left

    return carried
