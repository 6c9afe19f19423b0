"""Features along one agent's run, whose request grows at its end: the backbone's state is kept and only new tokens run.

    sessions = SessionCache(backbone, max_bytes=2 << 30)
    sessions.features(state)         # the first decision of a run: a full pass
    sessions.features(next_state)    # the next one: only what was said since

The result equals that of `candidate_features` up to rounding: a session never changes a result, only its cost. A
request whose history was edited is run again from the last mark before the first token that differs. A view that is a
suffix moves along the request, so every position in it changes: then there is no state to continue from.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from drsr.backbone.continuation import Continuation, Mark
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import DEFAULT_MEGABYTES, room_for
from drsr.decide.background import GiveUp, Interrupted
from drsr.decide.candidates import DecisionState
from drsr.features.geometry import geometry_of
from drsr.features.hidden import SpanSummary
from drsr.features.spans import block_spans, candidate_spans
from drsr.features.vectors import CandidateFeatures, FeatureWatch
from drsr.features.view_layouts import WINDOW_POSITIONS, Kind
from drsr.request.contracts import TokenIds
from drsr.request.rendering import common_prefix

SMALLEST_CAPACITY = 1_024
"""Minimum number of tokens that a session has room for. One that outgrows its room gets twice what it needs, by a full
pass."""

PIECE = 256
"""Tokens between two marks at least: shorter runs would waste the processor's matrix units."""

MAX_COPIES = 8
"""Number of marks of a backbone with recurrent layers, each of which holds a copy of their state. Other marks cost
nothing."""

_MOST_MARKS = MAX_COPIES + 2
"""One more before they are thinned out, and one more while the state is extended."""

TAKEOVER = 0.5
"""A session is used for a request that shares at least this part of the session's tokens. With less in common (the
system prompt of all agents, say) it is probably another run's, and going back would throw that run's state away."""


