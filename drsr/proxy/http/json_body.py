"""A request's bytes as JSON, telling apart what is not JSON at all and what is, but too odd to be read."""

from __future__ import annotations

import json
from typing import Any


class NotJson(ValueError):
    """The bytes are not a JSON document in UTF-8. The message says where, and quotes at most single characters."""


class Unreadable(ValueError):
    """JSON, but nested too deeply or with numbers too long for us."""


def values_in(data: bytes) -> int:
    """About how many values a JSON document holds, counted without parsing it; punctuation in texts counts as well."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def parse_body(data: bytes) -> Any:
    """Return the value; raise NotJson or Unreadable."""
    if b"\0" in data:  # in UTF-8 only; Python would also take UTF-16 and UTF-32, and no server expects them
        raise NotJson("a zero byte, which JSON in UTF-8 cannot hold")
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise Unreadable("values nested too deeply") from None
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except NotJson:
        raise
    except ValueError:  # integers of thousands of digits
        raise Unreadable("a number that is too long") from None


def as_bytes(body: Any) -> bytes:
    """Return a value as JSON, in the form in which it is sent."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _refuse(constant: str) -> Any:
    raise NotJson(f"{constant}, which JSON does not have")
