"""The hosts that a request may name, and the sites that it may come from.

A page of another site in a user's browser can send requests here, and can make its own name resolve to this address.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from drsr.proxy.http.headers import RawHeaders, values
from drsr.proxy.http.refusals import Refusal, RefusalKind


class Sites:
    """Loopback names, and those that were configured."""

    def __init__(self, configured: Iterable[str] = ()) -> None:
        self._configured = {name.lower().rstrip(".") for name in configured}

    def refusal(self, headers: RawHeaders) -> Refusal | None:
        """Return why a request with these headers is refused, or None."""
        hosts = [_host(value) for value in values(headers, b"host")]
        if not all(self._is_own(host) or _is_address(host) for host in hosts):
            return _OTHER_HOST
        # An address cannot be made to lead here by its owner, but can be another site's.
        own = [*hosts, *self._configured]
        if not all(_is_loopback(origin) or origin in own for origin in map(_origin, values(headers, b"origin"))):
            return _OTHER_SITE
        return None

    def _is_own(self, host: str) -> bool:
        return _is_loopback(host) or host in self._configured


_OTHER_HOST = Refusal(
    RefusalKind.OTHER_HOST, "the host is not a name of this proxy; start it with --allow-host NAME if it should be"
)
_OTHER_SITE = Refusal(
    RefusalKind.OTHER_SITE, "the request comes from a page of another site; start the proxy with --allow-host NAME"
)


def _host(value: bytes) -> str:
    """Return the name without its port; empty if it is not a host name."""
    return _name(f"//{value.decode('latin-1').strip()}")


def _origin(value: bytes) -> str:
    return _name(value.decode("latin-1").strip())


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
