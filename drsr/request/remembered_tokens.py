"""A tokenizer that encodes each text once: a rewrite contains no text that its original does not."""

from __future__ import annotations

from collections.abc import Sequence

from drsr.errors import AlignmentError
from drsr.request.contracts import TokenIds, Tokenizer


class RememberedTokens:
    """A tokenizer for one decision or one run: it remembers everything it has encoded, and returns exactly what the
    wrapped tokenizer returns."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._frames: dict[str, TokenIds] = {}
        self._contents: dict[str, TokenIds] = {}

    @property
    def identity(self) -> str:
        return self._tokenizer.identity

    @property
    def lead(self) -> TokenIds:
        return self._tokenizer.lead

    def encode_frame(self, text: str) -> TokenIds:
        """Return ids of a frame."""
        if text not in self._frames:
            self._frames[text] = self._tokenizer.encode_frame(text)
        return self._frames[text]

    def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
        """Return ids of many contents; those that are new are encoded in one batch."""
        new = [text for text in dict.fromkeys(texts) if text not in self._contents]
        try:
            self._contents.update(zip(new, self._tokenizer.encode_contents(new), strict=True))
        except AlignmentError as error:
            if error.content is None:
                raise
            raise AlignmentError(error.what, content=list(texts).index(new[error.content])) from error
        return [self._contents[text] for text in texts]
