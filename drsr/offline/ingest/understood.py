"""A short account of a run as it was read, so that a person sees at a glance that a result answers its call."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from drsr.offline.ingest.trajectories import Json, Trajectory

_LONGEST = 160
"""Characters of a text that is shown."""


class Understood(NamedTuple):
    """A run in five lines. Texts are shortened; a missing one is empty."""

    format: str
    run: str
    """`source/external id`."""
    task: str | None
    request: str
    """The first words of the user."""
    call: str
    """The first call: tool and arguments."""
    result: str
    """Its answer."""
    last: str
    """The last message, behind its role."""

    def brief(self) -> str:
        """Return one line: enough to see a shift."""
        exchange = f"{self.call} -> {self.result}" if self.call else f"no calls; {self.last}"
        return f"{self.format}: task {self.task or 'unknown'}: {exchange}"

    def lines(self) -> list[str]:
        """Return everything, a line each."""
        shown = {
            "task": self.task or "unknown",
            "request": self.request,
            "first call": self.call or "none",
            "its result": self.result or "none",
            "last": self.last,
        }
        return [f"{self.format}: {self.run}", *(f"  {name + ':':<12}{text}" for name, text in shown.items())]


class Samples:
    """The first runs of every format that an ingest takes."""

    def __init__(self, runs: int) -> None:
        self.taken: list[Understood] = []
        self._runs = runs
        self._of_format: Counter[str] = Counter()

    def __call__(self, source: str, trajectory: Trajectory, task: str | None) -> None:
        if self._of_format[trajectory.reader] < self._runs:
            self._of_format[trajectory.reader] += 1
            self.taken.append(understood(source, trajectory, task))


def understood(source: str, trajectory: Trajectory, task: str | None) -> Understood:
    """Describe a run; `task` is the name it is recorded under."""
    messages = trajectory.request["messages"]
    call_id, call = next((found for message in messages for found in _calls(message)), ("", ""))
    results = (text for message in messages for answered, text in _results(message) if answered == call_id)
    request = next((_text(message["content"]) for message in messages if message["role"] == "user"), "")
    last = messages[-1]
    return Understood(
        trajectory.reader.partition("/")[0],
        f"{source}/{trajectory.external_id}",
        task,
        _short(request),
        _short(call),
        _short(next(results, "")) if call else "",
        _short(f"{last['role']}: {_text(last['content']) or ', '.join(text for _, text in _calls(last))}"),
    )


def _calls(message: Json) -> list[tuple[str, str]]:
    """Return id and words of every call, in either wire form."""
    calls = message.get("tool_calls") or []
    found = [(call["id"], f"{call['function']['name']} {call['function']['arguments']}") for call in calls]
    uses = [block for block in _blocks(message) if block.get("type") == "tool_use"]
    return found + [(block["id"], f"{block['name']} {block['input']}") for block in uses]


def _results(message: Json) -> list[tuple[str, str]]:
    """Return the id of the call and the text of every result, in either wire form."""
    if message["role"] == "tool":
        return [(message["tool_call_id"], _text(message["content"]))]
    results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
    return [(block["tool_use_id"], _text(block.get("content"))) for block in results]


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part["text"] for part in content if isinstance(part, dict) and "text" in part)
    return content or ""


def _short(text: str) -> str:
    """Return the beginning of a text on one line, without characters that a terminal would obey."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(text[: 4 * _LONGEST].split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
