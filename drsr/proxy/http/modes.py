"""Pruning on, off or in the shadow: for all requests, for those with a certain key, for one request by its header."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from drsr.errors import SettingsError
from drsr.proxy.http.headers import MODE, RawHeaders, asks_for_bypass, credentials, values


class Mode(StrEnum):
    """The use that is made of a decision."""

    ON = "on"
    OFF = "off"
    """No decision is made."""
    SHADOW = "shadow"
    """It is recorded and changes nothing."""


class Modes:
    """The mode of each request. A header overrides a key, and a key overrides the default."""

    def __init__(self, default: Mode, keys: Mapping[str, Mode]) -> None:
        """`keys` has the SHA-256 of API keys, in hexadecimal."""
        self._default = default
        self._keys = keys

    def of(self, headers: RawHeaders) -> Mode:
        """Return the mode of a request with these headers. A mode that there is not leaves the request alone."""
        if asks_for_bypass(headers):
            return Mode.OFF
        for given in values(headers, MODE):
            said = given.decode("latin-1").strip().lower()
            return Mode(said) if said in list(Mode) else Mode.OFF
        if self._keys:
            for _, secret in credentials(headers):
                key = secret.strip().removeprefix(b"Bearer ").strip()
                if (found := self._keys.get(hashlib.sha256(key).hexdigest())) is not None:
                    return found
        return self._default


def read_keys(path: Path) -> dict[str, Mode]:
    """Read a file with one line per key: its SHA-256 in hexadecimal, and `on`, `off` or `shadow`. SettingsError names a
    line that says anything else, but does not quote it: it could hold the key itself."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot be read: {type(error).__name__}", where=f"--keys {path}") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not re.fullmatch(r"[0-9a-f]{64}", words[0]) or words[1] not in list(Mode):
            raise SettingsError(
                "must be the SHA-256 of a key and on, off or shadow",
                where=f"--keys {path}, line {number}",
                hint='printf %s "$KEY" | sha256sum',
            )
        found[words[0]] = Mode(words[1])
    return found
