"""A device's memory: what says that it ran out, one GPU or several, and smaller forwards where it is short."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
import transformers

from drsr.backbone import frozen_lm, memory
from drsr.backbone.continuation import Continuation
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.memory import SMALLEST_CHUNK, is_out_of_memory, spread_over, too_large_for, weight_bytes
from drsr.decide.candidates import DecisionState
from drsr.decide.representation import FrozenRepresentation
from drsr.errors import NotEnoughMemory
from drsr.features.session import FeatureSession
from drsr.features.vectors import candidate_features
from drsr.settings import MIXED
from tests.features.states import run_messages, state_of
from tests.tiny_backbones import ARCHITECTURES, fresh_backbone, tiny_backbone
from tests.tiny_models import Architecture

Folder = Callable[[Architecture], Path]
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (MemoryError(), True),
        (too_large_for("cuda:0", "a model", "out of memory"), True),
        (RuntimeError("another fault"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_says_that_memory_ran_out(error: Exception, said: bool) -> None:
    assert is_out_of_memory(error) is said


def test_a_model_that_does_not_fit_is_named_with_what_to_do(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, *arguments: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16 GiB\nmore of it")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "to", full)
    with pytest.raises(NotEnoughMemory, match="do not fit into the memory of cpu: CUDA out of memory") as refusal:
        FrozenLM.from_folder(tiny_folder("llama"), name="tiny")
    assert "more of it" not in str(refusal.value)
    assert "float16-mixed" in str(refusal.value.hint)
    assert "spreads it over all GPUs" in str(too_large_for("cuda:1", "a model", "full").hint)


def test_another_fault_on_the_way_to_the_device_stays_what_it_is(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any, *arguments: Any) -> Any:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(transformers.LlamaForCausalLM, "to", broken)
    with pytest.raises(RuntimeError, match="no kernel image"):
        FrozenLM.from_folder(tiny_folder("llama"), name="tiny")


@pytest.mark.parametrize(
    ("device", "size", "free", "spread"),
    [
        ("cuda", 18, [24, 24], None),
        ("cuda", 36, [24, 24], "auto"),
        ("cuda", 22, [24, 24], "auto"),  # the weights alone would fit, with nothing beside them
        ("cuda", 36, [24], None),
        ("cuda:1", 36, [24, 24], None),
        ("cpu", 36, [24, 24], None),
    ],
)
def test_a_model_larger_than_one_gpu_is_spread(device: str, size: int, free: list[int], spread: str | None) -> None:
    assert spread_over(device, size * GIGABYTE, [gigabytes * GIGABYTE for gigabytes in free]) == spread


@pytest.mark.parametrize(("free", "expected"), [(1.1, "auto"), (1.3, None)])
def test_the_size_is_that_in_the_precision_asked_for(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch, free: float, expected: str | None
) -> None:
    folder = tiny_folder("llama")
    as_loaded = weight_bytes(folder) // 2  # published in float32, loaded in 16 bits
    monkeypatch.setattr(frozen_lm, "free_on_gpus", lambda: [int(free * as_loaded)] * 2)
    found = frozen_lm._spread(folder, "bfloat16")
    assert found.get("device_map") == expected
    assert frozen_lm._spread(folder, "float32") == {"device_map": "auto"}


def test_embeddings_count_in_32_bits_where_only_the_matrices_have_16(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder("llama")
    mixed = FrozenLM.from_folder(folder, name="tiny", dtype=MIXED).model
    held = sum(part.nbytes for part in (*mixed.parameters(), *mixed.buffers()))
    monkeypatch.setattr(frozen_lm, "free_on_gpus", lambda: [int(1.25 * held)] * 2)
    assert frozen_lm._spread(folder, MIXED) == {}
    monkeypatch.setattr(frozen_lm, "free_on_gpus", lambda: [int(1.15 * held)] * 2)
    assert frozen_lm._spread(folder, MIXED) == {"device_map": "auto"}


@pytest.mark.parametrize("dtype", ["float32", MIXED])
def test_a_map_of_devices_is_handed_to_transformers_and_changes_no_number(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """There is one device here: the map names it, and nothing is moved once the model is loaded."""
    plain = FrozenLM.from_folder(tiny_folder("llama"), name="tiny", dtype=dtype)
    asked: list[Any] = []
    load = transformers.AutoModelForCausalLM.from_pretrained

    def loading(*arguments: Any, **options: Any) -> Any:
        asked.append(options.get("device_map"))
        return load(*arguments, **options)

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", loading)
    monkeypatch.setattr(frozen_lm, "check_placement", lambda device, dtype: None)
    monkeypatch.setattr(frozen_lm, "_spread", lambda folder, dtype: {"device_map": {"": "cpu"}})
    monkeypatch.setattr(frozen_lm, "_moved", lambda *arguments: pytest.fail("moved after it was spread"))
    spread = FrozenLM.from_folder(tiny_folder("llama"), name="tiny", device="cuda", dtype=dtype)
    assert asked == [{"": "cpu"}]
    ids = np.arange(40, dtype=np.int32)
    assert np.array_equal(plain.logits(ids, [39]), spread.logits(ids, [39]))
    assert torch.equal(Continuation(plain, 40).extend(ids), Continuation(spread, 40).extend(ids))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hooks_that_move_tensors_from_part_to_part_change_no_number(architecture: Architecture) -> None:
    """Those of a spread model, on the one device that is here: copied with the model that is continued, they stay."""
    plain, hooked = tiny_backbone(architecture), fresh_backbone(architecture)
    layers = {f"model.layers.{number}": "cpu" for number in range(hooked.model.config.num_hidden_layers)}
    parts = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head"), "cpu")
    accelerate.dispatch_model(hooked.model, layers | parts, force_hooks=True, skip_keys="past_key_values")
    assert hasattr(hooked.model.model.layers[0], "_hf_hook")
    ids = np.arange(60, dtype=np.int32)
    assert np.array_equal(plain.logits(ids, [3, 59]), hooked.logits(ids, [3, 59]))
    state, expected = Continuation(hooked, 60), Continuation(plain, 60)
    assert hasattr(state._model.model.layers[0], "_hf_hook")
    assert state._model.model.layers[0].forward.args[0] is state._model.model.layers[0], "the copy calls the original"
    assert torch.equal(state.extend(ids[:40]), expected.extend(ids[:40]))
    assert torch.equal(state.extend(ids[40:]), expected.extend(ids[40:]))


def test_a_spread_model_is_not_handed_positions_to_index_by(
    tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last hidden states are on another device than its input, where torch refuses to index them."""
    backbone = FrozenLM.from_folder(tiny_folder("llama"), name="tiny")
    ids, positions = np.arange(40, dtype=np.int32), [39, 11, 12]
    expected = backbone.logits(ids, positions)
    asked: list[Any] = []
    forward = backbone.model.forward

    def noted(**given: Any) -> Any:
        asked.append(given["logits_to_keep"])
        return forward(**given)

    monkeypatch.setattr(backbone.model, "forward", noted)
    monkeypatch.setattr(backbone.model, "hf_device_map", {"model": 0, "lm_head": 1}, raising=False)
    np.testing.assert_allclose(backbone.logits(ids, positions), expected, atol=1e-6)
    assert asked == [40 - 11]


