"""Sessions: the same features for the price of the new tokens, whatever happened to the request meanwhile."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import drsr.features.session
from drsr.backbone import embedded, installing, load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState
from drsr.errors import NonFiniteFeature
from drsr.features.session import MAX_COPIES, FeatureSession, SessionCache
from drsr.features.vectors import candidate_features
from drsr.request.rendering import common_prefix
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture


class Tokens:
    """Counts the tokens that run through any model of this thread's process."""

    def __init__(self) -> None:
        self.run = 0

    def since_last(self) -> int:
        run, self.run = self.run, 0
        return run


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Tokens:
    counted = Tokens()
    embedding = torch.nn.functional.embedding

    def counting(ids: torch.Tensor, *arguments: Any, **settings: Any) -> torch.Tensor:
        counted.run += ids.numel()
        return embedding(ids, *arguments, **settings)

    monkeypatch.setattr(torch.nn.functional, "embedding", counting)
    return counted


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that runs of a few hundred tokens have several marks."""
    monkeypatch.setattr(drsr.features.session, "PIECE", 48)


def decisions(backbone: FrozenLM, messages: list[dict[str, Any]], first: int = 5) -> Iterator[DecisionState]:
    """The state before each Step of a run from `first` on, and the one at its end."""
    for index in [*range(2 + 2 * first, len(messages), 2), len(messages)]:
        yield state_of(messages[:index], backbone.tokenizer)


def difference(session: FeatureSession | SessionCache, backbone: FrozenLM, state: DecisionState) -> float:
    """From the full pass, to which hashes and shape must be equal."""
    ours, full = session.features(state), candidate_features(backbone, state)
    assert ours[1:] == full[1:]
    return float(np.abs(ours.matrix - full.matrix).max())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_growing_run_is_equal_to_full_passes(architecture: Architecture, tokens: Tokens) -> None:
    backbone = tiny_backbone(architecture)
    session = FeatureSession(backbone)
    length = 0
    for state in decisions(backbone, run_messages(8)):
        ours = session.features(state)
        assert tokens.since_last() == len(state.rendering) - length  # only what is new
        length = len(state.rendering)
        full = candidate_features(backbone, state)
        assert tokens.since_last() == length
        assert np.abs(ours.matrix - full.matrix).max() < 1e-4
        assert ours[1:] == full[1:]


def test_growing_and_edited_on_the_embedded_model(tokens: Tokens) -> None:
    installing.fetch(embedded.MODEL)
    backbone = load_backbone("smollm2-135m")
    assert isinstance(backbone, FrozenLM)
    session = FeatureSession(backbone)
    messages = run_messages(7, words=3)
    edited = copy.deepcopy(messages)
    edited[10]["content"] = "something else was said"
    states = [*decisions(backbone, messages), state_of(edited, backbone.tokenizer)]
    tokens.since_last()
    for state in states:
        ours = session.features(state)
        alone = tokens.since_last()
        full = candidate_features(backbone, state)
        assert ours[1:] == full[1:]
        np.testing.assert_allclose(ours.matrix, full.matrix, rtol=1e-4, atol=1e-4)
        assert state is states[0] or alone < tokens.since_last() / 2
        tokens.since_last()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_edited_history_is_run_again_from_the_divergence(architecture: Architecture, tokens: Tokens) -> None:
    backbone = tiny_backbone(architecture)
    session = FeatureSession(backbone)
    messages = run_messages(8)
    *_, state = decisions(backbone, messages)
    session.features(state)
    edited = copy.deepcopy(messages)
    edited[12]["content"] = "something else was said"
    changed = state_of(edited, backbone.tokenizer)
    tokens.since_last()
    assert difference(session, backbone, changed) < 1e-4
    run = tokens.since_last() - len(changed.rendering)  # without the full pass
    behind = len(changed.rendering) - changed.rendering.message_spans[12].start
    assert behind <= run < behind + 2 * drsr.features.session.PIECE + 60
    assert difference(session, backbone, state) < 1e-4  # and back


@pytest.mark.parametrize("message", [6, 7])
def test_a_block_that_was_seen_in_part_is_seen_again_from_its_first_token(message: int) -> None:
    """What was said, or what a tool answered, got longer: the tokens differ only behind the Block's beginning."""
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    messages = run_messages(7)
    session.features(state_of(messages, backbone.tokenizer))
    messages[message]["content"] += " and more of it, " * 6
    state = state_of(messages, backbone.tokenizer)
    assert 2 in {candidate.block.step for candidate in state.candidates}
    assert difference(session, backbone, state) < 1e-4


