"""Columns about a Block's call among the other calls: superseded, followed up, its error repeated, what it does.

Calls are compared by number in the order of all calls, so a candidate costs one look at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p

from drsr.features.lexical import quotient
from drsr.features.light.calls import Doing
from drsr.features.light.index import CallFacts, RequestIndex
from drsr.request.history import Block

_OF_CALLS = (
    "same_object_before",
    "same_object_after",
    "superseded_after",
    "superseded_share",
    "object_touched_after",
    "object_written_after",
    "object_recent",
    "same_tool_stays",
    "reports_error",
    "error_before",
    "error_after",
    "error_overcome",
    "next_call_same_tool",
    "next_call_same_object",
    "is_read",
    "is_search",
    "is_write",
    "is_run",
    "result_words",
)


def call_columns(index: RequestIndex, block: Block) -> dict[str, float]:
    """Return the columns that only an exchange has: for an assistant_state they are 0."""
    parts = index.parts_of(block)
    own = next((call for call in index.calls if call.call == parts[0]), None)
    found = dict.fromkeys(_OF_CALLS, 0.0)
    if own is not None:
        found |= _superseded(index, own) | _error(index, own) | _followed(index, own) | _kind(index, own)
    last = index.last_result
    reported = any(call.error is not None for call in index.calls if call.result == last)
    lines = _lines(index, parts)
    return found | {
        "last_result_error": float(last is not None and reported),
        "repeated_lines": quotient(len(lines) - len(set(lines)), len(lines)),
    }


def _superseded(index: RequestIndex, own: CallFacts) -> dict[str, float]:
    same = [call for call in index.calls if call.tool == own.tool and call.object == own.object]
    after = [call for call in same if call.number > own.number]
    touched = [call for call in index.calls if call.number > own.number and call.object == own.object]
    stays = sum(call.tool == own.tool and not index.chosen[call.call] for call in index.calls)
    return {
        "same_object_before": log1p(sum(call.number < own.number for call in same)),
        "same_object_after": log1p(len(after)),
        "superseded_after": log1p(after[0].number - own.number) if after else 0.0,
        "superseded_share": _share_of_lines(index, own, after),
        "object_touched_after": log1p(len(touched)),
        "object_written_after": float(any(Doing.WRITE in call.doing for call in touched)),
        "object_recent": float(any(call.call >= index.recent_start for call in touched)),
        "same_tool_stays": log1p(stays),
    }


def _share_of_lines(index: RequestIndex, own: CallFacts, after: Sequence[CallFacts]) -> float:
    """Return the share of the call's lines that the last of the later results, which an agent would look at, still
    shows."""
    answered = [call.result for call in after if call.result is not None]
    if own.result is None or not answered:
        return 0.0
    lines, later = set(_lines(index, [own.result])), set(_lines(index, [answered[-1]]))
    return quotient(len(lines & later), len(lines))


def _error(index: RequestIndex, own: CallFacts) -> dict[str, float]:
    if own.error is None:
        return {}
    same = [call.number for call in index.calls if call.error == own.error]
    overcome = any(
        call.number > own.number and call.tool == own.tool and call.result is not None and call.error is None
        for call in index.calls
    )
    return {
        "reports_error": 1.0,
        "error_before": log1p(sum(number < own.number for number in same)),
        "error_after": log1p(sum(number > own.number for number in same)),
        "error_overcome": float(overcome),
    }


def _followed(index: RequestIndex, own: CallFacts) -> dict[str, float]:
    following = index.calls[own.number + 1] if own.number + 1 < len(index.calls) else None
    if following is None or following.tool != own.tool:
        return {}
    return {"next_call_same_tool": 1.0, "next_call_same_object": float(following.object == own.object)}


def _kind(index: RequestIndex, own: CallFacts) -> dict[str, float]:
    words = 0 if own.result is None else index.words.length(own.result)
    return {
        "is_read": float(Doing.READ in own.doing),
        "is_search": float(Doing.SEARCH in own.doing),
        "is_write": float(Doing.WRITE in own.doing),
        "is_run": float(Doing.RUN in own.doing),
        "result_words": log1p(words),
    }


def _lines(index: RequestIndex, parts: Sequence[int]) -> list[str]:
    """Return the lines of some parts that say something, without the space around them."""
    lines = (line.strip() for part in parts for line in index.passages[part].text.split("\n"))
    return [line for line in lines if line]