def test_recurrent_layers_without_their_kernels_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    found: set[str] = set()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in found else None)
    warning = str(frozen_lm.slow_layers(kinds, "cuda:1"))
    assert warning.startswith("3 of 4 layers are recurrent")
    assert warning.endswith("pip install flash-linear-attention causal-conv1d")
    assert frozen_lm.slow_layers(kinds, "cpu") is None
    assert frozen_lm.slow_layers(["full_attention"], "cuda") is None
    found.add("fla")
    assert str(frozen_lm.slow_layers(kinds, "cuda")).endswith("pip install causal-conv1d")
    found.add("causal_conv1d")
    assert frozen_lm.slow_layers(kinds, "cuda") is None


class Crowded:
    """A model that runs out of memory where more than so many tokens come at once."""

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.largest: list[int] = []
        real = Continuation._forward

        def forward(state: Continuation, piece: torch.Tensor, watch: Any) -> torch.Tensor:
            if len(piece) > room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 MiB")
            self.largest.append(len(piece))
            return real(state, piece, watch)

        monkeypatch.setattr(Continuation, "_forward", forward)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_features_are_read_in_smaller_forwards_where_memory_is_short(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = tiny_backbone(architecture)
    state = state_of({"messages": run_messages(6)}, backbone.tokenizer)
    expected = candidate_features(backbone, state).matrix
    crowded = Crowded(40, monkeypatch)
    found = candidate_features(backbone, state).matrix
    assert max(crowded.largest) <= 40
    assert sum(crowded.largest) == len(state.view.token_ids(state.rendering.token_ids))
    np.testing.assert_allclose(found, expected, atol=2e-3 if architecture == "qwen3_5" else 1e-4)


def test_features_that_do_not_fit_at_all_are_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    state = state_of({"messages": run_messages(6)}, backbone.tokenizer)
    Crowded(SMALLEST_CHUNK - 1, monkeypatch)
    with pytest.raises(NotEnoughMemory, match="16 tokens after 0 of .*out of memory") as refusal:
        candidate_features(backbone, state)
    assert "more memory" in str(refusal.value.hint)


def tight(monkeypatch: pytest.MonkeyPatch, backbone: FrozenLM, length: int, chunk: int, marks: int) -> None:
    """Allow what a state of so many tokens takes, and forwards of so many."""
    real = memory.room_for(backbone)
    room = real._replace(total=real.state(length, marks) + 2 * chunk * real.per_query)
    monkeypatch.setattr("drsr.backbone.continuation.room_for", lambda *_: room)
    monkeypatch.setattr("drsr.features.session.room_for", lambda *_: room)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_budget_makes_the_forwards_of_features_smaller_and_changes_nothing_else(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone = tiny_backbone(architecture)
    state = state_of({"messages": run_messages(6)}, backbone.tokenizer)
    length = len(state.view.token_ids(state.rendering.token_ids))
    expected = candidate_features(backbone, state).matrix
    watched = Crowded(10_000, monkeypatch)
    tight(monkeypatch, backbone, length, 24, 1)
    np.testing.assert_allclose(
        candidate_features(backbone, state).matrix, expected, atol=2e-3 if architecture == "qwen3_5" else 1e-4
    )
    assert max(watched.largest) == 24
    assert sum(watched.largest) == length


def test_a_session_takes_no_more_room_to_grow_than_its_budget_has(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    state = state_of({"messages": run_messages(40)}, backbone.tokenizer)
    length = len(state.view.token_ids(state.rendering.token_ids))
    generous = FeatureSession(backbone)
    generous.features(state)
    tight(monkeypatch, backbone, length + 10, 30, 10)
    session = FeatureSession(backbone)
    session.features(state)
    here, there = (found._continuation for found in (session, generous))
    assert here is not None
    assert there is not None
    assert (here.capacity, there.capacity) == (length, min(2 * length, backbone.window))
    assert here.query_chunk < there.query_chunk


def test_what_a_budget_cannot_hold_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    state = state_of({"messages": run_messages(6)}, backbone.tokenizer)
    length = len(state.view.token_ids(state.rendering.token_ids))
    watched = Crowded(10_000, monkeypatch)
    tight(monkeypatch, backbone, length - 1, 8, 10)
    readings: list[Callable[[DecisionState], object]] = [
        partial(candidate_features, backbone),
        FeatureSession(backbone).features,
    ]
    for reading in readings:
        with pytest.raises(NotEnoughMemory, match=rf"reading {length} tokens takes \d+ MB .* are allowed") as refusal:
            reading(state)
        assert "memory_mb" in str(refusal.value.hint)
    assert not watched.largest


def test_a_decision_keeps_to_the_budget_that_its_policy_was_loaded_with(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_backbone("llama")
    body = {"messages": run_messages(9)}
    asked: list[int] = []

    def room(backbone: FrozenLM, megabytes: int) -> memory.Room:
        asked.append(megabytes)
        return memory.room_for(backbone, megabytes)._replace(per_token=memory.MEGABYTE)

    monkeypatch.setattr("drsr.backbone.continuation.room_for", room)
    monkeypatch.setattr("drsr.features.session.room_for", room)
    representation = FrozenRepresentation(backbone, memory_mb=3)
    state = state_of(body, backbone.tokenizer)
    for reading in (representation, representation.session()):
        with pytest.raises(NotEnoughMemory, match="3 are allowed"):
            reading.features(state)
    assert set(asked) == {3}


def test_a_model_that_rounds_its_inputs_is_read_in_the_same_pieces_whatever_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone = tiny_backbone("llama")
    tight(monkeypatch, backbone, 500, 24, 1)
    assert Continuation.within(backbone, 500, 1).query_chunk == 24
    monkeypatch.setattr(backbone, "rounds_inputs", True)
    assert Continuation.within(backbone, 500, 1).query_chunk == 256
