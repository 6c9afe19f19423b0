"""Token counts for the budgets of comparators: the renderer's own, as everywhere else."""

from __future__ import annotations

from collections.abc import Sequence

from drsr.contracts import TokenIds, Tokenizer
from drsr.remembered_tokens import RememberedTokens
from drsr.rendering import Rendering, render
from drsr.request import Request

SOURCE_WINDOW = 128_000
"""The window that the sources had in mind: 128K tokens."""


class TokenCounts:
    """Counts with one tokenizer, each text once. `window` is that of the acting model."""

    def __init__(self, tokenizer: Tokenizer, window: int = SOURCE_WINDOW) -> None:
        self.window = window
        self._tokenizer = RememberedTokens(tokenizer)

    def text(self, text: str) -> int:
        return len(self._tokenizer.encode_contents([text])[0]) if text else 0

    def ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """The tokens of many texts."""
        return self._tokenizer.encode_contents(texts)

    def request(self, request: Request) -> int:
        """Tok(C)."""
        return len(self.rendering(request))

    def rendering(self, request: Request) -> Rendering:
        return render(request, self._tokenizer)

    def messages(self, request: Request) -> Sequence[int]:
        """Of each message, its frames included."""
        return [len(span) for span in self.rendering(request).message_spans]

    def share(self, tokens: int) -> int:
        """A source's number of tokens as the same share of our window."""
        return max(1, round(tokens * self.window / SOURCE_WINDOW))


SCALED = (
    "Budgets that the source gives for a window of 128K tokens are the same share of the acting model's window here."
)
"""The assumption of every method whose budget goes by the window."""
