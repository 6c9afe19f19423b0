"""Locations without their secrets: how every path, URI and database URL is shown, logged and written down.

What cannot be told apart for sure (is `user:12/...@host` a port or a password with a slash?) counts as a secret: a
location that is shown too short does less harm than a password that is shown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PATHS = frozenset({"file", "local", "memory"})
"""Schemes without host and user, followed by a plain path."""
_DATABASES = frozenset({"postgresql", "postgres", "mysql", "mariadb", "oracle", "mssql"})
"""Schemes whose paths hold no @, so that the last one ends the password."""
_HIDDEN = "***"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_LINK = re.compile(rf"::(?={_SCHEME}://)")
_BARE = re.compile(rf"({_SCHEME})::")
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(.*))?", re.DOTALL)


class Parts(NamedTuple):
    """A URI taken apart."""

    scheme: str
    userinfo: str
    rest: str
    """Host and path."""
    query: str
    """Query and fragment, with the mark in front."""


def redact(uri: str) -> str:
    """Return the URI without user, password, query and fragment; paths come back as they are.

    Of databases the user's name stays, `postgresql://me:***@host/name`: it is no secret there, and often the mistake.
    """
    return "::".join(_redact_one(part) for part in links(uri))


def without_userinfo(uri: str) -> tuple[str, str]:
    """Return the URI without `user:password@`, and that text (without the @); paths and chained URIs come back as they
    are."""
    parts = take_apart(uri)
    if len(links(uri)) > 1 or parts is None or not parts.userinfo:
        return uri, ""
    return f"{parts.scheme}://{parts.rest}{parts.query}", parts.userinfo


def links(uri: str) -> list[str]:
    """Return the URIs that a chain (`simplecache::s3://bucket/x`) is made of. A `::` in a password or a path is not a
    link."""
    found: list[str] = []
    while bare := _BARE.match(uri):
        found.append(bare.group(1))
        uri = uri[bare.end() :]
    return [*found, *_LINK.split(uri)]


def take_apart(uri: str) -> Parts | None:
    """Return the parts of a URI; None for a path."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme in _PATHS:
        return None
    userinfo = _userinfo(scheme, rest)
    if userinfo:
        rest = rest[len(userinfo) + 1 :]
        mark = re.search("[?&;#]", userinfo)
        if mark and "=" in userinfo[mark.end() :]:
            return Parts(scheme, userinfo, _HIDDEN, rest)  # the @ may stand in a parameter: all that follows is suspect
    rest, query = _query(scheme, rest)
    return Parts(scheme, userinfo, rest, query)


def _redact_one(uri: str) -> str:
    parts = take_apart(uri)
    if parts is None:
        return uri
    host, slash, path = parts.rest.partition("/")
    name, port = _host_and_port(host)
    # What stands where the port should be and is no number is a password whose @ is missing.
    host = name if port and not port.isdecimal() else host
    return f"{parts.scheme}://{_user(parts)}{host}{slash}{path}"


def _user(parts: Parts) -> str:
    if not parts.userinfo or not _is_database(parts.scheme) or parts.rest == _HIDDEN:
        return ""
    user, colon, _ = parts.userinfo.partition(":")
    return f"{user}{colon}{_HIDDEN if colon else ''}@"


def _is_database(scheme: str) -> bool:
    return scheme.partition("+")[0] in _DATABASES


def _userinfo(scheme: str, rest: str) -> str:
    if _is_database(scheme):
        return rest.rpartition("@")[0]
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in host:
        return host.rpartition("@")[0]
    name, port = _host_and_port(host)
    if port is None or (port.isdecimal() and int(port) < 1 << 16 and _is_surely_host(name)):
        return ""
    return rest.rpartition("@")[0]  # a password that holds a slash or a question mark


def _host_and_port(host: str) -> tuple[str, str | None]:
    match = _HOST.fullmatch(host)
    return (match.group(1), match.group(2)) if match else (host, None)


def _is_surely_host(name: str) -> bool:
    return name == "localhost" or "." in name or name.startswith("[")


def _query(scheme: str, rest: str) -> tuple[str, str]:
    """Host and path, and what follows. In a key of a bucket or a glob, a ? or # without parameters is part of it."""
    for match in re.finditer(r"[?#]", rest):
        following = rest[match.start() :]
        if scheme.startswith("http") or "=" in following:
            return rest[: match.start()], following
    return rest, ""
