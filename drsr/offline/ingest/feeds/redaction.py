"""Replace what must not be stored by placeholders, before anything of a run is stored.

    rules = ["email", "key", "card"]       # redact.toml, for drsr ingest --redact redact.toml; those that are built in
    [patterns]
    customer = 'C-\\d{8}'                    # and your own: a name, and a regular expression

The same text gets the same placeholder everywhere ([email-2bb80d53]), so a run still hangs together. A placeholder is a
short hash: who can guess the text can confirm the guess. Names of runs and tasks are looked at like all that was said;
paths of files are not.

Arguments of calls and many results are JSON within a text, where "ann\\u0040bikes.example" is an address and the n of
"\\n" no part of one: rules are applied to what such escapes stand for, and then to the text as it is.
"""

from __future__ import annotations

import hashlib
import re
import signal
import threading
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from drsr.errors import SettingsError
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.ingest.trajectories import Trajectory

BUILT_IN = {
    "email": re.compile(r"(?<![\w.%+-])[\w.%+-]+@[\w-]+(?:\.[\w-]+)+"),
    "key": re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abps]|hf)[-_][A-Za-z0-9_-]{16,200}|\bAKIA[0-9A-Z]{16}\b"),
    "card": re.compile(r"\b[2-6](?:[ -]?\d){12,18}\b"),
}
SECONDS, SECONDS_PER_CHARACTER = 10.0, 1e-6
"""Of a processor, for one pattern of one's own in one text. One such as (a+)+$ would search for years."""
_STRUCTURE = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "call_id"})
_DATA = frozenset({"input", "arguments", "parameters", "input_schema"})
"""What a tool is given or takes: names within are not those of messages."""
_PEOPLE = frozenset({"user", "assistant", "system", "developer"})
"""Roles whose `name` is that of a person; elsewhere it is a tool's."""
_LAYERS = 3
"""JSON in a text of JSON, and once more."""
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_STANDS_FOR = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_VALUE_BEFORE, _VALUE_AFTER = re.compile(r"[:,\[]\s{0,8}\Z"), re.compile(r"\s{0,8}[,\]}]")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


class _Inner(NamedTuple):
    """What the escapes of a text stand for, and where its characters are in that text."""

    text: str
    shifts: list[tuple[list[int], list[int]]]
    """By layer, the outermost first: where escapes end in the inner text, and how much longer they are by then."""

    def outer(self, place: int) -> int:
        for ends, longer in reversed(self.shifts):
            place += longer[bisect_right(ends, place)]
        return place


@dataclass(slots=True)
class Redaction:
    """Rules by name, and how often each was applied."""

    rules: Mapping[str, re.Pattern[str]]
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def stamp(self) -> str:
        """Change with the rules: files are then read again."""
        return content_key({name: rule.pattern for name, rule in self.rules.items()})[:8]

    def __call__(self, trajectory: Trajectory) -> Trajectory:
        """Return the run with placeholders in its name and its task, and in all that was said, called and answered."""
        task, domain = (text if text is None else self.text(text) for text in (trajectory.task, trajectory.domain))
        name, request = self.text(trajectory.external_id), self._value(trajectory.request)
        return replace(trajectory, external_id=name, task=task, domain=domain, request=request)

    def _value(self, value: Any, is_data: bool = False) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item, is_data) for item in value]
        if isinstance(value, dict):
            if is_data:
                return {self.text(name): self._value(item, is_data) for name, item in value.items()}
            keep = _STRUCTURE if value.get("role") in _PEOPLE else _STRUCTURE | {"name"}
            return {
                name: item if name in keep and isinstance(item, str) else self._value(item, name in _DATA)
                for name, item in value.items()
            }
        if is_data and isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            return value if (new := self.text(text)) == text else new
        return value

    def text(self, text: str) -> str:
        """Return one text with placeholders: first in what its escapes stand for, the innermost first."""
        for depth in range(_LAYERS if "\\" in text else 0, -1, -1):
            inner = _inner(text, depth)
            for name, rule in self.rules.items():
                if inner is None:
                    break
                with _ending(name, rule, len(text)):
                    found = [match for match in rule.finditer(inner.text) if _is_meant(name, match[0])]
                if found:
                    text = self._replaced(text, name, found, inner)
                    inner = _inner(text, depth)
        return text

    def _replaced(self, text: str, name: str, found: list[re.Match[str]], inner: _Inner) -> str:
        parts, done = [], 0
        for match in found:
            start, end = map(inner.outer, match.span())
            placeholder = f"[{name}-{hashlib.sha256(match[0].encode(errors='replace')).hexdigest()[:8]}]"
            if not inner.shifts and match[0].isdecimal() and _is_value(text, start, end):
                placeholder = f'"{placeholder}"'
            parts += [text[done:start], placeholder]
            done = end
        self.counts[name] += len(found)
        return "".join([*parts, text[done:]])


