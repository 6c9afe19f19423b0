"""One file that may hold trajectories, on any storage: its names, how it is opened, and how storage fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from drsr.errors import DrsrError, InputError, SourceUnreachable
from drsr.redaction import links, redact, take_apart, without_userinfo

__all__ = ["Limits", "Refusal", "SourceFile", "Unreadable", "redact", "storage_errors", "without_userinfo"]


class Refusal(NamedTuple):
    """The reason why a file is not opened."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file that may hold trajectories, on any storage."""

    location: str
    """Name to show and to record in the catalog; holds no credentials."""
    relative: str
    """Its path below the root that was given, with `/`. The root of a single file is its folder."""
    source: str
    """Name of the source it belongs to: the first folder below the root, or the root's own name."""
    fingerprint: str | None
    """Value that changes whenever the bytes do; None if the filesystem reports nothing reliable."""
    size: int | None
    """Size in bytes, if the filesystem reports it."""
    opener: Callable[[], BinaryIO] = field(repr=False, compare=False)
    refused: Refusal | None = None
    """Reason why the file must not be opened, if any."""
    members: tuple[SourceFile, ...] = ()
    """The files that together make this one, if a folder of event files is read as one run."""
    changed: float | None = None
    """Time of the last change, in seconds since the epoch, if its filesystem distinguishes contents by that alone."""

    in_parallel: bool = False
    """True if several threads may open files of its filesystem at once, which is worth it over a network."""

    def open(self) -> BinaryIO:
        """Return the bytes from the start, as a buffered stream. Storage failures are raised as DrsrError."""
        return self.opener()

    @property
    def path_in_source(self) -> str:
        """Its path below its source: the same whether the source's folder or the folder above was given."""
        first, slash, rest = self.relative.partition("/")
        return rest if slash and first == self.source else self.relative


_WRONG = (TypeError, ValueError, ImportError, IsADirectoryError, NotADirectoryError)
"""Errors that a filesystem raises for a wrong name or option. Everything else may pass: buckets raise other errors."""


@contextmanager
def storage_errors(uri: str) -> Iterator[None]:
    """Turn storage failures into DrsrErrors. `from None`: the original text may spell out a signed URL."""
    try:
        yield
    except (DrsrError, GeneratorExit):
        raise
    except FileNotFoundError:
        raise InputError("is not there any more", where=redact(uri), hint="was it moved while being read?") from None
    except PermissionError as error:
        hint = "check the file's permissions, or the credentials of the bucket"
        raise InputError(f"may not be read ({_safe_text(error, uri)})", where=redact(uri), hint=hint) from None
    except Exception as error:  # each filesystem has exceptions of its own; all mean that the bytes cannot be had
        hint = "check the network, the endpoint and the credentials, then run it again: nothing is read twice"
        what = f"cannot be read ({type(error).__name__}: {_safe_text(error, uri)})"
        raise SourceUnreachable(what, where=redact(uri), hint=hint, passing=not isinstance(error, _WRONG)) from None


def _safe_text(error: Exception, uri: str) -> str:
    """Return a filesystem's message without anything that the URI keeps secret, whole or in pieces."""
    text = str(error).replace(uri, redact(uri))
    text = re.sub(r"(?<![a-z0-9+.-])[a-z0-9+.-]+://\S+", lambda match: redact(match.group()), text)
    for part in filter(None, map(take_apart, links(uri))):
        secrets = [part.userinfo, part.query, *re.split("[:@/]", part.userinfo), *re.split("[?#&=]", part.query)]
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) > 3 else text
    return text[:300]


class Unreadable(Exception):
    """Content that cannot be read. It becomes a Quarantined and never leaves `drsr.offline.ingest.formats`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on reading a file. The defaults suit a laptop; what exceeds them is quarantined, never cut off."""

    document: int = 256 << 20
    """Bytes of one JSON document, one line, or one session: what must be in memory at once."""
    expanded: int = 16 << 30
    """Bytes that one compressed file or one archive may unpack to."""
    ratio: int = 250
    """Unpacked bytes per packed byte. Deflate cannot honestly exceed 1,032, and agents' logs stay below 100."""
    ratio_floor: int = 64 << 20
    """Unpacked bytes below which the ratio does not matter."""
    members: int = 100_000
    """Files in one archive."""