class FeatureSession:
    """The state of one run. Safe to use from several threads, one decision at a time."""

    def __init__(
        self, backbone: FrozenLM, *, capacity: int = 0, kind: Kind = Kind.FULL, memory_mb: int = DEFAULT_MEGABYTES
    ) -> None:
        """`capacity` is the total number of tokens to come, if known: then there is room from the start. `kind` selects
        the columns, `memory_mb` limits what reading may take above the model."""
        self._backbone = backbone
        self._memory_mb = memory_mb
        self._kind = kind
        queried = {Kind.WINDOW: WINDOW_POSITIONS, Kind.WIDE: WINDOW_POSITIONS, Kind.SEMANTIC: backbone.window}
        self._queried = queried.get(kind, 1)
        """Positions at the end of the view that are needed, and therefore run again: queries of the window, hidden
        states of the whole view."""
        self._foreseen = capacity
        self._lock = threading.Lock()
        self._continuation: Continuation | None = None
        self._token_ids: TokenIds = np.empty(0, dtype=np.int32)
        self._summaries: dict[range, SpanSummary] = {}
        self._marks: list[Mark] = []

    @property
    def token_ids(self) -> TokenIds:
        """The tokens that were run."""
        return self._token_ids

    @property
    def nbytes(self) -> int:
        """Memory held: keys and values for the whole capacity, copies of recurrent state, and sums over Blocks."""
        copies = sum(_mark_bytes(mark) for mark in self._marks)
        summaries = sum(summary.nbytes for summary in self._summaries.values())
        capacity = self._continuation.capacity if self._continuation else 0
        return _key_value_bytes(self._backbone, capacity) + copies + summaries

    def bytes_for(self, length: int) -> int:
        """Return about how many bytes it will hold after a decision over this many tokens."""
        if self._fits(length):
            return self.nbytes
        return _key_value_bytes(self._backbone, self._capacity_for(length))

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        """Return the features of a state, running only the tokens that are new since the last one.

        If `give_up` says so between two pieces, raise Interrupted; what this call has read is then lost."""
        candidate_spans(state)  # what is wrong with the state is said before anything is run, or lost
        token_ids = state.view.token_ids(state.rendering.token_ids)
        with self._lock:
            try:
                return self._features(state, token_ids, give_up)
            except BaseException:
                self._forget()  # what was run no longer matches what is remembered
                raise

    def _features(self, state: DecisionState, token_ids: TokenIds, give_up: GiveUp | None) -> CandidateFeatures:
        if self._continuation is None or not self._fits(len(token_ids)):
            self._forget()
            capacity = self._capacity_for(len(token_ids))
            self._continuation = Continuation.within(self._backbone, capacity, self._memory_mb, marks=_MOST_MARKS)
            self._marks = [self._continuation.mark()]
        continuation = self._continuation
        spans = [span for spans in block_spans(state) for span in spans]
        # Where inputs are rounded, on the grid of a full pass: then the same pieces give the same bits. What was read
        # in a last piece that was shorter than the grid's is read again, and Blocks in it are seen again.
        grid = continuation.query_chunk if self._backbone.rounds_inputs else 1
        common = min(common_prefix(self._token_ids, token_ids), max(0, len(token_ids) - self._queried))
        common -= common % grid
        self._summaries = {span: kept for span, kept in self._summaries.items() if span.stop <= common}
        # A Block of which only a part was seen, or that was cut otherwise before, is seen again from its first token.
        missing = [span.start for span in spans if span not in self._summaries]
        first = min([common, *missing])
        self._go_back(continuation, first - first % grid)
        watch = FeatureWatch(
            self._backbone, state, [self._kind], start=continuation.length, known=self._summaries, extra=spans
        )
        for piece in _pieces(state, continuation.length, grid if self._backbone.rounds_inputs else None):
            for chunk in _chunks(piece, continuation.query_chunk):
                if give_up is not None and give_up():
                    raise Interrupted
                continuation.extend_as_memory_allows(token_ids[chunk.start : chunk.stop], watch)
            self._add_mark(continuation.mark())
        features = watch.features(self._kind)
        self._summaries |= {span: summary.copied() for span, summary in watch.summaries().items()}
        self._token_ids = token_ids.copy()
        return features

    def _go_back(self, continuation: Continuation, position: int) -> None:
        """Return to the position itself if nothing was run after it, else to the last mark before it."""
        if position < continuation.length:
            self._marks = [mark for mark in self._marks if mark.length <= position]
            continuation.rewind(self._marks[-1])

    def _add_mark(self, mark: Mark) -> None:
        """Copies are thinned out so that the gaps between them grow with the distance from the end."""
        self._marks.append(mark)
        if _mark_bytes(mark) and len(self._marks) > MAX_COPIES:
            lengths = [mark.length for mark in self._marks]
            inner = range(1, len(lengths) - 1)
            gap = {number: lengths[number + 1] - lengths[number - 1] for number in inner}
            del self._marks[min(inner, key=lambda number: gap[number] / (lengths[-1] - lengths[number]))]

    def _forget(self) -> None:
        self._continuation = None
        self._token_ids = np.empty(0, dtype=np.int32)
        self._summaries = {}
        self._marks = []

    def _fits(self, length: int) -> bool:
        return self._continuation is not None and length <= self._continuation.capacity

    def _capacity_for(self, length: int) -> int:
        wanted = self._foreseen if length <= self._foreseen else 2 * length
        spare = room_for(self._backbone, self._memory_mb).to_grow_into(_MOST_MARKS)
        return min(max(SMALLEST_CAPACITY, wanted), self._backbone.window, max(length, spare))


