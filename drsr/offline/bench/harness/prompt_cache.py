"""A model of a provider's prompt cache: which part of a request would have been read from it, and which written to it.

The longest beginning that a request shares with the one before it is read from the cache, everything after it is
written, both in whole chunks; what is left over is neither. Nothing expires. Both are parts of the input, never
additions to it:

    input = uncached + cache-read + cache-creation
"""

from __future__ import annotations

import numpy as np

from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.request.contracts import TokenIds
from drsr.request.rendering import common_prefix

CHUNK = 64
"""Tokens. Providers take 128 or more, for requests that are much longer than those of the sandbox."""


class PromptCache:
    """The cache of one task's requests."""

    def __init__(self, chunk: int = CHUNK) -> None:
        self._chunk = chunk
        self._before: TokenIds = np.empty(0, dtype=np.int32)

    def usage(self, request: TokenIds, output_tokens: int) -> Usage:
        """Return what a request and its answer took. The request is what the next one is compared with."""
        read = self._whole(common_prefix(self._before, request))
        self._before = request
        return Usage(len(request), output_tokens, read, self._whole(len(request)) - read)

    def _whole(self, tokens: int) -> int:
        return tokens // self._chunk * self._chunk
