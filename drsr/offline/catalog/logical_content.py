"""The key of facts: it identifies rows and objects of a catalog, whatever their numbers and places."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson


def content_key(facts: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return the SHA-256 over facts that are plain values. What cannot be written as JSON is an error, never a hit."""
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()
