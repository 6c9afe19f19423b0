"""The contract of an agent: it answers a request, and reports what that took."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.request.request import Request

Json = dict[str, Any]


class Answer(NamedTuple):
    """An assistant message in OpenAI chat form, and its tokens."""

    message: Json
    usage: Usage


class Refused(NamedTuple):
    """The endpoint took the request for invalid or too long: the task ends here, and that is a result."""

    reason: str


class Conversation(Protocol):
    """An agent at work on one task. It is shown whole requests, one after the other."""

    def answer(self, request: Request) -> Answer | Refused: ...


class Agent(Protocol):
    """Anything that acts. Raises AgentFailed if it cannot answer: the run then stops."""

    @property
    def name(self) -> str:
        """For the results: which model it is."""

    def begin(self, task: str, opening: Json) -> Conversation:
        """Start on a task; `opening` is its first request, which no method has touched."""

    def close(self) -> None:
        """Let go of what it holds."""
