"""The identity of a task that nothing names but its own text: what the user says first.

Attempts at one issue lie in folders of their own, so a path says nothing about the issue. An issue that is quoted in
the opening counts alone, because what stands around it (a workspace, a session) differs from attempt to attempt; of one
that is not, the name of a workspace's folder is left out.
"""

from __future__ import annotations

import hashlib
import re

from drsr.offline.ingest.formats.chat_form import text_of
from drsr.offline.ingest.trajectories import Json

_QUOTED = re.compile(r"<(issue_description|pr_description|issue)>(.+?)</\1>", re.DOTALL)

_WORKSPACE = re.compile(r"/(workspaces?|tmp)/[^/\s]+")
"""What follows it, such as a file of the project, belongs to the issue."""


def opening_task(request: Json) -> str | None:
    """Return a name for the task of a request; None where the user says nothing."""
    said = (text_of(message["content"]) for message in request["messages"] if message["role"] == "user")
    text = next((text for text in said if text.strip()), None)
    if text is None:
        return None
    quoted = _QUOTED.search(text)
    words = (quoted[2] if quoted else _WORKSPACE.sub(r"/\1", text)).split()
    return f"opening:{hashlib.sha256(' '.join(words).encode(errors='replace')).hexdigest()[:16]}"
