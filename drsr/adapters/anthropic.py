"""The Anthropic SDK: a client whose messages are pruned before they are sent.

    client = prune_with(policy, Anthropic())    # or AsyncAnthropic, AnthropicBedrock, ...
    client.messages.create(model=..., max_tokens=..., messages=messages, tools=tools)

`stream`, `parse`, `beta.messages`, `with_raw_response` and `with_options` work as usual. The caller's list of messages
is not changed. A call with `extra_headers={"x-drsr-bypass": "1"}` is sent unchanged. `count_tokens` counts exactly what
it receives.
"""

from __future__ import annotations

from typing import TypeVar, Unpack

from drsr.adapters.forms import anthropic_body
from drsr.adapters.pruner import AnyPolicy, Options, Pruner
from drsr.adapters.sdk_client import with_pruned_requests
from drsr.errors import MissingExtra

try:
    import anthropic  # noqa: F401 - the client comes from the caller; without the SDK there can be none
except ImportError as error:
    raise MissingExtra("anthropic", "anthropic", needed_for="the adapter of the Anthropic SDK") from error

C = TypeVar("C")
"""The SDK's clients have no public class in common: those of Bedrock and Vertex are not `Anthropic`."""


def prune_with(policy: AnyPolicy, client: C, **options: Unpack[Options]) -> C:
    """Return a copy of the client that asks the policy before each message."""
    return with_pruned_requests(
        client, Pruner(policy, **options), lambda path: anthropic_body if path == "/v1/messages" else None
    )