class SessionCache:
    """The sessions of many runs in bounded memory, found by their tokens. The least recently used is evicted first.

    A session is taken out while it is used, so two threads never share one: a second request of the same run in the
    meantime gets a session of its own.
    """

    def __init__(
        self, backbone: FrozenLM, max_bytes: int, *, kind: Kind = Kind.FULL, memory_mb: int = DEFAULT_MEGABYTES
    ) -> None:
        """`max_bytes` bounds what is kept; a single decision larger than that is still made, and nothing of it is
        kept. Each may take `memory_mb` above the model."""
        self._backbone = backbone
        self._memory_mb = memory_mb
        self._kind = kind
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._idle: list[FeatureSession] = []
        self._in_use: dict[int, int] = {}

    def __len__(self) -> int:
        """Sessions kept, without those in use at this moment."""
        return len(self._idle)

    @property
    def nbytes(self) -> int:
        """Memory of the sessions kept and, as far as it can be foreseen, of those in use."""
        with self._lock:
            return sum(session.nbytes for session in self._idle) + sum(self._in_use.values())

    def features(self, state: DecisionState, give_up: GiveUp | None = None) -> CandidateFeatures:
        """Return the features of a state, from the session that has most in common with it."""
        token_ids = state.view.token_ids(state.rendering.token_ids)
        with self._taken(token_ids) as session:
            return session.features(state, give_up)

    @contextmanager
    def _taken(self, token_ids: TokenIds) -> Iterator[FeatureSession]:
        with self._lock:
            session = self._take_nearest(token_ids)
            self._in_use[id(session)] = session.bytes_for(len(token_ids))
            self._evict()
        try:
            yield session
        except BaseException:
            with self._lock:
                del self._in_use[id(session)]
            raise
        with self._lock:
            del self._in_use[id(session)]
            self._idle.append(session)
            self._evict()

    def _take_nearest(self, token_ids: TokenIds) -> FeatureSession:
        common = [common_prefix(session.token_ids, token_ids) for session in self._idle]
        near = [
            number for number, session in enumerate(self._idle) if common[number] >= TAKEOVER * len(session.token_ids)
        ]
        return self._idle.pop(max(near, key=lambda number: common[number])) if near else self._begun()

    def _begun(self) -> FeatureSession:
        return FeatureSession(self._backbone, kind=self._kind, memory_mb=self._memory_mb)

    def _evict(self) -> None:
        while self._idle and self.nbytes > self._max_bytes:
            del self._idle[0]


def _pieces(state: DecisionState, start: int, grid: int | None = None) -> Iterator[range]:
    """Return the tokens of the view from a position on, cut where messages begin, in pieces of at least `PIECE` tokens;
    with a grid, cut at its multiples."""
    length = len(state.view.token_ids(state.rendering.token_ids))
    if grid is not None:
        return _chunks(range(start, length), grid)
    cut = len(state.rendering) - length  # tokens of the full request that the view leaves out, all before its messages
    begins = [span.start - cut for span in state.rendering.message_spans[state.view.first_message :]]
    edges = [start]
    for begin in begins:
        if begin - edges[-1] >= PIECE and length - begin >= PIECE:
            edges.append(begin)
    return (range(*pair) for pair in pairwise([*edges, length]))


def _chunks(piece: range, size: int) -> Iterator[range]:
    """Split a piece where the continuation would split it itself: between two chunks reading can be given up."""
    return (range(start, min(start + size, piece.stop)) for start in range(piece.start, piece.stop, size))


def _key_value_bytes(backbone: FrozenLM, capacity: int) -> int:
    """Return the size of the keys and values of this number of tokens in all full-attention layers."""
    settings = backbone.model.config.get_text_config()
    dim = getattr(settings, "head_dim", None) or settings.hidden_size // settings.num_attention_heads
    heads = getattr(settings, "num_key_value_heads", None) or settings.num_attention_heads
    layers = len(geometry_of(backbone).full_attention)
    return int(capacity * layers * 2 * heads * dim * backbone.model.dtype.itemsize)


def _mark_bytes(mark: Mark) -> int:
    tensors = (tensor for state in mark.recurrent for tensor in state)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
