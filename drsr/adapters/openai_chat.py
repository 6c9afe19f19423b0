"""The OpenAI SDK: a client whose chat completions and responses are pruned before they are sent.

    client = prune_with(policy, OpenAI())       # or AsyncOpenAI, AzureOpenAI, ...
    client.chat.completions.create(model=..., messages=messages, tools=tools)
    client.responses.create(model=..., input=items, tools=tools)

`stream`, `parse`, `with_raw_response` and `with_options` work as usual. The caller's lists are not changed. A call with
`extra_headers={"x-drsr-bypass": "1"}` is sent unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, Unpack

from drsr.adapters.forms import Body, Form, openai_body
from drsr.adapters.items_form import ResponsesBody
from drsr.adapters.pruner import AnyPolicy, Options, Pruner
from drsr.adapters.sdk_client import with_pruned_requests
from drsr.errors import MissingExtra

try:
    from openai import AsyncOpenAI, OpenAI
except ImportError as error:
    raise MissingExtra("openai", "openai", needed_for="the adapter of the OpenAI SDK") from error

C = TypeVar("C", bound=OpenAI | AsyncOpenAI)

_READ: dict[str, Callable[[Body], Form[Body]]] = {"/chat/completions": openai_body, "/responses": ResponsesBody}


def prune_with(policy: AnyPolicy, client: C, **options: Unpack[Options]) -> C:
    """Return a copy of the client that asks the policy before each chat completion or response."""
    return with_pruned_requests(client, Pruner(policy, **options), _READ.get)
