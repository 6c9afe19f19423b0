"""Scoring by shared prefixes against one forward per pair, and what happens when something cannot be scored."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from drsr.backbone.continuation import Continuation, Mark, Segment, Watch
from drsr.backbone.memory import Room, is_out_of_memory
from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline.featurize.exclusions import Exclusion, ExclusionReason
from drsr.offline.label import target_rows, tree_walk
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.label.target_nll import AGREEMENT, Method, Pair, TargetNll, direct_nll
from drsr.request.contracts import TokenIds
from drsr.request.view import caps_for
from tests.recording_watch import RecordingWatch
from tests.tiny_backbones import ARCHITECTURES, DEVICES, fresh_backbone, small_backbone, tiny_backbone
from tests.tiny_models import VOCABULARY, Architecture

TOLERANCE = {"llama": 1e-5, "qwen3": 1e-5, "qwen3_5": 1e-4}
"""In nats."""
OUT_OF_MEMORY = "CUDA out of memory. Tried to allocate 2.00 GiB.\nmore"


def tokens(count: int, seed: int) -> TokenIds:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).astype(np.int32)


def branching_pairs() -> list[Pair]:
    """Contexts as deletion makes them: a shared head, pieces left out, a shared tail; and targets of many lengths."""
    context, target = tokens(120, 0), tokens(20, 1)
    cuts = [slice(40, 60), slice(80, 95), slice(40, 95), slice(0, 3)]
    pairs = [Pair(context, target), *(Pair(np.delete(context, cut), target) for cut in cuts)]
    pairs += [Pair(context, target[:1]), Pair(context, target)]  # one token is predicted by the context alone
    pairs.append(Pair(np.concatenate([context, target, tokens(30, 2)]), tokens(9, 3)))  # a later state
    return pairs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equals_the_direct_computation(architecture: Architecture, device: str) -> None:
    backbone = tiny_backbone(architecture, device)
    pairs = branching_pairs()
    scores = TargetNll(backbone, query_chunk=32).score(pairs)
    assert scores.method is Method.SHARED_PREFIX
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    np.testing.assert_allclose(np.array(scores.nlls, dtype=float), expected, atol=TOLERANCE[architecture], rtol=0)
    assert np.ptp(expected) > 0.01  # the pairs are different questions
    fed = {tuple(sequence[: n + 1]) for c, t in pairs for sequence in [[*c, *t[:-1]]] for n in range(len(sequence))}
    assert scores.tokens_processed == len(fed)
    assert scores.tokens_in_pairs == sum(len(pair.context) + len(pair.target) for pair in pairs)


def test_the_direct_computation_is_the_formula() -> None:
    backbone = tiny_backbone("llama")
    context, target = tokens(30, 0), tokens(6, 1)
    ids = torch.as_tensor(np.concatenate([context, target])[None].astype(np.int64))
    with torch.inference_mode():
        labels = ids.clone()
        labels[:, : len(context)] = -100
        loss = backbone.model(input_ids=ids, labels=labels).loss  # transformers' own mean over the target
    assert direct_nll(backbone, context, target) == pytest.approx(float(loss), abs=1e-6)
    with pytest.raises(ValueError, match="empty target"):
        direct_nll(backbone, context, tokens(0, 0))


def test_what_cannot_be_scored_is_said_and_the_rest_is_scored() -> None:
    backbone = tiny_backbone("llama")
    caps = caps_for(backbone.window)
    good = Pair(tokens(50, 0), tokens(5, 1))
    pairs = [
        Pair(tokens(50, 0), tokens(0, 1)),
        Pair(tokens(50, 0), tokens(caps.target + 1, 1)),
        good,
        Pair(tokens(caps.context + 1, 0), tokens(5, 1)),
    ]
    empty, long_target, nll, long_context = TargetNll(backbone).score(pairs).nlls
    assert isinstance(empty, Exclusion)
    assert empty.reason == "empty_target"
    assert isinstance(long_target, Exclusion)
    assert long_target == ("target_too_long", f"the next output has {caps.target + 1} tokens, the cap is {caps.target}")
    assert isinstance(long_context, Exclusion)
    assert long_context.reason == "context_too_long"
    assert nll == pytest.approx(direct_nll(backbone, *good), abs=1e-5)
    assert TargetNll(backbone).score([]).nlls == ()


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_exclude_only_those_who_meet_them(broken: float) -> None:
    backbone = fresh_backbone("qwen3")  # its embeddings are not tied to the output
    backbone.model.get_input_embeddings().weight.data[7] = broken
    clean, target = tokens(60, 0), tokens(8, 1)
    clean[clean == 7], target[target == 7] = 8, 8
    spoilt = clean.copy()
    spoilt[40] = 7
    scorer = TargetNll(backbone)
    found = scorer.score([Pair(spoilt, target), Pair(clean, target), Pair(clean[:50], target)]).nlls
    assert isinstance(found[0], Exclusion)
    assert found[0].reason is ExclusionReason.NON_FINITE
    assert found[1:] == pytest.approx([direct_nll(backbone, clean, target), direct_nll(backbone, clean[:50], target)])
    # The first state could not serve to compare the two ways; the next ones did.
    assert scorer.method is Method.SHARED_PREFIX
    scorer.score([Pair(clean, target)])
    assert "agrees" in scorer.why


class LittleMemory:
    """A device on which some forwards, or logits of more than so many rows, do not fit. They fail as late as can be."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        fits: Callable[[Continuation, int, int], bool] = lambda state, stop, tokens: True,
        rows: int = 1 << 30,
    ) -> None:
        """`fits` is asked with the last position and the number of the new tokens."""
        self.forwards: list[int] = []
        self.rows: list[int] = []
        forward, forward_branches, head = Continuation._forward, Continuation._forward_branches, Continuation.head

        def asked(state: Continuation, stop: int, tokens: int) -> None:
            self.forwards.append(tokens)
            if not fits(state, stop, tokens):
                raise torch.OutOfMemoryError(OUT_OF_MEMORY)

        def limited(state: Continuation, piece: torch.Tensor, watch: Watch | None) -> torch.Tensor:
            before = state.length
            hidden = forward(state, piece, watch)
            asked(state, before + len(piece), len(piece))
            return hidden

        def limited_branches(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
            hidden = forward_branches(state, segments)  # what the buffers held is written over when it fails
            asked(state, max(part.stop for part in segments), sum(len(part.token_ids) for part in segments))
            return hidden

        def limited_head(state: Continuation, hidden: torch.Tensor) -> torch.Tensor:
            self.rows.append(len(hidden))
            if len(hidden) > rows:
                raise torch.OutOfMemoryError(OUT_OF_MEMORY)
            return head(state, hidden)

        monkeypatch.setattr(Continuation, "_forward", limited)
        monkeypatch.setattr(Continuation, "_forward_branches", limited_branches)
        monkeypatch.setattr(Continuation, "head", limited_head)


def at_most(limit: int) -> Callable[[Continuation, int, int], bool]:
    """Tokens in a forward."""
    return lambda state, stop, tokens: tokens <= limit


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_less_memory_means_smaller_pieces(architecture: Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone(architecture)
    pairs = branching_pairs()
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    memory = LittleMemory(monkeypatch, fits=at_most(40), rows=3)
    scores = TargetNll(backbone).score(pairs)
    np.testing.assert_allclose(np.array(scores.nlls, dtype=float), expected, atol=TOLERANCE[architecture], rtol=0)
    assert max(memory.forwards) > 40  # it was tried
    assert memory.forwards.count(max(memory.forwards)) == 1  # and not tried again
    assert len([count for count in memory.rows if count > 3]) < 10


def test_too_little_memory_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    scorer.verify(np.concatenate(pairs[0]))
    with monkeypatch.context() as planted:
        LittleMemory(planted, fits=at_most(8))
        found = scorer.score(pairs).nlls
    assert all(isinstance(nll, Exclusion) and nll.reason == "out_of_memory" for nll in found)
    assert isinstance(found[0], Exclusion)
    assert "buffers for" in found[0].detail
    assert "\n" not in found[0].detail
    with monkeypatch.context() as planted:
        LittleMemory(planted, rows=0)
        found = scorer.score(pairs).nlls
    assert all(isinstance(nll, Exclusion) and "logits" in nll.detail for nll in found)


def test_only_what_lies_below_is_lost_when_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens behind position 130 never fit: the later state is lost, all others are measured."""
    backbone = tiny_backbone("llama")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    expected = [direct_nll(backbone, *pair) for pair in pairs[:-1]]
    scorer.verify(np.concatenate(pairs[0]))
    LittleMemory(monkeypatch, fits=lambda state, stop, tokens: stop <= 141)
    *found, last = scorer.score(pairs).nlls
    np.testing.assert_allclose(np.array(found, dtype=float), expected, atol=1e-5)
    assert isinstance(last, Exclusion)
    assert last.reason is ExclusionReason.OUT_OF_MEMORY


def test_without_room_for_the_longest_the_others_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    scorer.verify(np.concatenate(pairs[0]))
    LittleMemory(monkeypatch, fits=lambda state, stop, tokens: state.capacity <= 150)
    found = scorer.score(pairs).nlls
    lost = [index for index, nll in enumerate(found) if isinstance(nll, Exclusion)]
    assert lost == [len(pairs) - 1]


def test_other_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = TargetNll(tiny_backbone("llama"))
    scorer.verify(tokens(200, 0))

    def failing(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Continuation, "extend_branches", failing)
    with pytest.raises(RuntimeError, match="mat1"):
        scorer.score(branching_pairs())


@pytest.mark.parametrize("failing", range(12))
def test_a_hybrid_that_has_no_memory_for_a_mark_computes_nothing_twice(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = tiny_backbone("qwen3_5")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    scorer.verify(np.concatenate(pairs[0]))
    mark, marks = Continuation.mark, 0

    def sometimes(state: Continuation) -> Mark:
        nonlocal marks
        marks += 1
        if marks == failing + 1:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return mark(state)

    monkeypatch.setattr(Continuation, "mark", sometimes)
    found = scorer.score(pairs).nlls
    assert marks > failing
    for pair, nll in zip(pairs, found, strict=True):
        assert isinstance(nll, Exclusion) or nll == pytest.approx(direct_nll(backbone, *pair), abs=1e-4)


def test_branches_that_do_not_fit_together_are_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last few of a walk, which have fewer tokens than any forward is made smaller than."""
    backbone = tiny_backbone("llama")
    scorer = TargetNll(backbone)
    context = tokens(60, 0)
    pairs = [Pair(np.append(context, ending).astype(np.int32), tokens(2, 3)) for ending in (1, 2, 3, 4)]
    scorer.verify(np.concatenate(pairs[0]))
    forward = Continuation._forward_branches

    def alone(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        if len(segments) > 1:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return forward(state, segments)

    monkeypatch.setattr(Continuation, "_forward_branches", alone)
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    np.testing.assert_allclose(np.array(scorer.score(pairs).nlls, dtype=float), expected, atol=1e-5)


def test_rows_that_cannot_be_joined_are_scored_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    scorer.verify(np.concatenate(pairs[0]))
    monkeypatch.setattr(target_rows, "_joined", lambda rows: None)
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    np.testing.assert_allclose(np.array(scorer.score(pairs).nlls, dtype=float), expected, atol=1e-5)


def test_a_real_shortage_is_recognised() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(1 << 50, dtype=torch.float64)
    assert is_out_of_memory(refused.value)
    assert is_out_of_memory(torch.OutOfMemoryError(OUT_OF_MEMORY))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("index out of range"))


def test_a_wrong_continuation_is_found_and_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Recurrent layers that are not taken back: what transformers' own `crop` would do, if it did not refuse."""

    def forgetful(state: Continuation, mark: Mark) -> None:
        for buffer in state._attention:
            buffer.length = mark.length
        state._length = mark.length

    monkeypatch.setattr(Continuation, "rewind", forgetful)
    backbone = tiny_backbone("qwen3_5")
    scorer = TargetNll(backbone)
    pairs = branching_pairs()[:3]
    with caplog.at_level(logging.WARNING):
        scores = scorer.score(pairs)
    assert scores.method is scorer.method is Method.DIRECT
    assert "off by" in scorer.why
    assert scorer.why in caplog.text
    assert scores.nlls == tuple(direct_nll(backbone, *pair) for pair in pairs)
    assert scores.tokens_processed == scores.tokens_in_pairs


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_a_continuation_that_goes_wrong_late_is_found(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only behind more tokens than a short probe has, or than any fixed number."""
    head = Continuation.head

    def late(state: Continuation, hidden: torch.Tensor) -> torch.Tensor:
        return head(state, hidden) * (0.5 if state.length > 400 else 1.0)

    monkeypatch.setattr(Continuation, "head", late)
    short, long = TargetNll(tiny_backbone(architecture)), TargetNll(tiny_backbone(architecture))
    short.verify(tokens(200, 0))
    assert short.method is Method.SHARED_PREFIX
    long.verify(tokens(600, 0))
    assert long.method is Method.DIRECT
    assert "off by" in long.why


def test_a_continuation_that_is_not_finite_where_the_direct_computation_is(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Continuation.head

    def late(state: Continuation, hidden: torch.Tensor) -> torch.Tensor:
        return head(state, hidden) * (float("nan") if state.length > 400 else 1.0)

    monkeypatch.setattr(Continuation, "head", late)
    scorer = TargetNll(tiny_backbone("llama"))
    pair = Pair(tokens(600, 0), tokens(8, 1))
    assert scorer.score([pair]).nlls == (direct_nll(tiny_backbone("llama"), *pair),)
    assert scorer.method is Method.DIRECT


@pytest.mark.parametrize(
    ("config_class", "settings"),
    [
        (transformers.GPT2Config, {"n_embd": 32, "n_layer": 2, "n_head": 4}),
        (transformers.GPTNeoXConfig, {}),
        (transformers.Gemma2Config, {"head_dim": 8, "layer_types": ["full_attention", "full_attention"]}),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_other_architectures_are_right_by_one_way_or_the_other(config_class: Any, settings: dict[str, Any]) -> None:
    """With shared prefixes where that works; where the model's own code does not allow it, directly."""
    backbone = small_backbone(config_class, **settings)
    scorer = TargetNll(backbone)
    pairs = branching_pairs()
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    np.testing.assert_allclose(np.array(scorer.score(pairs).nlls, dtype=float), expected, atol=1e-5)
    assert "agrees" in scorer.why or "failed" in scorer.why


def test_without_anything_to_compare_each_context_is_computed_on_its_own() -> None:
    backbone = fresh_backbone("qwen3")
    backbone.model.get_input_embeddings().weight.data[7] = float("nan")
    spoilt = Pair(np.full(60, 7, dtype=np.int32), tokens(8, 1))
    scorer = TargetNll(backbone)
    scores = scorer.score([spoilt])
    assert scores.method is Method.DIRECT
    assert isinstance(scores.nlls[0], Exclusion)
    clean = tokens(60, 0)
    clean[clean == 7] = 8
    assert scorer.score([Pair(clean, clean[:9])]).method is Method.SHARED_PREFIX


def test_a_long_comparison_that_does_not_fit_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Room, "holds", lambda room, longest, marks: longest <= 300)
    scorer = TargetNll(tiny_backbone("llama"))
    long, short = scorer.score([Pair(tokens(600, 0), tokens(8, 1)), Pair(tokens(250, 0), tokens(8, 1))]).nlls
    assert isinstance(long, Exclusion)
    assert long.reason is ExclusionReason.OUT_OF_MEMORY
    assert isinstance(short, float)
    assert scorer.method is Method.SHARED_PREFIX, scorer.why


def test_the_same_mistake_does_no_harm_without_recurrent_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above finds what it claims to find."""

    def forgetful(state: Continuation, mark: Mark) -> None:
        for buffer in state._attention:
            buffer.length = mark.length
        state._length = mark.length

    monkeypatch.setattr(Continuation, "rewind", forgetful)
    assert TargetNll(tiny_backbone("llama")).score(branching_pairs()).method is Method.SHARED_PREFIX


def test_backbones_that_cannot_share_are_computed_directly() -> None:
    backbone = small_backbone(transformers.MistralConfig, sliding_window=16)
    scorer = TargetNll(backbone)
    assert scorer.method is Method.DIRECT
    assert "sliding_attention" in scorer.why
    pair = Pair(tokens(60, 0), tokens(8, 1))
    assert scorer.score([pair]).nlls == (direct_nll(backbone, *pair),)
    scripted = TargetNll(ScriptedBackbone()).score([pair])
    assert scripted.method is Method.DIRECT
    assert scripted.nlls == (direct_nll(ScriptedBackbone(), *pair),)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_not_taken_for_a_wrong_continuation(dtype: str, device: str) -> None:
    for architecture in ARCHITECTURES:
        scorer = TargetNll(tiny_backbone(architecture, device, dtype))
        scorer.verify(tokens(200, 0))
        assert scorer.method is Method.SHARED_PREFIX, scorer.why
    assert max(AGREEMENT.values()) < HARM_TOLERANCE, "what rounding makes must not look like harm"


def test_a_walk_that_processed_other_tokens_than_the_tree_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = TargetNll(tiny_backbone("llama"))
    scorer.verify(tokens(200, 0))
    monkeypatch.setattr(tree_walk, "total_tokens", lambda root: 1)
    with pytest.raises(AssertionError, match="tokens processed, the tree has 1"):
        scorer.score(branching_pairs())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_watches_see_their_contexts_as_if_run_alone(architecture: Architecture) -> None:
    """One is a prefix of the other, and other contexts branch off in between."""
    backbone = tiny_backbone(architecture)
    pairs = branching_pairs()
    first, later = 0, len(pairs) - 1
    watches = {first: RecordingWatch(4), later: RecordingWatch()}
    scores = TargetNll(backbone, query_chunk=32).score(pairs, watches)
    unwatched = TargetNll(backbone, query_chunk=32).score(pairs)
    assert scores.tokens_processed == unwatched.tokens_processed  # watching costs no token
    np.testing.assert_allclose(
        np.array(scores.nlls, float), np.array(unwatched.nlls, float), atol=TOLERANCE[architecture]
    )
    for index, watch in watches.items():
        context = pairs[index].context
        alone = RecordingWatch(4)
        Continuation(backbone, len(context)).extend(context, alone)
        assert sorted(watch.states) == sorted(alone.states)
        for layer in watch.states:
            runs = list(watch.runs(layer))
            assert runs[0][0] == 0
            assert runs[-1][1] == len(context)
            assert all(stop == start for (_, stop), (start, _) in zip(runs, runs[1:], strict=False))
            seen = torch.cat([states for _, states in watch.states[layer]])
            torch.testing.assert_close(seen, alone.states[layer][0][1], atol=1e-3, rtol=0)
    alone = RecordingWatch(4)
    Continuation(backbone, 120).extend(pairs[first].context, alone)
    both = (watches[first].rows[4], alone.rows[4])
    one, other = (torch.cat([queries for queries, _ in rows], dim=1) for rows in both)
    torch.testing.assert_close(one, other, atol=1e-4, rtol=0)
    torch.testing.assert_close(both[0][-1][1], both[1][-1][1], atol=1e-4, rtol=0)
    assert watches[later].rows == {}
