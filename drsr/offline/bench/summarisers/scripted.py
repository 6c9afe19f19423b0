"""A deterministic double of a summariser. It ships, knows no language, and copies: first lines, names and numbers.

It is for tests, and for replay on a machine without a model that can write. A table made with it says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from drsr.offline.bench.summarisers.summariser import Ask, Completion
from drsr.request.contracts import Tokenizer

SCRIPTED = "scripted"
"""Its name."""
_IDENTIFIER = re.compile(r"[\w.#/:-]*\d[\w.#/:-]*|\w+[_/.-]\w[\w/.-]*")
_QUOTED = 60
"""Number of characters of a quotation: six of them fit into a verdict's tokens, whatever they say."""
_INDEXED = re.compile(r"^\[(?P<id>\w+)\] (?P<kind>\w+), (?P<tokens>\d+) tokens", re.MULTILINE)


class ScriptedSummariser:
    """The double. Tokens are counted with the tokenizer it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._answers: dict[str, Callable[[Ask], str]] = {"rubric": _verdict, "plan": _plan}

    @property
    def name(self) -> str:
        return SCRIPTED

    def complete(self, ask: Ask) -> Completion:
        """Answer by the rule for the question's purpose, cut to the length allowed."""
        text = self._cut(self._answers.get(ask.purpose, _extract)(ask), ask.max_tokens)
        return Completion(text, self._count(ask.instructions) + self._count(ask.material), self._count(text))

    def _cut(self, text: str, limit: int) -> str:
        words = text.split(" ")
        while words and self._count(" ".join(words)) > limit:
            words = words[: len(words) * 7 // 8]
        return " ".join(words)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode_contents([text])[0]) if text else 0


def _extract(ask: Ask) -> str:
    """Return the first eight words of every paragraph, and all names and numbers of the whole, each once."""
    openings = [" ".join(part.split()[:8]) for part in ask.material.split("\n\n") if part.strip()]
    names = list(dict.fromkeys(_IDENTIFIER.findall(ask.material)))
    return "\n".join([*openings, "Names and numbers: " + ", ".join(names)]).strip()


def _verdict(ask: Ask) -> str:
    """Return yes to every item, each with the beginnings of the longest lines as evidence, three if it asks for three;
    no if the last paragraph mentions an error."""
    paragraphs = [part for part in ask.material.split("\n\n") if part.strip()] or [""]
    lines = sorted(ask.material.splitlines(), key=len, reverse=True)
    quotations = list(dict.fromkeys(line.strip()[:_QUOTED].strip() for line in lines))
    answer: dict[str, Any] = {
        item: {"holds": "error" not in paragraphs[-1].lower(), "evidence": quotations[: 3 if three else 1]}
        for item, three in re.findall(r"^- (\w+): (three )?", ask.instructions, re.MULTILINE)
    }
    return json.dumps(answer, ensure_ascii=False)


def _plan(ask: Ask) -> str:
    """Of everything that is listed: the larger half, in turn folded, masked and pruned."""
    listed = [(int(found["tokens"]), found["id"]) for found in _INDEXED.finditer(ask.material)]
    larger = sorted(listed, key=lambda one: (-one[0], one[1]))[: (len(listed) + 1) // 2]
    actions = ("fold", "mask", "prune")
    return json.dumps([{"id": one, "action": actions[place % 3]} for place, (_, one) in enumerate(larger)])
