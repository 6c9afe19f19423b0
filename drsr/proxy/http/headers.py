"""The headers that pass the proxy, in either direction.

Everything passes, authentication above all, except headers that concern one connection only (RFC 9110, 7.6.1), headers
that the forwarded message sets itself (host, length), and headers addressed to the proxy (`x-drsr-...`).
"""

from __future__ import annotations

from collections.abc import Iterable

RawHeaders = list[tuple[bytes, bytes]]
"""Names in lower case, as ASGI has them; a name may come more than once."""

BYPASS = b"x-drsr-bypass"
MODE = b"x-drsr-mode"
_OURS = b"x-drsr-"
_HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_SAID_ANEW = {b"host", b"expect"}
_AUTHENTICATION = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie")


def to_upstream(headers: Iterable[tuple[bytes, bytes]], *, new_length: bool) -> RawHeaders:
    """Return a request's headers for the upstream. `new_length` is the length of a body in memory, which the headers
    then state."""
    headers = list(headers)
    chunked = any(name == b"transfer-encoding" for name, _ in headers)  # it overrides a length that is said beside it
    dropped = _SAID_ANEW | ({b"content-length"} if new_length or chunked else set())
    return [(name, value) for name, value in _end_to_end(headers) if name not in dropped]


def to_client(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return a response's headers for the client."""
    return _end_to_end([(name.lower(), value) for name, value in headers])


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """Return all values of one header."""
    return [value for key, value in headers if key == name]


def asks_for_bypass(headers: RawHeaders) -> bool:
    """Return whether `x-drsr-bypass` asks for a bypass: any value does but an empty one, `0`, `false` or `no`."""
    return any(value.strip().lower() not in (b"", b"0", b"false", b"no") for value in values(headers, BYPASS))


def is_encoded(headers: RawHeaders) -> bool:
    """Return whether the body is compressed or otherwise encoded."""
    return any(value.strip().lower() not in (b"", b"identity") for value in values(headers, b"content-encoding"))


def credentials(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """Return the headers that identify a caller. They are secrets: hash them at once."""
    return [(name, value) for name, value in headers if name in _AUTHENTICATION]


def _end_to_end(headers: RawHeaders) -> RawHeaders:
    named = {token.strip().lower() for value in values(headers, b"connection") for token in value.split(b",")}
    dropped = _HOP_BY_HOP | named
    return [(name, value) for name, value in headers if name not in dropped and not name.startswith(_OURS)]
