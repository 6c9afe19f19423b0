"""The representation model behind its seam: loaded late, checked early, equal in and out of a session."""

from __future__ import annotations

import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drsr import load_policy
from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.candidates import DecisionState, freeze
from drsr.decide.decision import Reason
from drsr.decide.representation import (
    FrozenRepresentation,
    LazyRepresentation,
    ScriptedRepresentation,
    checked,
)
from drsr.errors import InputError, MissingExtra, NotEnoughMemory, PolicyMismatch, SettingsError
from drsr.offline import samples
from drsr.policy.folder import read_policy
from drsr.policy.policy import Policy
from drsr.request.request import read_request
from drsr.sessions.prices import Prices
from tests.features.states import run_messages
from tests.seeded_policies import tiny_policy
from tests.tiny_backbones import tiny_backbone
from tests.tiny_models import build_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model on disk."""
    return build_tiny("llama", tmp_path_factory.mktemp("model"))


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A saved policy that names it."""
    backbone = load_backbone(f"path:{model}")
    assert isinstance(backbone, FrozenLM)
    tiny_policy(backbone).save(tmp_path / "policy")
    return tmp_path / "policy"


def lazy(policy: Policy) -> LazyRepresentation:
    assert isinstance(policy.frozen.representation, LazyRepresentation)
    return policy.frozen.representation


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all backbones that were loaded."""
    seen: list[str] = []

    def load(name: str, **options: Any) -> Any:
        seen.append(name)
        return load_backbone(name, **options)

    monkeypatch.setattr("drsr.decide.representation.load_backbone", load)
    return seen


def test_weights_are_read_with_the_first_eligible_request(folder: Path, loads: list[str]) -> None:
    policy = load_policy(folder)
    assert policy.prune(run_messages(3), session=None).reason is Reason.TOO_FEW_CANDIDATES
    assert policy.prune(request=7).reason is Reason.UNREADABLE_REQUEST
    assert loads == []
    assert policy.prune(run_messages(7), session=None).pruned
    assert policy.prune(run_messages(8), session=None).pruned
    assert len(loads) == 1


def test_a_decision_that_would_take_more_memory_than_allowed_lets_the_request_through(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = run_messages(7)
    assert load_policy(folder, memory_mb=4).prune(messages, session=None).pruned
    monkeypatch.setattr("drsr.backbone.memory._key_value_heads", lambda config: 4096)
    decision = load_policy(folder, memory_mb=4).prune(messages, session=None)
    assert not decision.pruned
    assert decision.messages is messages
    assert isinstance(decision.error, NotEnoughMemory)
    assert "4 are allowed" in str(decision.error)


@pytest.mark.parametrize("options", [{"device": "nonsense"}, {"device": "cuda:77"}, {"dtype": "int3"}])
def test_a_device_or_dtype_that_is_not_there_is_refused_at_load(
    folder: Path, loads: list[str], options: dict[str, str]
) -> None:
    with pytest.raises(SettingsError, match="cannot be used|unknown dtype"):
        load_policy(folder, **options)  # type: ignore[arg-type]
    assert loads == []


def test_a_device_that_is_lost_later_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*arguments: Any, **options: Any) -> Any:
        raise SettingsError("the device 'cuda' cannot be used: it is gone")

    policy = load_policy(folder)
    monkeypatch.setattr("drsr.decide.representation.load_backbone", lost)
    decision = policy.prune(run_messages(7), session=None)
    assert decision.reason is Reason.INTERNAL_FAILURE
    assert "the device 'cuda' cannot be used: it is gone" in decision.detail


def test_prepare_reads_them_at_once_and_once(folder: Path, loads: list[str]) -> None:
    policy = load_policy(folder)
    threads = [threading.Thread(target=policy.prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loads) == 1
    tiny_policy(tiny_backbone("llama")).prepare()


def test_a_loaded_policy_decides_like_the_one_it_was_saved_from(folder: Path, model: Path) -> None:
    backbone = load_backbone(f"path:{model}")
    assert isinstance(backbone, FrozenLM)
    policies = [tiny_policy(backbone), load_policy(folder), load_policy(folder, backbone=backbone)]
    policies.append(load_policy(folder, backbone=f"path:{model}"))
    receipts = [policy.prune(run_messages(7), session=None).receipt for policy in policies]
    assert all(receipt["sets"] == receipts[0]["sets"] for receipt in receipts)
    assert len({receipt["hashes"]["after"] for receipt in receipts}) == 1


def test_another_model_is_refused_by_name_and_by_object(folder: Path, tmp_path: Path) -> None:
    other = build_tiny("llama", tmp_path / "other", seed=1)
    with pytest.raises(PolicyMismatch, match="the policy was made with"):
        load_policy(folder, backbone=f"path:{other}")
    with pytest.raises(PolicyMismatch, match="the policy was made with"):
        load_policy(folder, backbone=load_backbone(f"path:{other}"))
    with pytest.raises(PolicyMismatch):
        load_policy(folder, backbone="scripted")
    with pytest.raises(InputError, match="no such folder"):
        load_policy(folder, backbone="path:/nowhere/at/all")


def test_changed_weights_are_refused_at_load(folder: Path, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in model.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(PolicyMismatch):
        load_policy(folder, backbone=f"path:{copy}")


def test_another_layout_is_refused() -> None:
    backbone = tiny_backbone("llama")
    with pytest.raises(PolicyMismatch, match="features of layout"):
        checked(backbone, backbone.identity, "0" * 64)
    with pytest.raises(PolicyMismatch, match="no layers"):
        checked(load_backbone("scripted"), load_backbone("scripted").identity, "0" * 64)


def test_a_context_cap_beyond_the_window_is_refused(folder: Path) -> None:
    policy = load_policy(folder)
    numbers = json.loads(policy.numbers.to_bytes())
    wide = type(policy.numbers).from_json({**numbers, "context_cap": 10**6})
    with pytest.raises(PolicyMismatch, match="window"):
        Policy(wide, policy.frozen.scorer, policy.frozen.representation).prepare()


def test_a_missing_package_is_named_at_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without_torch(name: str, *rest: Any) -> Any:
        return None if name == "torch" else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without_torch)
    with pytest.raises(MissingExtra, match=r"pip install 'drsr\[backbone\]'"):
        load_policy(folder)
    assert read_policy(folder).numbers.version == "seeded"


def test_a_model_that_breaks_later_is_a_reason_and_not_a_crash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy(folder)

    def gone(name: str, **options: Any) -> Any:
        raise OSError("the disk with /secret/path is gone")

    monkeypatch.setattr("drsr.decide.representation.load_backbone", gone)
    decision = policy.prune(run_messages(7), session=None)
    assert decision.reason is Reason.INTERNAL_FAILURE
    assert decision.detail.startswith("OSError in drsr.decide.representation")
    assert "secret" not in decision.detail


def test_sessions_of_all_runs_share_one_store_and_agree_with_plain_features() -> None:
    representation = FrozenRepresentation(tiny_backbone("llama"))
    one, other = representation.session(), representation.session()
    assert one is other
    for steps in (7, 8, 9):
        state = freeze(read_request(run_messages(steps)), representation.tokenizer, 1_536)
        assert isinstance(state, DecisionState)
        np.testing.assert_allclose(
            one.features(state).matrix, representation.features(state).matrix, rtol=2e-4, atol=2e-5
        )


def test_a_session_with_a_real_model_prunes_along_a_run(folder: Path) -> None:
    session = load_policy(folder).session(prices=Prices(3, 3, 3, 15), expected_calls=20)
    decisions = [session.prune(run_messages(steps)) for steps in range(3, 12)]
    assert all(decision.error is None for decision in decisions)
    assert decisions[-1].pruned
    assert {decision.receipt["passes"] for decision in decisions} <= {0, 1}


def test_the_double_says_so_in_its_name() -> None:
    representation = ScriptedRepresentation()
    assert representation.name == "scripted"
    state = freeze(read_request(run_messages(7)), representation.tokenizer, 50_000)
    assert isinstance(state, DecisionState)
    assert np.array_equal(representation.features(state).matrix, representation.features(state).matrix)
    assert representation.passes == 2


def test_the_embedded_model_through_the_whole_of_it(tmp_path: Path) -> None:
    """A policy for smollm2-135m, saved, loaded and asked: seeded weights, a real forward over the bundled request."""
    backbone = load_backbone("smollm2-135m")
    assert isinstance(backbone, FrozenLM)
    made = tiny_policy(backbone)
    made.save(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy", backbone=backbone)
    assert policy.identity == made.identity
    assert policy.numbers.backbone.name == "smollm2-135m"
    decision = policy.prune(request=json.loads(samples.REQUEST.read_text()))
    assert decision.pruned, decision.detail
    assert decision.receipt["passes"] == 1
    assert len(decision.receipt["sets"]) == 14
    assert all(0 < row["unsafe_score"] < 1 for row in decision.receipt["sets"])
