"""The seam in the clients of the OpenAI and Anthropic SDKs: each of their calls ends in `client.request(...)`.

So one function in front of it serves `create`, `stream`, `parse`, `with_raw_response` and whatever comes next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from drsr.adapters.forms import Body, Form, anthropic_body, materialised, openai_body
from drsr.adapters.items_form import ResponsesBody
from drsr.adapters.pruner import Pruner, asks_for_bypass
from drsr.adapters.recall_rounds import asked, asked_async
from drsr.adapters.recall_wires import CHAT, MESSAGES, RESPONSES, JsonWire, names_key

C = TypeVar("C")

Reads = Callable[[str], Callable[[Body], Form[Body]] | None]
"""Returns how to read bodies sent to a path; None for a path that drsr does not handle."""


def with_pruned_requests(client: C, pruner: Pruner, reads: Reads) -> C:
    """Return a copy of the client, on the same connections, that sends what the pruner leaves. The client itself is not
    changed."""
    if not callable(getattr(client, "request", None)) or not callable(getattr(client, "copy", None)):
        raise TypeError(f"a client of the SDK, not a {type(client).__name__}")
    fresh = cast(Any, client).copy()
    send, copy = fresh.request, fresh.copy

    def copy_again(**settings: Any) -> Any:
        return with_pruned_requests(copy(**settings), pruner, reads)

    def wire_of(read: Callable[[Body], Form[Body]], options: Any, body: Body, rest: Mapping[str, Any]) -> Any:
        return None if names_key(getattr(fresh, "default_headers", None)) else _wire(read, options, body, rest)

    def request(cast_to: Any, options: Any, **rest: Any) -> Any:
        read = _read(options, reads)
        if read is None:
            return send(cast_to, options, **rest)
        body = materialised(options.json_data)

        def ask(body: Body) -> Any:
            return send(cast_to, _with_body(options, body), **rest)

        return asked(pruner, wire_of(read, options, body, rest), body, read, ask)

    async def request_async(cast_to: Any, options: Any, **rest: Any) -> Any:
        read = _read(options, reads)
        if read is None:
            return await send(cast_to, options, **rest)
        body = materialised(options.json_data)

        async def ask(body: Body) -> Any:
            return await send(cast_to, _with_body(options, body), **rest)

        return await asked_async(pruner, wire_of(read, options, body, rest), body, read, ask)

    # On the instance and not in a subclass, because the SDKs ask for the exact class. And `request` rather than `post`,
    # because some clients make their resources, which remember `client.post`, as soon as they are made themselves.
    requests = request_async if inspect.iscoroutinefunction(send) else request
    fresh.__dict__.update(request=requests, copy=copy_again, with_options=copy_again)
    return cast(C, fresh)


def _read(options: Any, reads: Reads) -> Callable[[Body], Form[Body]] | None:
    """Return how to read this request, or None if it is to be sent unchanged."""
    read = reads(str(options.url).partition("?")[0])
    if read is None or options.method != "post" or not isinstance(options.json_data, Mapping):
        return None
    return None if isinstance(options.headers, Mapping) and asks_for_bypass(options.headers) else read


_WIRES: dict[Callable[[Body], Form[Body]], JsonWire] = {
    openai_body: CHAT,
    anthropic_body: MESSAGES,
    ResponsesBody: RESPONSES,
}


def _wire(read: Callable[[Body], Form[Body]], options: Any, body: Body, rest: Mapping[str, Any]) -> JsonWire | None:
    """Return the form of an answer that can recall; None if the program wants it raw, streamed or parsed, or named the
    request so that the provider answers it once."""
    headers = options.headers if isinstance(options.headers, Mapping) else {}
    raw = any(str(name).lower() == "x-stainless-raw-response" for name in headers)
    if (
        raw
        or names_key(headers)
        or options.idempotency_key is not None
        or rest.get("stream")
        or callable(options.post_parser)
    ):
        return None
    whole = {**body, **(options.extra_json or {})}  # what `extra_body` adds goes past us
    return _WIRES[read] if _WIRES[read].offered(whole) is not None else None


def _with_body(options: Any, body: Body) -> Any:
    return options if body is options.json_data else options.model_copy(update={"json_data": body})
