"""Words that a framework says in the model's place, as a team names them per source: history, and no decision.

    [agents]                                             # feeds.toml
    framework_says = ["Run ended: budget used up"]       # an entry that ends in … stands for all that begins so

What every version of drsr knows is in `formats/synthetic_outputs.py`. Words of a source are marked where its runs are
read, after redaction and before anything is stored, so that a marked run is another content of that run: its older
version is superseded, and with it the states that stood before such words. Files are read again when the words change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from drsr.offline.catalog.logical_content import content_key
from drsr.offline.ingest.trajectories import Json, Trajectory

AND_SO_ON = "…"
_NO_LETTERS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences of a source, word for word but for white space."""

    entries: tuple[str, ...]

    @property
    def stamp(self) -> str:
        """Change with the words: files are then read again. Without any there is no stamp."""
        return f"/{content_key({'framework says': sorted(self.entries)})[:8]}" if self.entries else ""

    def hold(self, said: str) -> bool:
        """Return whether one of them is all that was said."""
        said = one_line(said)
        return any(_is(entry, said) for entry in self.entries)

    def places(self, trajectory: Trajectory) -> list[int]:
        """Return the messages of a run that say these words as if a model had decided to."""
        messages = trajectory.request["messages"] if self.entries else ()
        return [
            at
            for at, message in enumerate(messages)
            if message.get("is_decision") is not False
            and (said := words_alone(message)) is not None
            and self.hold(said)
        ]

    def marked(self, trajectory: Trajectory) -> Trajectory:
        """Return the run with these words marked as history."""
        places = set(self.places(trajectory))
        if not places:
            return trajectory
        messages = [
            {**message, "is_decision": False} if at in places else message
            for at, message in enumerate(trajectory.request["messages"])
        ]
        return replace(trajectory, request={**trajectory.request, "messages": messages})


WordsOf = Callable[[str], Words]
"""Returns the words of a source."""
NO_WORDS = Words(())


def words_alone(message: Json) -> str | None:
    """Return what an assistant's message says, on one line, if words are all it has: no call, no reasoning, no image.

    A framework that stops a run says a sentence; it neither reasons nor calls a tool.
    """
    if message["role"] != "assistant" or message.get("tool_calls") or message.get("reasoning_content"):
        return None
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [_text_of(block) for block in content or ()]
    return None if None in texts else one_line("\n".join(filter(None, texts)))


def one_line(text: str) -> str:
    """Return a text with every stretch of white space, and of what cannot be printed, as one space."""
    return _NO_LETTERS.sub(" ", text).strip()


def _text_of(block: Any) -> str | None:
    is_text = isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    return block["text"] if is_text else None


def _is(entry: str, said: str) -> bool:
    wanted = one_line(entry)
    return said.startswith(wanted.removesuffix(AND_SO_ON).rstrip()) if wanted.endswith(AND_SO_ON) else said == wanted
