"""Token counts for the budgets of comparators: the renderer's own, as everywhere else."""

from __future__ import annotations

from collections.abc import Sequence

from drsr.request.contracts import TokenIds, Tokenizer
from drsr.request.remembered_tokens import RememberedTokens
from drsr.request.rendering import Rendering, render
from drsr.request.request import Request

SOURCE_WINDOW = 128_000
"""The window that the sources had in mind: 128K tokens."""


REMEMBERED_TOKENS = 20_000_000
"""Number of tokens after which counted requests are forgotten: 80 MB."""


class TokenCounts:
    """Counts with one tokenizer, each text once for a while. `window` is that of the acting model."""

    def __init__(self, tokenizer: Tokenizer, window: int = SOURCE_WINDOW) -> None:
        self.window = window
        self._forgetful = tokenizer
        self._tokenizer = RememberedTokens(tokenizer)
        self._seen = 0

    def text(self, text: str) -> int:
        return len(self.ids([text])[0]) if text else 0

    def ids(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return the tokens of many texts."""
        found = self._tokenizer.encode_contents(texts)
        self._count(sum(map(len, found)))
        return found

    def request(self, request: Request) -> int:
        """Tok(C)."""
        return len(self.rendering(request))

    def rendering(self, request: Request) -> Rendering:
        found = render(request, self._tokenizer)
        self._count(len(found))
        return found

    def messages(self, request: Request) -> Sequence[int]:
        """Return the tokens of each message, its frames included."""
        return [len(span) for span in self.rendering(request).message_spans]

    def share(self, tokens: int) -> int:
        """Return a source's number of tokens as the same share of our window."""
        return max(1, round(tokens * self.window / SOURCE_WINDOW))

    def forget(self) -> None:
        """Forget all counts, so that every text is counted again."""
        self._tokenizer, self._seen = RememberedTokens(self._forgetful), 0

    def _count(self, tokens: int) -> None:
        """Count a text. Texts asked for again are counted again, so this forgets rather too early."""
        self._seen += tokens
        if self._seen > REMEMBERED_TOKENS:
            self.forget()


SCALED = (
    "Budgets that the source gives for a window of 128K tokens are the same share of the acting model's window here."
)
"""The assumption of every method whose budget follows the window."""
