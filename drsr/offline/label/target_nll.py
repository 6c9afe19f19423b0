"""The teacher-forced NLL of a recorded next output under a context (paper, Eq. nll): mean over the output's tokens.

`direct_nll` computes one pair of context and output by one forward: slow and obvious, for any backbone. `TargetNll`
scores many pairs that share beginnings and computes each distinct prefix once: the pairs form a radix tree, and the
model's state is extended along its nodes, depth first, and taken back at each branch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from drsr.backbone.catalogue import is_int8
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import DEFAULT_MEGABYTES, is_out_of_memory, room_for
from drsr.errors import BackboneError
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.request.contracts import Backbone, TokenIds
from drsr.request.view import caps_for
from drsr.settings import MIXED

if TYPE_CHECKING:
    from drsr.backbone.continuation import Watch

EXACT = "float32"
"""The precision in which all ways of computing agree."""
AGREEMENT = {EXACT: 1e-4, MIXED: 2e-3, "float16": 2e-3, "bfloat16": 1.5e-2}
"""Largest difference between two computations of one mean NLL, or of one harm, in nats per token, by dtype: half
precision rounds that much. Always less than the harm that makes a set unsafe."""

_PROBE_TOKENS = 192
"""Enough for several forwards and, in a recurrent layer, for several of its own chunks."""
_WHOLE_PROBE_TARGET = 32
"""The last tokens of a real state are scored after all others, in pieces of the size that the work is done in."""

_log = logging.getLogger(__name__)


class Pair(NamedTuple):
    """A recorded output and the context to score it under."""

    context: TokenIds
    target: TokenIds


class Method(StrEnum):
    """The way NLLs are computed."""

    SHARED_PREFIX = "shared_prefix"
    DIRECT = "direct"


Outcome = float | Exclusion
"""The mean NLL of an output, in nats per token, or why there is none."""


class Scores(NamedTuple):
    """The scores of some pairs."""

    nlls: tuple[Outcome, ...]
    """One for each pair."""
    method: Method
    tokens_processed: int
    """Tokens that went through the model."""
    tokens_in_pairs: int
    """Tokens that would go through it one by one: contexts and targets of all pairs that were scored."""


def direct_nll(backbone: Backbone, context: TokenIds, target: TokenIds) -> float:
    """Compute the NLL by one forward over context and target: slow and obvious, the reference for any faster way."""
    if len(target) == 0:
        raise ValueError("an empty target has no NLL")
    positions = range(len(context) - 1, len(context) + len(target) - 1)
    logits = backbone.logits(np.concatenate([context, target]), positions).astype(np.float64)
    with np.errstate(invalid="ignore"):  # logits that are not finite give an NLL that is not; the caller looks at it
        logits -= logits.max(axis=1, keepdims=True)
        log_normaliser = np.log(np.exp(logits).sum(axis=1))
    return float(np.mean(log_normaliser - logits[np.arange(len(target)), target]))


class TargetNll:
    """Scores pairs with one backbone, by shared prefixes where that is exact for its architecture, else directly."""

    def __init__(
        self, backbone: Backbone, *, query_chunk: int | None = None, memory_mb: int = DEFAULT_MEGABYTES
    ) -> None:
        """`query_chunk` tokens go through the model at once, by default what suits the device; fewer where shared
        prefixes would take more than `memory_mb` above the loaded model."""
        if is_int8(backbone.name):
            raise BackboneError(
                "8-bit weights give features; harm is measured with the language model itself",
                where=backbone.name,
                hint="label with the backbone without int8, then featurize with this one",
            )
        self.backbone = backbone
        self._query_chunk = query_chunk
        self._memory_mb = memory_mb
        self._verified = False
        self._kept_to = False
        self.difference: float | None = None
        """Difference between the two ways when they were compared, in nats per token; None before, or without, a
        comparison."""
        self.method = Method.SHARED_PREFIX
        """Way of computing, settled by the first `verify` or `score`."""
        self.why = "not compared with the direct computation yet"
        """Reason for this way of computing, in words."""
        reason = _why_not_shared(backbone)
        if reason is not None:
            self._compute_directly(reason)

    def keep_to(self, method: Method) -> None:
        """Compute in this way and no other, so that the labels of one labeler never mix two: in half precision their
        rounding differs. BackboneError if it cannot be done, now or at the first state where it does not hold."""
        if method is Method.DIRECT and self.method is not Method.DIRECT:
            self._compute_directly("the labeler's other labels were computed so")
        elif method is not self.method:
            raise self._mixing(self.why)
        self._kept_to = True

    def _mixing(self, why: str) -> BackboneError:
        return BackboneError(
            f"the labeler computes by shared prefixes, which cannot be kept to: {why}",
            where=self.backbone.name,
            hint="labels of two ways of computing must not be mixed: drsr label --labeler NAME begins another one",
        )

    def _compute_directly(self, why: str) -> None:
        if self._kept_to:
            raise self._mixing(why)
        self.method, self.why, self._verified = Method.DIRECT, why, True
        _log.warning("%s: each context is computed on its own: %s", self.backbone.name, why)

    def verify(self, token_ids: TokenIds) -> None:
        """Compare both ways on the tokens of a real state; where they differ, compute directly from now on.

        The first `score` does it if nobody did before. It takes about as long as two contexts of the state. Where
        nothing can be compared on these tokens, other ones will tell.
        """
        if self._verified:
            return
        try:
            differences = self._differences(_probe(token_ids), query_chunk=_PROBE_TOKENS // 5)
            if None in differences:
                return
            # What does not fit into memory at this length is no difference: the work excludes it, with that reason.
            differences += self._differences(_whole_probe(token_ids), query_chunk=self._query_chunk, compared=1)
        except Exception as error:  # whatever a model's code makes of a continuation, computing directly is right
            self._compute_directly(f"a cached continuation failed: {type(error).__name__}: {_first_line(error)}")
            return
        largest = max(difference for difference in differences if difference is not None)
        self.difference = largest
        allowed = agreement_of(self.backbone)
        if largest > allowed:
            self._compute_directly(f"cached continuation is off by {largest:.1e} nats, at most {allowed} are allowed")
            return
        self._verified = True
        self.why = f"cached continuation agrees with the direct computation to {largest:.1e} nats"

    def _differences(
        self, pairs: Sequence[Pair], *, query_chunk: int | None, compared: int | None = None
    ) -> list[float | None]:
        """Return how far the two ways are apart for each pair, or for the last so many of them."""
        shared, _ = self._walk(dict(enumerate(pairs)), {}, query_chunk=query_chunk)
        chosen = range(len(pairs))[-(compared or len(pairs)) :]
        return [_difference(shared[index], _direct_outcome(self.backbone, pairs[index])) for index in chosen]

    def score(self, pairs: Sequence[Pair], watches: Mapping[int, Watch] | None = None) -> Scores:
        """Return the NLL of every pair, or why it has none.

        `watches` are shown the contexts of the pairs they are given for (by position in `pairs`) as these run through
        the model. That needs shared prefixes: look at the `method` of what comes back.
        """
        excluded = {index: unmeasurable(pair, self.backbone.window) for index, pair in enumerate(pairs)}
        scorable = {index: pair for index, pair in enumerate(pairs) if excluded[index] is None}
        for pair in scorable.values():
            if self._verified:
                break
            self.verify(np.concatenate(pair))
        # Where nothing could be compared, directly is right, unless other labels were computed otherwise.
        method = self.method if self._verified or self._kept_to or not scorable else Method.DIRECT
        tokens = sum(len(pair.context) + len(pair.target) for pair in scorable.values())
        if method is Method.DIRECT:
            outcomes, processed = {i: _direct_outcome(self.backbone, pair) for i, pair in scorable.items()}, tokens
        else:
            watched = {index: watch for index, watch in (watches or {}).items() if index in scorable}
            outcomes, processed = self._walk(scorable, watched, query_chunk=self._query_chunk)
        nlls = tuple(excluded[index] or outcomes[index] for index in range(len(pairs)))
        return Scores(nlls, method, tokens_processed=processed, tokens_in_pairs=tokens)

    def _walk(
        self, pairs: Mapping[int, Pair], watches: Mapping[int, Watch], *, query_chunk: int | None
    ) -> tuple[dict[int, Outcome], int]:
        """All outcomes, and how many tokens went through the model."""
        from drsr.offline.label.tree_walk import NoRoom, TreeWalk  # needs torch, which scoring by a double does not

        assert isinstance(self.backbone, FrozenLM)
        room = room_for(self.backbone, self._memory_mb)
        left, outcomes, processed = dict(pairs), dict[int, Outcome](), 0
        while left:
            seen = {index: watch for index, watch in watches.items() if index in left}
            walk = None
            try:
                walk = TreeWalk(self.backbone, left, seen, query_chunk=query_chunk, room=room)
                return outcomes | walk.run(), processed + walk.tokens_processed
            except NoRoom as error:
                processed += walk.tokens_processed if walk is not None else 0
                # The buffers are as long as the longest pair: without it the others may fit.
                longest = max(left, key=lambda index: sum(map(len, left[index])))
                del left[longest]
                outcomes[longest] = Exclusion(ExclusionReason.OUT_OF_MEMORY, str(error))
        return outcomes, processed


def outcome(nll: float) -> Outcome:
    """Return the NLL, unless NaN or infinite logits made it meaningless."""
    if math.isfinite(nll):
        return nll
    return Exclusion(ExclusionReason.NON_FINITE, f"the mean NLL is {nll}: the backbone's logits are not all finite")


def _direct_outcome(backbone: Backbone, pair: Pair) -> Outcome:
    try:
        return outcome(direct_nll(backbone, pair.context, pair.target))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        tokens = len(pair.context) + len(pair.target)
        return Exclusion(ExclusionReason.OUT_OF_MEMORY, f"one forward over {tokens} tokens: {_first_line(error)}")


def unmeasurable(pair: Pair, window: int) -> Exclusion | None:
    """Return why a pair cannot be scored on any machine, or None."""
    caps = caps_for(window)
    if len(pair.target) == 0:
        return Exclusion(ExclusionReason.EMPTY_TARGET, "the next output has no tokens")
    if len(pair.target) > caps.target:
        what = f"the next output has {len(pair.target)} tokens, the cap is {caps.target}"
        return Exclusion(ExclusionReason.TARGET_TOO_LONG, what)
    if not 0 < len(pair.context) <= caps.context:
        what = f"the context has {len(pair.context)} tokens, the cap is {caps.context}"
        return Exclusion(ExclusionReason.CONTEXT_TOO_LONG, what)
    return None


def _why_not_shared(backbone: Backbone) -> str | None:
    if not isinstance(backbone, FrozenLM):
        return "the backbone is not a language model of transformers"
    from drsr.backbone.continuation import why_not_continuable

    return why_not_continuable(backbone)


def agreement_of(backbone: Backbone) -> float:
    """Return how far two computations with this backbone may be apart."""
    return AGREEMENT[dtype_of(backbone)]


def dtype_of(backbone: Backbone) -> str:
    """Return the dtype a backbone computes in. Others than language models compute exactly."""
    return backbone.precision if isinstance(backbone, FrozenLM) else EXACT


def device_of(backbone: Backbone) -> str:
    """Return the device that a backbone computes on. Others than language models compute on the processor."""
    return str(backbone.model.device) if isinstance(backbone, FrozenLM) else "cpu"


def _probe(token_ids: TokenIds) -> list[Pair]:
    """A context that goes on in two ways, and a shorter one: a walk over them extends, goes back and branches."""
    tokens = np.resize(token_ids, _PROBE_TOKENS)
    half, quarter = _PROBE_TOKENS // 2, _PROBE_TOKENS // 4
    whole, short = tokens[:half], tokens[:quarter]
    return [Pair(whole, tokens[half:]), Pair(whole, tokens[half + quarter :]), Pair(short, tokens[half + quarter :])]


def _whole_probe(token_ids: TokenIds) -> list[Pair]:
    """The state as it is, after its context was gone on with in another way; none where the short probe was as long."""
    if len(token_ids) <= _PROBE_TOKENS:
        return []
    context, target = token_ids[:-_WHOLE_PROBE_TARGET], token_ids[-_WHOLE_PROBE_TARGET:]
    return [Pair(context, target[::-1].copy()), Pair(context, target)]


def _difference(shared: Outcome, direct: Outcome) -> float | None:
    """None where there is nothing to compare: no direct number, or no memory for the other one."""
    if isinstance(direct, Exclusion):
        return None
    if isinstance(shared, Exclusion) and shared.reason is ExclusionReason.OUT_OF_MEMORY:
        return None
    return math.inf if isinstance(shared, Exclusion) else abs(shared - direct)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