def test_an_edit_that_changes_no_length() -> None:
    """Every span stays where it was, and what was kept of those behind the edit is outdated all the same."""
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    messages = run_messages(7)
    messages[3]["content"] = "QZXQZXQZX"
    before = state_of(messages, backbone.tokenizer)
    session.features(before)
    messages[3]["content"] = "XZQXZQXZQ"
    state = state_of(messages, backbone.tokenizer)
    assert [candidate.token_spans for candidate in state.candidates] == [
        candidate.token_spans for candidate in before.candidates
    ]
    assert np.abs(candidate_features(backbone, state).matrix - candidate_features(backbone, before).matrix).max() > 1e-2
    assert difference(session, backbone, state) < 1e-4


def test_the_same_tokens_cut_into_other_blocks() -> None:
    """What was a demonstration becomes history: no token changes, but there are Blocks that were never summed."""
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    plain = run_messages(7)
    marked = [*plain[:2], *({**message, "is_demo": True} for message in plain[2:4]), *plain[4:]]
    before, state = state_of(marked, backbone.tokenizer), state_of(plain, backbone.tokenizer)
    assert np.array_equal(before.rendering.token_ids, state.rendering.token_ids)
    assert state.candidates[0].block.parts[0].message == 2
    session.features(before)
    assert difference(session, backbone, state) < 1e-4


def test_the_same_request_again_costs_the_last_piece(tokens: Tokens) -> None:
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    *_, state = decisions(backbone, run_messages(8))
    first = session.features(state)
    tokens.since_last()
    assert np.abs(session.features(state).matrix - first.matrix).max() < 1e-5
    assert tokens.since_last() < 150


@pytest.mark.parametrize("architecture", ["llama", "qwen3_5"])
def test_deleted_messages_shorter_requests_and_other_tasks(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    session = FeatureSession(backbone)
    messages = run_messages(7)
    bodies = [
        messages,
        messages[:12],  # the run goes back
        messages[:6] + messages[8:],  # a Step was deleted for good
        [messages[0], {"role": "user", "content": "Another task"}, *messages[2:14]],
        run_messages(5, seed=9),
    ]
    for body in bodies:
        assert difference(session, backbone, state_of(body, backbone.tokenizer)) < 1e-4


def test_a_moving_view(tokens: Tokens) -> None:
    """Where the view is a suffix, positions change and everything is run again; the numbers stay right."""
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    messages = run_messages(10)
    cap = len(state_of(messages[:16], backbone.tokenizer).rendering)
    for stop in (16, 18, 20):
        state = state_of(messages[:stop], backbone.tokenizer, cap)
        assert (state.view.start > 0) == (stop > 16)
        assert difference(session, backbone, state) < 1e-4


def test_a_run_that_outgrows_its_room(monkeypatch: pytest.MonkeyPatch, tokens: Tokens) -> None:
    monkeypatch.setattr(drsr.features.session, "SMALLEST_CAPACITY", 64)
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    full = 0
    for state in decisions(backbone, run_messages(14)):
        tokens.since_last()
        session.features(state)
        full += tokens.run == len(state.rendering)
        assert difference(session, backbone, state) < 1e-4
    assert full == 2  # the first one, and when twice the first one's tokens were passed


def test_copies_of_recurrent_state_are_bounded() -> None:
    backbone = tiny_backbone("qwen3_5")
    session = FeatureSession(backbone)
    sizes = []
    for state in decisions(backbone, run_messages(9)):
        session.features(state)
        sizes.append(session.nbytes)
    marks = [mark.length for mark in session._marks]
    assert len(marks) == MAX_COPIES
    assert marks == sorted(set(marks))
    assert marks[0] == 0
    assert marks[-1] == len(session.token_ids)
    assert sizes[-1] - sizes[0] < sizes[0]


def test_an_error_leaves_nothing_half_done() -> None:
    backbone = fresh_backbone("llama")
    weight = backbone.model.get_decoder().layers[2].mlp.down_proj.weight.data
    good = weight[0, 0].item()
    session = FeatureSession(backbone)
    states = list(decisions(backbone, run_messages(7)))
    session.features(states[0])
    weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteFeature):
        session.features(states[1])
    weight[0, 0] = good
    assert len(session.token_ids) == 0
    assert session.nbytes == 0
    assert difference(session, backbone, states[2]) < 1e-4


