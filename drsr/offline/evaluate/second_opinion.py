"""A second opinion on labels: the extent to which another language model agrees on the same states, kept as a small
JSON file.

`python -m benchmarks.second_opinion --output FILE` measures and writes it; `drsr publish --second-opinion FILE` puts it
into the policy's numbers, and the model card reports it from there. No decision depends on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from drsr.errors import InputError

FORMAT = "drsr-second-opinion/1"
_SHARES = ("same_verdict", "same_order")
_COUNTS = ("states", "tasks", "sets", "pairs")


class SecondOpinion(NamedTuple):
    """The agreement of two language models on states that both measured."""

    first: str
    """The language model of the labels."""
    second: str
    states: int
    tasks: int
    sets: int
    pairs: int
    """Pairs of sets of one state whose harms differ by a meaningful gap for the first."""
    same_verdict: float
    """Part of the sets that both find safe, or both unsafe."""
    same_order: float
    """Part of the pairs that both put in the same order."""

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **self._asdict()}

    @property
    def said(self) -> str:
        return (
            f"Second opinion: {self.second} measured {self.states} of these states, of {self.tasks} tasks, as well. It "
            f"found the same safe and the same unsafe for {self.same_verdict:.0%} of {self.sets:,} deletion sets, and "
            f"put {self.same_order:.0%} of {self.pairs:,} pairs of them in the same order as {self.first}."
        )


NOT_TAKEN = "No second opinion was taken: no other language model measured any of these states."


def opinion_of(values: Any, where: str) -> SecondOpinion:
    """Check a second opinion that was read from JSON."""
    fields = SecondOpinion._fields
    if not isinstance(values, dict) or values.get("format") != FORMAT or set(values) != {"format", *fields}:
        raise InputError(
            f"is not a second opinion of the form {FORMAT}", where=where, hint="benchmarks/second_opinion.py"
        )
    found = SecondOpinion(**{name: values[name] for name in fields})
    counts = [getattr(found, name) for name in _COUNTS]
    shares = [getattr(found, name) for name in _SHARES]
    sound = all(isinstance(count, int) and count > 0 for count in counts)
    if not sound or not all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares):
        raise InputError("has counts that are not positive, or shares that are not between 0 and 1", where=where)
    return found


def read_opinion(path: Path, labelled_by: str) -> SecondOpinion:
    """Read a file about labels of one language model; raise InputError if it is about another's."""
    try:
        values = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error}", where=str(path)) from None
    found = opinion_of(values, str(path))
    if found.first != labelled_by:
        raise InputError(
            f"is about labels of {found.first}; this policy's were measured with {labelled_by}", where=str(path)
        )
    return found
