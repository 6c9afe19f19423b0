"""The committed corpus, and what happens to a request when Blocks are deleted from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from drsr.offline import samples
from drsr.offline.sandbox.agent import next_message
from drsr.offline.sandbox.corpus import FAMILIES, read_lines
from drsr.request.history import Block, History, delete, read_history
from drsr.request.request import read_request

Json = dict[str, Any]


@cache
def corpus() -> tuple[Json, ...]:
    """The lines of the committed file."""
    return tuple(json.loads(line) for line in read_lines(samples.CORPUS))


def calls(message: Json) -> list[Json]:
    """The calls of a message, `arguments` parsed."""
    return [
        {"name": made["function"]["name"], "arguments": json.loads(made["function"]["arguments"])}
        for made in message.get("tool_calls") or []
    ]


def agent(messages: list[Json]) -> Json:
    """The next message of the scripted agent that a request belongs to: the one with its system prompt."""
    (family,) = [family for family in FAMILIES if family.system == messages[0]["content"]]
    return next_message(messages, family.plan)


def steps(messages: list[Json]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


class Decision(NamedTuple):
    """A request of a recorded trajectory and what came next."""

    history: History
    next_output: Json

    def next_without(self, *blocks: Block) -> Json:
        """What the agent does when these Blocks are deleted."""
        return agent(delete(self.history, blocks).request.to_wire()["messages"])

    @property
    def older_blocks(self) -> list[Block]:
        return [block for step in self.history.older for block in step.blocks]

    def distance(self, block: Block) -> int:
        """How many Steps lie between a Block and the next output: 1 for the latest Step."""
        return len(self.history.steps) - block.step

    def is_noise(self, block: Block) -> bool:
        """Whether nothing in it was called for by a plan: the paths and commands that only noise moves use."""
        message = self.history.request.to_wire()["messages"][self.history.steps[block.step].message]
        return bool(calls(message)) and all(_is_noise(made) for made in calls(message))


_NOISE_ARGUMENTS = frozenset(
    {"README.md", "NOTES.txt", "team.txt", "CONTRIBUTING.md", ".", "ls", "make help", "pwd"}
    | {"/about", "/news", "/imprint", "/faq", "/sitemap", "/search?q=terms"}
    | {"sort team.txt", "head -n 1 team.txt", "wc -l NOTES.txt team.txt", "grep -i deadline NOTES.txt"}
)


def _is_noise(made: Json) -> bool:
    return set(made["arguments"].values()) <= _NOISE_ARGUMENTS


def decisions(line: Json, at_least_older: int = 1) -> Iterator[Decision]:
    """The decisions of a trajectory that have at least so many Steps older than Recent2."""
    messages = line["request"]["messages"]
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            history = read_history(read_request({"messages": messages[:index]}))
            if len(history.older) >= at_least_older:
                yield Decision(history, message)