def test_one_session_from_many_threads() -> None:
    backbone = tiny_backbone("llama")
    session = FeatureSession(backbone)
    states = list(decisions(backbone, run_messages(8))) * 3
    full = [candidate_features(backbone, state).matrix for state in states]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(session.features, states))
    assert max(np.abs(one.matrix - other).max() for one, other in zip(found, full, strict=True)) < 1e-4


def test_runs_are_kept_apart_and_found_again(tokens: Tokens) -> None:
    """All begin with the same system prompt and task, as agents do."""
    backbone = tiny_backbone("llama")
    cache = SessionCache(backbone, max_bytes=1 << 30)
    runs = [list(decisions(backbone, run_messages(8, seed=seed))) for seed in range(3)]
    for number in range(len(runs[0])):
        for run in runs:
            tokens.since_last()
            cache.features(run[number])
            before = len(run[number - 1].rendering) if number else 0
            assert tokens.since_last() == len(run[number].rendering) - before
    assert len(cache) == 3
    for run in runs:
        assert difference(cache, backbone, run[-1]) < 1e-4


def test_the_least_recently_used_is_evicted(tokens: Tokens) -> None:
    backbone = tiny_backbone("llama")
    states = [list(decisions(backbone, run_messages(6, seed=seed))) for seed in range(3)]
    alone = SessionCache(backbone, max_bytes=1 << 30)
    alone.features(states[0][0])
    cache = SessionCache(backbone, max_bytes=int(2.5 * alone.nbytes))
    for run in (0, 1, 0, 2):  # 1 is used least recently when there is no room for a third
        cache.features(states[run][0])
        assert cache.nbytes <= 2.5 * alone.nbytes
    assert len(cache) == 2
    tokens.since_last()
    cache.features(states[0][1])
    assert tokens.since_last() < len(states[0][1].rendering) / 2
    cache.features(states[1][1])
    assert tokens.since_last() == len(states[1][1].rendering)


def test_a_decision_larger_than_the_bound_is_made_and_not_kept() -> None:
    backbone = tiny_backbone("llama")
    cache = SessionCache(backbone, max_bytes=1000)
    assert difference(cache, backbone, next(decisions(backbone, run_messages(6)))) < 1e-4
    assert len(cache) == 0
    assert cache.nbytes == 0


def test_a_failed_decision_leaves_the_cache_in_order() -> None:
    backbone = fresh_backbone("llama")
    backbone.model.get_decoder().layers[2].mlp.down_proj.weight.data[0, 0] = float("nan")
    cache = SessionCache(backbone, max_bytes=1 << 30)
    with pytest.raises(NonFiniteFeature):
        cache.features(next(decisions(backbone, run_messages(6))))
    assert len(cache) == 0
    assert cache.nbytes == 0


@pytest.mark.parametrize("rooms", [1.5, 100])
def test_many_runs_at_once(rooms: float) -> None:
    """Four agents in four threads, with room for one session and with room for all."""
    backbone = tiny_backbone("llama")
    runs = [list(decisions(backbone, run_messages(8, seed=seed))) for seed in range(4)]
    full = [[candidate_features(backbone, state).matrix for state in run] for run in runs]
    alone = SessionCache(backbone, max_bytes=1 << 30)
    alone.features(runs[0][-1])
    cache = SessionCache(backbone, max_bytes=int(rooms * alone.nbytes))
    together = threading.Barrier(len(runs))

    def agent(number: int) -> float:
        together.wait()
        found = [cache.features(state).matrix for state in runs[number]]
        return max(float(np.abs(one - other).max()) for one, other in zip(found, full[number], strict=True))

    with ThreadPoolExecutor(len(runs)) as pool:
        assert max(pool.map(agent, range(len(runs)))) < 1e-4
    assert len(cache) == (1 if rooms < 2 else 4)
    assert cache.nbytes <= rooms * alone.nbytes


def test_common_prefix() -> None:
    one = np.array([1, 2, 3], dtype=np.int32)
    assert common_prefix(one, np.array([1, 2, 4, 5], dtype=np.int32)) == 2
    assert common_prefix(one, one) == 3
    assert common_prefix(one, one[:0]) == 0
