"""8-bit weights: exact products of whole numbers, an identity of their own, the same features however a run is cut."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drsr.backbone import continuation, embedded
from drsr.backbone.catalogue import INT8_NAME, identity_of, is_int8, list_backbones, load_backbone, load_tokenizer
from drsr.backbone.frozen_lm import FrozenLM
from drsr.backbone.matrices import Latest
from drsr.backbone.matrices.int8 import Int8Linear, in_whole_numbers
from drsr.backbone.model_folder import int8_identity
from drsr.errors import BackboneError, SettingsError, UnknownBackbone
from drsr.features import session as session_module
from drsr.features.session import FeatureSession
from drsr.features.vectors import FeatureWatch, candidate_features
from drsr.offline.label.target_nll import TargetNll
from drsr.policy.policy import Policy
from tests.features.states import run_messages, state_of
from tests.seeded_policies import tiny_policy
from tests.tiny_models import Architecture

Folder = Callable[[Architecture], Path]


def int8_backbone(tiny_folder: Folder) -> FrozenLM:
    backbone = load_backbone(f"int8:path:{tiny_folder('llama')}")
    assert isinstance(backbone, FrozenLM)
    return backbone


def test_products_are_those_of_whole_numbers_summed_one_by_one() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(48, 20)
    given = torch.randn(2, 7, 48) * torch.logspace(-3, 3, 7)[None, :, None]
    found = Int8Linear(linear, Latest(in_whole_numbers))(given)
    weights, rows = linear.weight.detach().numpy(), given.reshape(-1, 48).numpy()
    steps = np.abs(weights).max(axis=1, keepdims=True) / np.float32(127)
    row_steps = np.abs(rows).max(axis=1, keepdims=True) / np.float32(127)
    whole = np.rint(rows / row_steps).astype(np.int64) @ np.rint(weights / steps).astype(np.int64).T
    expected = whole.astype(np.float32) * steps.T * row_steps + linear.bias.detach().numpy()
    assert np.allclose(found.reshape(-1, 20).numpy(), expected, rtol=1e-6, atol=0)
    assert torch.isfinite(Int8Linear(linear, Latest(in_whole_numbers))(torch.zeros(1, 48))).all()


def test_a_token_is_rounded_by_itself() -> None:
    torch.manual_seed(0)
    layer = Int8Linear(torch.nn.Linear(32, 8, bias=False), Latest(in_whole_numbers))
    given = torch.randn(9, 32) * torch.logspace(-2, 2, 9)[:, None]
    together = layer(given)
    assert all(torch.equal(layer(given[row : row + 1].clone())[0], together[row]) for row in range(9))


def test_it_is_a_backbone_of_its_own(tiny_folder: Folder) -> None:
    plain = f"path:{tiny_folder('llama')}"
    name = f"int8:{plain}"
    backbone = int8_backbone(tiny_folder)
    assert backbone.identity == identity_of(name) == int8_identity(identity_of(plain)) != identity_of(plain)
    assert (backbone.name, backbone.rounds_inputs) == (name, True)
    assert load_tokenizer(name).tokenizer.identity == load_tokenizer(plain).tokenizer.identity
    assert is_int8(INT8_NAME)
    assert not is_int8(embedded.NAME)
    assert INT8_NAME in [row.name for row in list_backbones()]
    layers = [module for module in backbone.model.get_decoder().modules() if isinstance(module, torch.nn.Linear)]
    assert layers == []


def test_what_it_cannot_be_is_refused(tiny_folder: Folder) -> None:
    name = f"int8:path:{tiny_folder('llama')}"
    with pytest.raises(SettingsError, match="made from float32"):
        load_backbone(name, dtype="bfloat16")
    with pytest.raises(SettingsError, match="run on cpu"):
        load_backbone(name, device="cuda")
    with pytest.raises(UnknownBackbone, match="no weights"):
        load_backbone("int8:scripted")
    with pytest.raises(BackboneError, match="harm is measured with the language model itself"):
        TargetNll(int8_backbone(tiny_folder))


def test_features_in_a_session_are_those_of_a_full_pass(tiny_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the history was edited, and where a later request adds only a few tokens."""
    monkeypatch.setattr(continuation, "_QUERY_CHUNK", {"cpu": 64})
    backbone = int8_backbone(tiny_folder)
    session, messages = FeatureSession(backbone, capacity=2_000), run_messages(9)
    edited = copy.deepcopy(messages)
    edited[7]["content"] += " and more"
    requests = [messages[:end] for end in (12, 14, 15, 18)] + [edited, messages]
    kept: list[tuple[int, int]] = []

    def noted(*args: Any, **kwargs: Any) -> FeatureWatch:
        whole = len(session.token_ids) // 64 * 64  # read in whole pieces for the request before
        kept.append((kwargs["start"], whole - max((span.stop for span in kwargs["known"]), default=0)))
        return FeatureWatch(*args, **kwargs)

    monkeypatch.setattr(session_module, "FeatureWatch", noted)
    for request in requests:
        state = state_of(request, backbone.tokenizer)
        ours, full = session.features(state), candidate_features(backbone, state)
        assert np.abs(ours.matrix - full.matrix).max() < 1e-5  # sums over spans are added up in another order
    # What was read in a shorter last piece is not kept: with many layers its bits are not those of a full pass.
    assert any(start for start, _ in kept), "something is kept"
    assert all(start % 64 == 0 and beyond >= 0 for start, beyond in kept)


def test_a_policy_decides_alike_offline_and_online(tiny_folder: Folder) -> None:
    backbone = int8_backbone(tiny_folder)
    policy: Policy = tiny_policy(backbone)
    for end in (14, 16, 18):
        messages = run_messages(9)[:end]
        online = policy.prune(messages, session=None)
        with_deadline = policy.prune(messages, session=None, deadline_ms=600_000)
        assert online.outcome is not None
        assert online.outcome.evidence.features is not None
        offline = candidate_features(backbone, state_of(messages, backbone.tokenizer))
        assert np.array_equal(online.outcome.evidence.features.matrix, offline.matrix)
        assert with_deadline.request == online.request
        assert online.receipt["policy"]["backbone_identity"] == backbone.identity
