"""The requests that a policy is published with: small, made up for this purpose, the same every time.

Conversations of a made-up warehouse agent in both wire forms, the bundled sample, and requests that no policy may
touch. If a policy prunes few of these, decisions of the sample corpus follow. They show that a policy decides as it
did, not that it decides well: that is what evaluation is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from drsr.offline import samples
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory

_WARES = ("copper wire", "oak boards", "glass jars", "felt pads", "steel hinges", "wax candles", "linen sheets", "rope")
_PLACES = ("hall A", "hall B", "the yard", "the cold store", "the loft", "dock 3")
_NOTES = (
    "counted twice",
    "the label was torn",
    "two crates were behind the shelf",
    "booked out already",
    "same as last week",
)


class _Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    result: str


class _Turn(NamedTuple):
    """One assistant message with its calls."""

    text: str
    calls: tuple[_Call, ...]


class _Conversation(NamedTuple):
    system: str
    task: str
    turns: tuple[_Turn, ...]


def golden_requests() -> dict[str, Any]:
    """Return the requests by name."""
    whole = _stock_taking(1, turns=6)
    return {
        "bundled sample": json.loads(samples.REQUEST.read_text(encoding="utf-8")),
        "stock taking, OpenAI": _openai(whole),
        "stock taking, Anthropic": _anthropic(_stock_taking(2, turns=6)),
        "two calls at once, Anthropic": _anthropic(_stock_taking(3, turns=5, calls=2)),
        "one long list, OpenAI": _openai(_stock_taking(4, turns=6, long=2)),
        "too short to prune": _openai(_stock_taking(5, turns=3)),
        "a result without its call": {"messages": [*_openai(whole)["messages"][:2], _stray_result()]},
        "not a request": {"prompt": "Count the oak boards."},
    }


def sample_requests() -> Iterator[tuple[str, Any]]:
    """Return the last decision of every run of the sample corpus, by name, in an order that mixes the kinds of work."""
    runs = [run for run in read_runs(str(samples.CORPUS)) if isinstance(run, Trajectory)]
    for run in sorted(runs, key=lambda run: hashlib.sha256(run.external_id.encode()).digest()):
        messages = run.request["messages"]
        last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
        yield f"sample {run.external_id.rpartition('#')[2]}", {**run.request, "messages": messages[:last]}


def _stock_taking(seed: int, *, turns: int, calls: int = 1, long: int | None = None) -> _Conversation:
    """Return the run of an agent that counts wares; every call asks for one of them. Turn `long` returns a list of
    everything."""
    pick = _picker(seed)
    made = []
    for turn in range(turns):
        asked = tuple(_count(pick, everything=turn == long) for _ in range(calls))
        text = f"Next are the {asked[0].arguments['ware']}." if turn % 2 else ""
        made.append(_Turn(text, asked))
    return _Conversation(
        "You keep the stock list of a warehouse. Say only what you have counted.",
        f"Count the {_WARES[pick(len(_WARES))]} and whatever lies beside them, then write the totals into the list.",
        tuple(made),
    )


def _count(pick: Callable[[int], int], *, everything: bool) -> _Call:
    ware, place = _WARES[pick(len(_WARES))], _PLACES[pick(len(_PLACES))]
    rows = 8 if everything else 1 + pick(2)
    lines = [
        f"{_PLACES[pick(len(_PLACES))]}, shelf {1 + pick(40)}: {3 + pick(900)} pieces, {_NOTES[pick(len(_NOTES))]}"
        for _ in range(rows)
    ]
    return _Call("count_stock", {"ware": ware, "place": place, "since_day": 1 + pick(28)}, "\n".join(lines))


def _picker(seed: int) -> Callable[[int], int]:
    """Return a number below a limit at each call; the same on every machine and in every version of Python."""
    calls = 0

    def pick(limit: int) -> int:
        nonlocal calls
        calls += 1
        return int.from_bytes(hashlib.sha256(f"golden {seed} {calls}".encode()).digest()[:8], "big") % limit

    return pick


def _openai(conversation: _Conversation) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": conversation.system},
        {"role": "user", "content": conversation.task},
    ]
    for turn, (text, calls) in enumerate(conversation.turns):
        called = [
            {
                "id": f"call_{turn}_{number}",
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
            }
            for number, call in enumerate(calls)
        ]
        messages.append({"role": "assistant", "content": text or None, "tool_calls": called})
        for made, call in zip(called, calls, strict=True):
            messages.append({"role": "tool", "tool_call_id": made["id"], "content": call.result})
    return {"messages": messages}


def _anthropic(conversation: _Conversation) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": conversation.task}]
    for turn, (text, calls) in enumerate(conversation.turns):
        said = [{"type": "text", "text": text}] if text else []
        names = [f"toolu_{turn}_{number}" for number in range(len(calls))]
        used = [
            {"type": "tool_use", "id": name, "name": call.tool, "input": call.arguments}
            for name, call in zip(names, calls, strict=True)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": call.result}
            for name, call in zip(names, calls, strict=True)
        ]
        messages += [{"role": "assistant", "content": [*said, *used]}, {"role": "user", "content": results}]
    return {"system": conversation.system, "messages": messages}


def _stray_result() -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_nobody_made", "content": "12 pieces"}
