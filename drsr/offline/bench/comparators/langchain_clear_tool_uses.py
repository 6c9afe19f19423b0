"""LangChain's `ClearToolUsesEdit` (of `ContextEditingMiddleware`): over a trigger, old tool results become "[cleared]".

The package's own class does it, with its defaults: keep the latest 3 results, arguments stay, its own rough count.

Assumptions. The trigger of 100,000 tokens is the same share of our window.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.langchain_messages import from_langchain, langchain_messages
from drsr.offline.bench.comparators.peer_messages import running, tell
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.request import Request

TRIGGER = 100_000


class LangChainClearToolUses(PlainMethod):
    """Asks the package."""

    name = "langchain_clear_tool_uses"
    title = "LangChain ClearToolUsesEdit"
    package = "langchain"
    assumptions = ("The package's defaults: the latest 3 results stay, arguments are not cleared.", SCALED)
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.USER})

    def __init__(self, counts: TokenCounts) -> None:
        self._trigger = counts.share(TRIGGER)

    def load(self) -> Any:
        from langchain.agents.middleware.context_editing import ClearToolUsesEdit
        from langchain_core.messages.utils import count_tokens_approximately

        return ClearToolUsesEdit, count_tokens_approximately

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        told = tell(request)
        with running(self.package):
            edit, approximately = self.load()
            messages = langchain_messages(told)
            edit(trigger=self._trigger).apply(messages, count_tokens=approximately)
            return Rewrite(from_langchain(request, told, messages))
