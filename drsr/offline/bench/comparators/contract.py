"""The contract of a comparator: a rewriter of requests that states its assumptions, what it keeps, and what it costs.

    state = comparator.begin()                                  # once per trajectory
    rewrite = comparator.rewrite(request, state, summariser)    # before each decision, in order

A comparator always sees the whole recorded request, never its own earlier rewrite: what it did before is in `state`.
`replay/checked.py` looks at what comes out.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from drsr.offline.bench.summarisers.summariser import Completion, Summariser
from drsr.request.request import Request


class Keep(StrEnum):
    """Properties that a rewrite may leave as they were. `checked.py` measures them; a comparator claims some."""

    PAIRS = "pairs"
    """Every call with its result, and no new violation of the protocol."""
    PREFIX = "prefix"
    """The messages before the first Step, word for word."""
    TASK = "task"
    """The user's first message, perhaps with something after it."""
    RECENT2 = "recent2"
    """The two latest complete Steps and all that follows, word for word."""
    USER = "user"
    """The user's later messages."""


Trained = Literal["no", "untrained", "here", "stand-in", "handed in"]
"""`no`: nothing to train. `untrained`: the source trains a model, and here an ordinary model takes its place. `here`:
trained on our own train split. `stand-in`: the source's model is out of reach, and a simple rule takes its place.
`handed in`: a trained model that `--model` named."""


class Rewrite(NamedTuple):
    """A request as a comparator rewrote it."""

    request: Request
    """The rewritten request; the very object that was passed in if nothing was changed."""
    auxiliary_input_tokens: int = 0
    """Tokens that were read by the models it asked along the way."""
    auxiliary_output_tokens: int = 0
    """Tokens that they wrote."""


class Comparator(Protocol):
    """One method, with its settings. Holds nothing that changes: that is what `state` is for."""

    @property
    def name(self) -> str:
        """Short, fixed, unique: `sliding_window_5`."""

    @property
    def title(self) -> str:
        """For the rows of tables: `Sliding Window (K=5)`."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Return the choices that its source leaves open and we made, one sentence each."""

    @property
    def trained(self) -> Trained: ...

    @property
    def asks(self) -> bool:
        """Return whether it asks the summariser, and so depends on which one it is."""

    @property
    def keeps(self) -> frozenset[Keep]:
        """Return the properties that it claims to keep, whatever the request."""

    def begin(self) -> Any:
        """Return the memory of one trajectory, at its start. None if the method remembers nothing."""

    def rewrite(self, request: Request, state: Any, summariser: Summariser) -> Rewrite:
        """Return the request as this method would send it. `request` is not changed; `state` may be."""


class PlainMethod:
    """The part of a comparator that trains nothing, calls no model and remembers nothing."""

    trained: Trained = "no"
    asks = False

    def begin(self) -> Any:
        return None


@runtime_checkable
class Peer(Comparator, Protocol):
    """A comparator that runs a third-party package."""

    @property
    def package(self) -> str:
        """Name of the package, as installed: `openai-agents`."""

    def load(self) -> Any:
        """Import what it needs of the package. Whatever goes wrong in that is raised."""


class Ledger:
    """A running account of what one rewrite cost."""

    def __init__(self) -> None:
        self._completions: list[Completion] = []

    def paid(self, completion: Completion) -> str:
        """Count a model's answer; gives its text."""
        self._completions.append(completion)
        return completion.text

    def rewrite(self, request: Request) -> Rewrite:
        return Rewrite(
            request,
            sum(one.input_tokens for one in self._completions),
            sum(one.output_tokens for one in self._completions),
        )


WHOLE_STEPS = "Messages of the user behind the task go with the Step they follow, as in any window over a conversation."
"""The assumption of every method that cuts whole Steps away."""
