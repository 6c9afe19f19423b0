"""Columns of a dataset that hold JSON as text: a table without nested types keeps a run's messages in a string."""

from __future__ import annotations

from typing import Any

import orjson

_COLUMNS = ("messages", "conversations", "conversation", "trajectory", "traj", "history", "contents", "tools")
"""Names under which runs are kept; text under any other name stays text."""


def with_columns_spelled_out(value: Any) -> Any:
    """The same record with the lists in place of the strings that spell them; anything else as it is."""
    if type(value) is not dict:
        return value
    spelled = {column: found for column in _COLUMNS if (found := _listed(value.get(column))) is not None}
    tools = value.get("tools")
    if type(tools) is list and tools and all(type(tool) is str for tool in tools):
        spelled["tools"] = [_value(tool) for tool in tools]
    return {**value, **spelled} if spelled else value


def _listed(text: Any) -> list[Any] | None:
    if not isinstance(text, str) or not text.lstrip().startswith("["):
        return None
    found = _value(text)
    return found if isinstance(found, list) else None


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
