"""LangChain's `trim_messages`: the latest messages that fit a number of tokens.

The package's own function does it. Two rows: with its defaults, which drop system prompt and task and may begin in the
middle of an exchange; and with what its documentation advises (`include_system=True`, `start_on="human"`).

Assumptions. The number of tokens, which has no default, is three quarters of the window, counted by the package's own
rough count.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.langchain_messages import from_langchain, langchain_messages
from drsr.offline.bench.comparators.peer_messages import running, tell
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request

MAX_TOKENS = 96_000


class LangChainTrimMessages(PlainMethod):
    """Asks the package."""

    package = "langchain-core"
    assumptions = ("It may use three quarters of the window, counted by the package's rough count.", SCALED)
    keeps: frozenset[Keep] = frozenset()

    def __init__(self, counts: TokenCounts, *, as_advised: bool = False) -> None:
        self._max_tokens = counts.share(MAX_TOKENS)
        self._options: dict[str, Any] = {"include_system": True, "start_on": "human"} if as_advised else {}
        self.name = "langchain_trim_messages_advised" if as_advised else "langchain_trim_messages"
        self.title = f"LangChain trim_messages ({'as advised' if as_advised else 'defaults'})"

    def load(self) -> Any:
        from langchain_core.messages import trim_messages

        return trim_messages

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        told = tell(request)
        with running(self.package):
            messages = self.load()(
                langchain_messages(told), max_tokens=self._max_tokens, token_counter="approximate", **self._options
            )
            return Rewrite(from_langchain(request, told, messages))
