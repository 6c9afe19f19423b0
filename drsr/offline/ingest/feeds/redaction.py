"""Replace what must not be stored by placeholders, before anything of a run is stored.

    rules = ["email", "key", "card"]       # redact.toml, for drsr ingest --redact redact.toml; those that are built in
    [patterns]
    customer = 'C-\\d{8}'                    # and your own: a name, and a regular expression

The same text gets the same placeholder everywhere ([email-2bb80d53]), so a run still hangs together. A placeholder is a
short hash: who can guess the text can confirm the guess. Names of runs and tasks are not looked at.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drsr.errors import SettingsError
from drsr.offline.catalog.logical_content import content_key
from drsr.offline.ingest.trajectories import Trajectory

BUILT_IN = {
    "email": re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"),
    "key": re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abps]|hf)[-_][A-Za-z0-9_-]{16,200}|\bAKIA[0-9A-Z]{16}\b"),
    "card": re.compile(r"\b\d(?:[ -]?\d){12,18}\b"),
}
_STRUCTURE = frozenset({"role", "type", "id", "tool_call_id", "tool_use_id", "call_id", "name"})
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


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
        """Return the run with placeholders in all that was said, called and answered."""
        return replace(trajectory, request=self._value(trajectory.request))

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {name: item if name in _STRUCTURE else self._value(item) for name, item in value.items()}
        return value

    def text(self, text: str) -> str:
        """Return one text with placeholders."""
        for name, rule in self.rules.items():
            text = rule.sub(lambda found, name=name: self._placeholder(name, found[0]), text)  # type: ignore[misc]
        return text

    def _placeholder(self, name: str, found: str) -> str:
        if name == "card" and not _is_card(found):
            return found
        self.counts[name] += 1
        return f"[{name}-{hashlib.sha256(found.encode(errors='replace')).hexdigest()[:8]}]"


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
    unknown = [name for name in chosen if name not in BUILT_IN]
    if unknown:
        raise SettingsError(f"no rule is called {unknown[0]!r}", where=str(path), hint=f"one of {', '.join(BUILT_IN)}")
    compiled = {name: _compiled(name, pattern, str(path)) for name, pattern in own.items()}
    return Redaction({name: BUILT_IN[name] for name in chosen} | compiled)


def _compiled(name: str, pattern: Any, where: str) -> re.Pattern[str]:
    if not isinstance(pattern, str) or not _NAME.fullmatch(name):
        raise SettingsError(f"pattern {name!r} needs a plain name and a text", where=where)
    try:
        rule = re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"pattern {name!r} does not compile: {error}", where=where) from None
    if rule.search(""):
        raise SettingsError(f"pattern {name!r} matches nothing at all, so it would be everywhere", where=where)
    return rule


def _is_card(text: str) -> bool:
    """Return whether the digits keep the checksum that card numbers have."""
    digits = [int(letter) for letter in reversed(text) if letter.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(digits)]
    return sum(doubled) % 10 == 0
