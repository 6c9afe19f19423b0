"""Memory of a walk: the estimate against the tensors that really exist, and that the bound holds and says so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from drsr.backbone.continuation import Continuation, Segment, Watch
from drsr.backbone.memory import LOGIT_BYTES, MEGABYTE, SMALLEST_CHUNK, Room, room_for
from drsr.offline.featurize.exclusions import Exclusion
from drsr.offline.label.prefix_tree import branch_depth, build_tree
from drsr.offline.label.target_nll import Pair, TargetNll, direct_nll
from drsr.request.contracts import TokenIds
from tests.tiny_backbones import ARCHITECTURES, tiny_backbone
from tests.tiny_models import VOCABULARY, Architecture


def tokens(count: int, seed: int) -> TokenIds:
    return np.random.default_rng(seed).integers(0, VOCABULARY, count).astype(np.int32)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_state_takes_what_was_estimated(architecture: Architecture) -> None:
    backbone = tiny_backbone(architecture)
    room = room_for(backbone)
    state = Continuation(backbone, capacity=200)
    state.extend(tokens(50, 0))
    held = [tensor for buffer in state._attention for tensor in (buffer.keys, buffer.values) if tensor is not None]
    assert sum(tensor.nbytes for tensor in held) == room.state(200, 0)
    copies = [tensor for kept in state.mark().recurrent for tensor in kept if tensor is not None]
    assert sum(tensor.nbytes for tensor in copies) == room.per_mark


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tight_bound_gives_the_same_numbers_in_smaller_pieces(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = tiny_backbone(architecture)
    context, target = tokens(600, 0), tokens(40, 1)
    pairs = [Pair(context, target), Pair(np.delete(context, slice(100, 200)), target)]
    rows: list[int] = []
    head = Continuation.head

    def counted(state: Continuation, hidden: torch.Tensor) -> torch.Tensor:
        rows.append(len(hidden))
        return head(state, hidden)

    forwards: list[int] = []
    extend, extend_branches = Continuation.extend, Continuation.extend_branches

    def watched(state: Continuation, ids: TokenIds, watch: Watch | None = None) -> torch.Tensor:
        forwards.append(len(ids))
        return extend(state, ids, watch)

    def watched_branches(state: Continuation, segments: Sequence[Segment]) -> list[torch.Tensor]:
        forwards.append(sum(len(segment.token_ids) for segment in segments))
        return extend_branches(state, segments)

    monkeypatch.setattr(Continuation, "head", counted)
    monkeypatch.setattr(Continuation, "extend", watched)
    monkeypatch.setattr(Continuation, "extend_branches", watched_branches)
    room = room_for(backbone)
    needed = room.state(639, 2) + 3 * SMALLEST_CHUNK * room.per_query
    megabytes = needed // MEGABYTE + 1
    scorer = TargetNll(backbone, memory_mb=megabytes)
    scorer.verify(context)
    rows.clear()
    forwards.clear()
    scored = scorer.score(pairs).nlls
    allowed = room._replace(total=megabytes * MEGABYTE)
    assert max(rows) * 4 * VOCABULARY <= allowed.logit_bytes(639, 2)
    assert max(forwards) <= allowed.query_chunk(639, 2, 256)
    expected = [direct_nll(backbone, *pair) for pair in pairs]
    np.testing.assert_allclose(np.array(scored, dtype=float), expected, atol=1e-4)


def test_what_does_not_fit_is_excluded_and_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    long, short = Pair(tokens(900, 0), tokens(5, 1)), Pair(tokens(60, 2), tokens(5, 3))
    scorer = TargetNll(backbone, memory_mb=1)
    scorer.verify(tokens(200, 4))
    room = room_for(backbone, 1)._replace(per_token=MEGABYTE // 800)
    monkeypatch.setattr("drsr.offline.label.target_nll.room_for", lambda *_: room)
    lost, scored = scorer.score([long, short]).nlls
    assert isinstance(lost, Exclusion)
    assert "label_memory_mb allows 1" in lost.detail
    assert scored == pytest.approx(direct_nll(backbone, *short), abs=1e-5)


def test_plenty_of_room_changes_nothing() -> None:
    room = Room(total=1 << 33, per_token=46_080, per_mark=0, per_query=112_000)
    assert room.holds(8192, 20)
    assert room.query_chunk(8192, 20, 256) == 256
    assert room.logit_bytes(8192, 20) == LOGIT_BYTES


def test_branches_that_are_open_at_a_time() -> None:
    lists = {"a": [1, 2, 3], "b": [1, 2, 4, 5], "c": [1, 2, 4, 6], "d": [7]}
    tree = build_tree({key: np.array(ids, dtype=np.int32) for key, ids in lists.items()})
    assert branch_depth(tree) == 3
    assert branch_depth(build_tree({"a": np.array([1, 2], dtype=np.int32)})) == 0
