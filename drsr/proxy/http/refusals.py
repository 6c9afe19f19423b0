"""Refusals: errors that the proxy answers itself, in the protocol's own shape."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, NamedTuple

from drsr.request.request import Protocol


class RefusalKind(Enum):
    """The kind of error. The value is the label in metrics and the header `x-drsr-error`."""

    BAD_TARGET = "bad_target"
    OTHER_HOST = "other_host"
    OTHER_SITE = "other_site"
    NOT_JSON = "not_json"
    BODY_TIMEOUT = "body_timeout"
    OVERLOADED = "overloaded"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    INTERNAL = "internal"


class _Said(NamedTuple):
    """One kind's status, and its type in either protocol's words."""

    status: int
    openai: str
    anthropic: str


_SAID = {
    RefusalKind.BAD_TARGET: _Said(400, "invalid_request_error", "invalid_request_error"),
    RefusalKind.OTHER_HOST: _Said(421, "invalid_request_error", "invalid_request_error"),
    RefusalKind.OTHER_SITE: _Said(403, "invalid_request_error", "permission_error"),
    RefusalKind.NOT_JSON: _Said(400, "invalid_request_error", "invalid_request_error"),
    RefusalKind.BODY_TIMEOUT: _Said(408, "invalid_request_error", "invalid_request_error"),
    RefusalKind.OVERLOADED: _Said(503, "server_error", "overloaded_error"),
    RefusalKind.UPSTREAM_UNREACHABLE: _Said(502, "server_error", "api_error"),
    RefusalKind.UPSTREAM_TIMEOUT: _Said(504, "server_error", "timeout_error"),
    RefusalKind.INTERNAL: _Said(500, "server_error", "api_error"),
}


class Refusal(NamedTuple):
    """A request that is not forwarded, or that failed."""

    kind: RefusalKind
    message: str
    """Fault, place and advice, for the client's log. Never quotes the request."""

    @property
    def status(self) -> int:
        return _SAID[self.kind].status

    def headers(self) -> list[tuple[bytes, bytes]]:
        found = [(b"content-type", b"application/json"), (b"x-drsr-error", self.kind.value.encode())]
        if self.kind is RefusalKind.OVERLOADED:
            found.append((b"retry-after", b"1"))
        return found

    def body(self, protocol: Protocol) -> bytes:
        """Return the error as the client's library expects it."""
        said, message = _SAID[self.kind], f"drsr proxy: {self.message}"
        shape: dict[str, Any]
        if protocol == "anthropic":
            shape = {"type": "error", "error": {"type": said.anthropic, "message": message}}
        else:
            error = {"message": message, "type": said.openai, "param": None, "code": self.kind.value}
            shape = {"error": error}
        return json.dumps(shape).encode()
