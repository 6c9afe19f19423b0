"""LiteLLM: a hook for its proxy, and a wrapper for its functions.

    pruning = PruningHook(load_policy("policies/2026.11.16"))    # hooks.py; config.yaml: callbacks: hooks.pruning

    completion = prune_with(policy, litellm.completion)          # or acompletion, or a Router's
    completion(model="...", messages=messages, tools=tools)

The caller's messages are not changed. A request to the proxy with the header `x-drsr-bypass: 1`, or a call with it in
`extra_headers`, is sent unchanged.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack, cast

from drsr.adapters.forms import Body, Form, anthropic_body, materialised, openai_body
from drsr.adapters.items_form import ResponsesBody
from drsr.adapters.pruner import AnyPolicy, Options, Pruner, asks_for_bypass, refuse_recall
from drsr.adapters.recall_rounds import asked, asked_async
from drsr.adapters.recall_wires import CHAT, JsonWire, names_key
from drsr.errors import MissingExtra

try:
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise MissingExtra("litellm", "litellm", needed_for="the hook for LiteLLM") from error

F = TypeVar("F", bound=Callable[..., Any])

_READ: dict[str, Callable[[Body], Form[Body]]] = {
    "completion": openai_body,
    "acompletion": openai_body,
    "anthropic_messages": anthropic_body,
    "responses": ResponsesBody,
    "aresponses": ResponsesBody,
}
"""Readers of the proxy's requests, by LiteLLM's name for each kind of call. Other kinds are left alone."""


class PruningHook(CustomLogger):
    """Asks the policy before each request that the proxy sends on."""

    def __init__(self, policy: AnyPolicy, **options: Unpack[Options]) -> None:
        super().__init__()
        self.pruner = Pruner(policy, **refuse_recall(options, "the hook sees the request, not the answer"))

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        read = _READ.get(call_type)
        came = data.get("proxy_server_request")
        headers = came.get("headers") if isinstance(came, Mapping) else None
        if read is None or (isinstance(headers, Mapping) and asks_for_bypass(headers)):
            return data
        return cast("dict[str, Any]", await self.pruner.view_in_thread(data, read))


def prune_with(policy: AnyPolicy, function: F, **options: Unpack[Options]) -> F:
    """`litellm.completion` or `litellm.acompletion`, or the same of a Router, asking the policy first."""
    pruner = Pruner(policy, **options)
    names = list(inspect.signature(function).parameters)

    def given(args: tuple[Any, ...], named: dict[str, Any]) -> Body:
        return materialised({**dict(zip(names, args, strict=False)), **named})

    def around(call: Body) -> bool:
        headers = call.get("extra_headers")
        return isinstance(headers, Mapping) and asks_for_bypass(headers)

    def wire(call: Body) -> JsonWire | None:
        return None if names_key(call.get("extra_headers")) or names_key(call.get("headers")) else CHAT

    def ask(call: Body) -> Any:
        return function(**call)

    @functools.wraps(function)
    def pruned(*args: Any, **named: Any) -> Any:
        call = given(args, named)
        return ask(call) if around(call) else asked(pruner, wire(call), call, openai_body, ask)

    @functools.wraps(function)
    async def pruned_async(*args: Any, **named: Any) -> Any:
        call = given(args, named)
        return await (ask(call) if around(call) else asked_async(pruner, wire(call), call, openai_body, ask))

    return cast(F, pruned_async if inspect.iscoroutinefunction(function) else pruned)
