"""Names of an archive's members: those that are passed over, and those that are refused."""

from __future__ import annotations

import re

from drsr.offline.store.source_files import Refusal

_UNSAFE = re.compile(r"^[/\\]|^[A-Za-z]:|(^|[/\\])\.\.([/\\]|$)|\x00")

LEADS_OUT = Refusal("path_traversal", "the member's name leads out of the archive; pack it again with plain names")
REPEATED = Refusal("duplicate_member", "the archive holds another member of this name; only the first is read")


def is_unsafe(name: str) -> bool:
    """Return whether a name leads out of the folder that an archive would be unpacked into."""
    return bool(_UNSAFE.search(name))


def is_hidden(name: str) -> bool:
    """Return whether a name begins with a dot anywhere, or is what macOS adds."""
    return name.startswith("__MACOSX/") or any(part.startswith(".") for part in name.split("/"))
