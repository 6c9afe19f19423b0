"""LiteLLM's `trim_messages`: the latest messages that fit a number of tokens, the oldest of these cut in its middle.

The package's own function does it, on messages in OpenAI's chat form. It knows nothing of calls and their results, and
when it would have to cut a message without text it fails, logs that, and returns everything unchanged.

Assumptions. The number of tokens is three quarters of the window, its default share, counted by the package.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.peer_messages import Left, Told, carry_back, running, tell
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request

MAX_TOKENS = 96_000


class _Role(str):
    """A role that knows which message it belongs to: the package copies messages, and their roles with them."""

    place: int


class LiteLlmTrimMessages(PlainMethod):
    """Asks the package."""

    name = "litellm_trim_messages"
    title = "LiteLLM trim_messages"
    package = "litellm"
    assumptions = (
        "It may use three quarters of the window, the package's default share, by the package's count.",
        SCALED,
    )
    keeps: frozenset[Keep] = frozenset()

    def __init__(self, counts: TokenCounts) -> None:
        self._max_tokens = counts.share(MAX_TOKENS)

    def load(self) -> Any:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or importing it asks the network for prices
        from litellm.utils import trim_messages

        return trim_messages

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        told = tell(request)
        messages = [_marked(one, place) for place, one in enumerate(told)]
        with running(self.package), _swallowed() as failures:
            left = _left(told, self.load()(messages, max_tokens=self._max_tokens))
        if failures:
            return Rewrite(request)
        return Rewrite(carry_back(request, left))


@contextmanager
def _swallowed() -> Iterator[list[str]]:
    """Collect the classes of exceptions that the package catches and only logs, with a traceback, while it trims."""
    failures: list[str] = []

    def take(record: logging.LogRecord) -> bool:
        if not record.exc_info or record.exc_info[0] is None:
            return True
        failures.append(record.exc_info[0].__name__)
        return False

    logger = logging.getLogger("LiteLLM")
    logger.addFilter(take)
    try:
        yield failures
    finally:
        logger.removeFilter(take)


def _marked(told: Told, place: int) -> dict[str, Any]:
    role = _Role(told.role)
    role.place = place
    return {**told.to_chat(), "role": role}


def _left(told: list[Told], messages: list[dict[str, Any]]) -> list[Left]:
    """Return the messages that are left. The package joins all system messages into a new one, which takes the place of
    the first."""
    left = []
    for message in messages:
        role = message["role"]
        if isinstance(role, _Role):
            left.append(Left(told[role.place], message["content"]))
        else:
            left.append(Left(next(one for one in told if one.role == "system"), message["content"]))
    return left
