"""Request bodies of OpenAI chat and Anthropic messages, in which SDK objects may stand for parts of the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drsr.adapters.forms import Pins, Removed

Body = Mapping[str, Any]

_BESIDES = ("tools", "functions", "system")
"""What drsr reads of a body besides its messages. The rest (model, temperature, ...) is none of its business."""


@dataclass(frozen=True, slots=True)
class WireForm:
    """A body as it is."""

    body: Body
    format: Literal["openai", "anthropic"]
    pinned: Pins = frozenset()

    @property
    def request(self) -> dict[str, Any]:
        # A field that the caller left out may be there as a falsy placeholder of the SDK.
        given = [name for name in _BESIDES if self.body.get(name)]
        return {name: as_json(self.body.get(name)) for name in ("messages", *given)}

    def without(self, removed: Removed) -> Body:
        """The body with fewer messages. Those that stay whole are the caller's own objects."""
        messages = [
            removed.left.get(index, message)
            for index, message in enumerate(self.body["messages"])
            if index not in removed.messages
        ]
        return {**self.body, "messages": messages}


def openai_body(body: Body) -> WireForm:
    return WireForm(body, "openai")


def anthropic_body(body: Body) -> WireForm:
    return WireForm(body, "anthropic")


def materialised(body: Body) -> Body:
    """The same body with lists where SDKs also take iterators, which can be read only once."""
    read = {name: list(body[name]) for name in ("messages", "input", *_BESIDES) if isinstance(body.get(name), Iterator)}
    return {**body, **read} if read else body


def as_json(value: Any) -> Any:
    """Plain JSON from what people put into a body: `response.choices[0].message` and `response.content` among it."""
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if hasattr(value, "model_dump"):  # what the SDKs do with their own models
        return value.model_dump(mode="json", exclude_unset=True, exclude=getattr(value, "__api_exclude__", None))
    return value
