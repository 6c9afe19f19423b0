"""A continued state against one forward over the whole sequence, for every architecture and device."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from drsr.backbone import continuation
from drsr.backbone.continuation import Continuation, Segment, why_not_continuable
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.layer_states import RecurrentState
from drsr.errors import BackboneError, WindowExceeded
from drsr.request.contracts import TokenIds
from tests.recording_watch import RecordingWatch
from tests.tiny_backbones import ARCHITECTURES, DEVICES, fresh_backbone, small_backbone, tiny_backbone
from tests.tiny_models import VOCABULARY, Architecture

TOLERANCE = {"llama": 1e-6, "qwen3": 1e-6, "qwen3_5": 2e-5}
"""Of the mean difference between logits of size 1 to 5. A wrong state is off by 0.1 and more."""
AT_ONE_PLACE = 100
"""How much larger the difference may be at one place: random recurrent layers are wildly sensitive at some tokens."""

every_model = pytest.mark.parametrize(
    ("architecture", "device"), [(name, device) for name in ARCHITECTURES for device in DEVICES]
)


def tokens(count: int, seed: int = 0) -> TokenIds:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).astype(np.int32)


def logits(state: Continuation, hidden: torch.Tensor) -> np.ndarray:
    return state.head(hidden).cpu().numpy()


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    difference = np.abs(found - expected)
    assert difference.mean() <= tolerance
    assert difference.max() <= tolerance * AT_ONE_PLACE


def assert_continues(
    state: Continuation, backbone: FrozenLM, before: TokenIds, new: TokenIds, tolerance: float
) -> None:
    """Extending by `new` gives what one forward over everything gives at those positions."""
    hidden = state.extend(new)
    whole = np.concatenate([before, new])
    expected = backbone.logits(whole, range(len(before), len(whole)))
    assert hidden.shape[0] == len(new)
    assert state.length == len(whole)
    assert_close(logits(state, hidden), expected, tolerance)


@every_model
def test_pieces_give_what_one_forward_gives(architecture: Architecture, device: str) -> None:
    backbone = tiny_backbone(architecture, device)
    state = Continuation(backbone, 300, query_chunk=64)
    sequence = tokens(300)
    cuts = [0, 1, 2, 5, 66, 67, 195, 300]  # single tokens, pieces around a chunk, several chunks
    for start, stop in itertools.pairwise(cuts):
        assert_continues(state, backbone, sequence[:start], sequence[start:stop], TOLERANCE[architecture])


@every_model
def test_branches_are_independent(architecture: Architecture, device: str) -> None:
    """A tree of depth three, each mark used twice and from different depths."""
    backbone = tiny_backbone(architecture, device)
    tolerance = TOLERANCE[architecture]
    state = Continuation(backbone, 200, query_chunk=48)
    prefix, one, other, leaf = tokens(70, 1), tokens(50, 2), tokens(60, 3), tokens(20, 4)
    start = state.mark()
    state.extend(prefix)
    branch = state.mark()
    for middle in (one, other, one):
        state.rewind(branch)
        assert state.length == 70
        assert_continues(state, backbone, prefix, middle, tolerance)
        deep = state.mark()
        for end in (leaf, leaf[::-1].copy()):
            state.rewind(deep)
            assert_continues(state, backbone, np.concatenate([prefix, middle]), end, tolerance)
    state.rewind(start)
    assert_continues(state, backbone, tokens(0), other, tolerance)


@settings(max_examples=20)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(2, 50), st.sampled_from(ARCHITECTURES))
def test_any_cut_and_any_chunk(lengths: list[int], chunk: int, architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    sequence = tokens(sum(lengths), seed=7)
    state = Continuation(backbone, len(sequence), query_chunk=chunk)
    position = 0
    rows = []
    for length in lengths:
        rows.append(state.extend(sequence[position : position + length]))
        position += length
    expected = backbone.logits(sequence, range(len(sequence)))
    assert_close(logits(state, torch.cat(rows)), expected, TOLERANCE[architecture])


FULL_ATTENTION = tuple(name for name in ARCHITECTURES if name != "qwen3_5")


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), min_size=1, max_size=6),
    st.sampled_from(FULL_ATTENTION),
    st.sampled_from(DEVICES),
)
def test_branches_together_are_as_one_after_another(
    places: list[tuple[float, int]], architecture: Architecture, device: str
) -> None:
    """Each branch begins anywhere in what the one before it left."""
    backbone = tiny_backbone(architecture, device)
    together = Continuation(backbone, 400)
    path = tokens(30)
    together.extend(path)
    segments, expected, watches = [], [], []
    for number, (place, length) in enumerate(places):
        start = int(place * len(path))
        new = tokens(length, seed=number + 1)
        path = np.concatenate([path[:start], new])
        watches.append(RecordingWatch(2))
        segments.append(Segment(start, new, watches[-1]))
        expected.append(Continuation(backbone, 400).extend(path)[start:])
    found = together.extend_branches(segments)
    for hidden, alone in zip(found, expected, strict=True):
        torch.testing.assert_close(hidden, alone, atol=1e-4, rtol=0)
    assert together.length == len(path)
    assert_continues(together, backbone, path, tokens(20, seed=99), TOLERANCE[architecture])
    for segment, watch, hidden in zip(segments, watches, found, strict=True):
        assert {start for pieces in watch.states.values() for start, _ in pieces} == {segment.start}
        assert torch.equal(watch.states[max(watch.states)][0][1], hidden)
        ((_, keys),) = watch.rows[2]
        assert keys.shape[1] == segment.stop


@settings(max_examples=20)
@given(st.integers(0, 40), st.lists(st.integers(1, 70), min_size=1, max_size=4), st.sampled_from(DEVICES))
def test_siblings_together_are_as_one_after_another(before: int, lengths: list[int], device: str) -> None:
    """Rows of a batch that a hybrid reads, filled up to the longest: each as if alone, and the last is gone on with."""
    backbone = tiny_backbone("qwen3_5", device)
    together, path, lengths = Continuation(backbone, 200), tokens(40)[:before], sorted(lengths)
    if before:
        together.extend(path)
    mark = together.mark()
    watches = [RecordingWatch(4) for _ in lengths]
    segments = [
        Segment(before, tokens(length, seed=length), watch) for length, watch in zip(lengths, watches, strict=True)
    ]
    found = together.extend_siblings(segments)
    for segment, hidden in zip(segments, found, strict=True):
        alone = Continuation(backbone, 200).extend(np.concatenate([path, segment.token_ids]))[before:]
        assert hidden.shape == alone.shape
        assert (hidden - alone).abs().mean() < TOLERANCE["qwen3_5"]
    for segment, watch, hidden in zip(segments, watches, found, strict=True):
        assert {start for pieces in watch.states.values() for start, _ in pieces} == {before}
        assert torch.equal(watch.states[max(watch.states)][0][1], hidden)
        ((_, keys),) = watch.rows[4]
        assert keys.shape[1] == segment.stop
    assert together.length == segments[-1].stop
    went_on = np.concatenate([path, segments[-1].token_ids])
    assert_continues(together, backbone, went_on, tokens(20, seed=99), TOLERANCE["qwen3_5"])
    together.rewind(mark)
    assert_continues(together, backbone, path, tokens(30, seed=98), TOLERANCE["qwen3_5"])


def test_siblings_elsewhere_or_out_of_order_are_refused() -> None:
    state = Continuation(tiny_backbone("qwen3_5"), 50)
    state.extend(tokens(20))
    for refused in ([(19, 3)], [(20, 5), (20, 4)], [(20, 31)], [(20, 0), (20, 3)]):
        with pytest.raises(ValueError, match=r"siblings all begin at 20|the capacity is 50"):
            state.extend_siblings([Segment(start, tokens(length)) for start, length in refused])
    assert_continues(state, tiny_backbone("qwen3_5"), tokens(20), tokens(9, 5), TOLERANCE["qwen3_5"])


def test_after_an_error_among_siblings_the_state_is_as_it_was() -> None:
    class Failing(RecordingWatch):
        def attention(self, layer: int, queries: torch.Tensor, keys: torch.Tensor) -> None:
            raise MemoryError("planted")

    backbone = tiny_backbone("qwen3_5")
    state, path = Continuation(backbone, 100), tokens(40)
    state.extend(path)
    mark = state.mark()
    with pytest.raises(MemoryError, match="planted"):
        state.extend_siblings([Segment(40, tokens(5, 1)), Segment(40, tokens(9, 2), Failing(8))])
    assert state.length == 40
    assert_continues(state, backbone, path, tokens(30, 4), TOLERANCE["qwen3_5"])
    state.rewind(mark)


def test_misplaced_branches_are_refused() -> None:
    state = Continuation(tiny_backbone("llama"), 50)
    state.extend(tokens(20))
    for misplaced in ([Segment(21, tokens(3))], [Segment(5, tokens(3)), Segment(9, tokens(3))]):
        with pytest.raises(ValueError, match="the capacity is 50"):
            state.extend_branches(misplaced)
    for unreadable in (Segment(20, tokens(31)), Segment(20, tokens(0))):
        with pytest.raises(ValueError, match="the capacity is 50"):
            state.extend_branches([unreadable])
    assert state.length == 20
    recurrent = Continuation(tiny_backbone("qwen3_5"), 50)
    assert not recurrent.reads_branches_together
    with pytest.raises(ValueError, match="recurrent"):
        recurrent.extend_branches([Segment(0, tokens(3))])


def test_after_an_error_in_a_branch_the_part_before_all_of_them_stays() -> None:
    class Failing(RecordingWatch):
        def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
            raise MemoryError("planted")

    backbone = tiny_backbone("llama")
    state = Continuation(backbone, 100)
    path = tokens(40)
    state.extend(path)
    mark = state.mark()
    segments = [Segment(40, tokens(9, 1)), Segment(15, tokens(9, 2), Failing()), Segment(20, tokens(9, 3))]
    with pytest.raises(MemoryError, match="planted"):
        state.extend_branches(segments)
    assert state.length == 15
    with pytest.raises(ValueError, match="taken back"):
        state.rewind(mark)
    assert_continues(state, backbone, path[:15], tokens(30, 4), TOLERANCE["llama"])


def test_after_going_back_was_interrupted_nothing_is_read_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("qwen3_5")
    state = Continuation(backbone, 100)
    path = tokens(30)
    state.extend(path)
    mark = state.mark()
    state.extend(tokens(10, 1))

    def interrupted(kept: RecurrentState, layer: object) -> None:
        raise MemoryError("planted")

    with monkeypatch.context() as planted:
        planted.setattr(RecurrentState, "restore", interrupted)
        with pytest.raises(MemoryError, match="planted"):
            state.rewind(mark)
    with pytest.raises(BackboneError, match="interrupted"):
        state.extend(tokens(5))
    state.rewind(mark)
    assert_continues(state, backbone, path, tokens(20, 2), TOLERANCE["qwen3_5"])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_marks_of_what_was_taken_back_are_refused(architecture: Architecture) -> None:
    state = Continuation(tiny_backbone(architecture), 50)
    state.extend(tokens(10))
    early = state.mark()
    state.extend(tokens(10))
    late = state.mark()
    state.rewind(late)
    state.rewind(early)
    state.extend(tokens(30, seed=5))
    with pytest.raises(ValueError, match="taken back"):
        state.rewind(late)
    other = Continuation(tiny_backbone(architecture), 50)
    other.extend(tokens(20))
    with pytest.raises(ValueError, match="another continuation"):
        other.rewind(early)
    state.rewind(early)
    assert state.length == 10


def test_more_than_fits_is_refused() -> None:
    backbone = tiny_backbone("llama")
    with pytest.raises(WindowExceeded, match=str(backbone.window)):
        Continuation(backbone, backbone.window + 1)
    state = Continuation(backbone, 10)
    state.extend(tokens(8))
    for refused in (tokens(3), tokens(0)):
        with pytest.raises(ValueError, match="capacity is 10"):
            state.extend(refused)
    assert state.length == 8


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_after_an_error_the_state_is_as_before(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)

    class Failing(RecordingWatch):
        def hidden(self, layer: int, start: int, states: torch.Tensor) -> None:
            if start >= 60:  # in the third forward of the extend
                raise MemoryError("planted")

    state = Continuation(backbone, 200, query_chunk=20)
    before, new = tokens(30, 1), tokens(70, 2)
    state.extend(before)
    with pytest.raises(MemoryError, match="planted"):
        state.extend(tokens(90, 3), Failing())
    assert state.length == 30
    assert_continues(state, backbone, before, new, TOLERANCE[architecture])


@every_model
def test_a_watch_sees_every_layer_as_transformers_defines_it(architecture: Architecture, device: str) -> None:
    backbone = tiny_backbone(architecture, device)
    sequence = tokens(90)
    with torch.inference_mode():
        ids = torch.as_tensor(sequence[None].astype(np.int64), device=device)
        expected = backbone.model(input_ids=ids, output_hidden_states=True).hidden_states
    state = Continuation(backbone, 90, query_chunk=32)
    state.extend(sequence[:25])
    watch = RecordingWatch()
    final = state.extend(sequence[25:], watch)
    assert sorted(watch.states) == list(range(1, len(expected)))
    for layer, pieces in watch.states.items():
        assert [start for start, _ in pieces] == [25, 57, 89]
        seen = torch.cat([states for _, states in pieces])
        torch.testing.assert_close(seen, expected[layer][0, 25:], atol=1e-4, rtol=0)
    last = torch.cat([states for _, states in watch.states[len(expected) - 1]])
    assert torch.equal(last, final)
    assert watch.rows == {}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_watch_gets_what_attention_weights_follow_from(architecture: Architecture) -> None:
    """Softmax of the reported queries over the reported keys equals the rows of the eager attention matrix."""
    backbone = tiny_backbone(architecture)
    full = [n for n, kind in enumerate(continuation.layer_types(backbone.model), start=1) if kind == "full_attention"]
    sequence = tokens(90)
    eager = fresh_backbone(architecture).model
    eager.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = eager(torch.as_tensor(sequence[None].astype(np.int64)), output_attentions=True).attentions
    assert len(expected) == len(full)
    state = Continuation(backbone, 90, query_chunk=32)
    state.extend(sequence[:25])
    watch = RecordingWatch(full[0], full[-1])
    state.extend(sequence[25:], watch)
    assert sorted(watch.rows) == [full[0], full[-1]]
    for layer, reports in watch.rows.items():
        assert [(queries.shape[1], keys.shape[1]) for queries, keys in reports] == [(32, 57), (32, 89), (1, 90)]
        for queries, keys in reports:
            heads, new, dim = queries.shape
            grouped = keys.repeat_interleave(heads // keys.shape[0], dim=0)
            scores = torch.einsum("hnd,hld->hnl", queries, grouped) * dim**-0.5
            length = keys.shape[1]
            causal = scores.masked_fill(torch.ones(new, length).triu(length - new + 1).bool(), float("-inf"))
            rows = expected[full.index(layer)][0, :, length - new : length, :length]
            torch.testing.assert_close(causal.softmax(-1), rows, atol=2e-5, rtol=0)


def test_the_model_itself_is_left_alone() -> None:
    backbone = fresh_backbone("llama")
    before = backbone.model.config._attn_implementation
    sequence = tokens(40)
    expected = backbone.logits(sequence, range(40))
    state = Continuation(backbone, 40)
    state.extend(sequence, RecordingWatch(1))
    assert backbone.model.config._attn_implementation == before != state._model.config._attn_implementation
    ours, theirs = dict(state._model.named_parameters()), dict(backbone.model.named_parameters())
    assert {name: weight.data_ptr() for name, weight in ours.items()} == {
        name: weight.data_ptr() for name, weight in theirs.items()
    }
    assert np.array_equal(backbone.logits(sequence, range(40)), expected)
    assert Continuation(backbone, 40)._model is state._model


def test_nothing_keeps_a_model_alive() -> None:
    gc.freeze()  # what other tests loaded: looking through it takes a second
    backbone = fresh_backbone("qwen3")
    Continuation(backbone, 10).extend(tokens(5))
    model = weakref.ref(backbone.model)
    del backbone
    gc.collect()
    assert model() is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_used_in_turns(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    states = [Continuation(backbone, 100), Continuation(backbone, 120)]
    sequences = [tokens(90, 1), tokens(90, 2)]
    for start in range(0, 90, 30):
        for state, sequence in zip(states, sequences, strict=True):
            piece = sequence[start : start + 30]
            assert_continues(state, backbone, sequence[:start], piece, TOLERANCE[architecture])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_threads(architecture: Architecture) -> None:
    """Each thread gets the numbers it gets alone, and its watch sees its own tokens only."""
    backbone = fresh_backbone(architecture)  # fresh: both threads also race to make the shared modules

    def run(seed: int, found: dict[int, Any]) -> None:
        watch = RecordingWatch(4)
        state = Continuation(backbone, 60, query_chunk=10)
        hidden = state.extend(tokens(30, seed))
        hidden = torch.cat([hidden, state.extend(tokens(30, seed + 10), watch)])
        found[seed] = (hidden, watch)

    together: dict[int, Any] = {}
    threads = [threading.Thread(target=run, args=(seed, together)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone: dict[int, Any] = {}
    for seed in range(3):
        run(seed, alone)
        assert torch.equal(together[seed][0], alone[seed][0])
        for report, expected in zip(together[seed][1].rows[4], alone[seed][1].rows[4], strict=True):
            assert torch.equal(report[0], expected[0])
            assert torch.equal(report[1], expected[1])
        starts = [start for start, _ in together[seed][1].states[1]]
        assert starts == [30, 40, 50]


def test_what_cannot_be_continued_exactly_is_refused() -> None:
    window = small_backbone(transformers.MistralConfig, sliding_window=16)
    reason = why_not_continuable(window)
    assert reason is not None
    assert "sliding_attention" in reason
    with pytest.raises(BackboneError, match="sliding_attention"):
        Continuation(window, 10)
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    stretched = small_backbone(transformers.LlamaConfig, rope_parameters=rope)
    assert "rotary" in str(why_not_continuable(stretched))
    assert why_not_continuable(tiny_backbone("qwen3_5")) is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@every_model
def test_half_precision(architecture: Architecture, device: str, dtype: str) -> None:
    backbone = tiny_backbone(architecture, device, dtype)
    state = Continuation(backbone, 80, query_chunk=16)
    state.extend(tokens(40))
    branch = state.mark()
    state.extend(tokens(40, 1))
    state.rewind(branch)
    hidden = state.extend(tokens(40, 2))
    assert hidden.dtype == getattr(torch, dtype)
    expected = backbone.logits(np.concatenate([tokens(40), tokens(40, 2)]), range(40, 80))
    found = state.head(hidden).float().cpu().numpy()
    assert np.abs(found - expected).mean() < 0.1 < np.abs(expected).mean()