def _inner(text: str, depth: int) -> _Inner | None:
    """Return what is behind so many layers of escapes; None where there are fewer."""
    shifts = []
    for _ in range(depth):
        escapes = list(_ESCAPE.finditer(text))
        if not escapes:
            return None
        ends, longer = [], [0]
        for escape in escapes:
            longer.append(longer[-1] + len(escape[0]) - 1)
            ends.append(escape.end() - longer[-1])
        shifts.append((ends, longer))
        text = _ESCAPE.sub(_stands_for, text)
    return _Inner(text, shifts)


def _stands_for(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _STANDS_FOR.get(escape[2], escape[2])


def _is_meant(name: str, found: str) -> bool:
    return found != "" and (name != "card" or _is_card(found))


def _is_value(text: str, start: int, end: int) -> bool:
    """Return whether digits are a number of JSON, which a placeholder without quotes would break."""
    is_begun = _VALUE_BEFORE.search(text, max(0, start - 9), start) is not None
    return is_begun and _VALUE_AFTER.match(text, end) is not None


@contextmanager
def _ending(name: str, rule: re.Pattern[str], length: int) -> Iterator[None]:
    """End a search that does not come to an end. In the main thread: only there do searches look for signals."""
    if BUILT_IN.get(name) is rule or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        hint = "a repetition within a repetition, such as (a+)+, tries every way to share a text: write one of them"
        raise SettingsError(f"the redaction pattern {name!r} does not come to an end", hint=hint)

    before = signal.signal(signal.SIGVTALRM, end)  # by processor time; a stage's limit is another clock's
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS + SECONDS_PER_CHARACTER * length)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def load_redaction(path: str | Path) -> Redaction:
    """Return the rules of a file. SettingsError names what is wrong with it, before anything is read."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"cannot be read: {error}", where=str(path)) from None
    chosen, own = document.pop("rules", []), document.pop("patterns", {})
    if document or not isinstance(chosen, list) or not isinstance(own, dict) or not (chosen or own):
        hint = f"rules = {list(BUILT_IN)}, [patterns]"
        raise SettingsError("must hold a list `rules` or a table `patterns`", where=str(path), hint=hint)
    unknown = [name for name in chosen if not isinstance(name, str) or name not in BUILT_IN]
    if unknown:
        raise SettingsError(f"no rule is called {unknown[0]!r}", where=str(path), hint=f"one of {', '.join(BUILT_IN)}")
    compiled = {name: _compiled(name, pattern, str(path)) for name, pattern in own.items()}
    return Redaction({name: BUILT_IN[name] for name in chosen} | compiled)


def _compiled(name: str, pattern: Any, where: str) -> re.Pattern[str]:
    if not isinstance(pattern, str) or not _NAME.fullmatch(name) or name in BUILT_IN:
        hint = f"such as customer_2 = 'C-[0-9]+'; {', '.join(BUILT_IN)} are built in"
        raise SettingsError(f"pattern {name!r} needs a plain name of its own and a text", where=where, hint=hint)
    try:
        rule = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise SettingsError(f"pattern {name!r} does not compile: {error}", where=where) from None
    if rule.search(""):
        raise SettingsError(f"pattern {name!r} matches nothing at all, so it would be everywhere", where=where)
    return rule


def _is_card(text: str) -> bool:
    """Return whether the digits keep the checksum that card numbers have."""
    digits = [int(letter) for letter in reversed(text) if letter.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0
