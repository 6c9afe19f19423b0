"""`drsr evaluate --replay --light-policy`: a row of its own, and only for a light policy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import SettingsError
from drsr.offline.bench.commands.replay import _with_light
from drsr.offline.bench.comparators.registry import Registry
from tests.policy_wheels import versioned, wheel_of
from tests.seeded_policies import light_policy
from tests.tiny_backbones import tiny_backbone


def tools(backbone: Any) -> Any:
    """What measuring needs, as far as a policy's row asks for it."""
    return SimpleNamespace(backbone=backbone)


def test_the_light_policy_is_a_row_beside_the_full_one(tmp_path: Path) -> None:
    wheel = wheel_of(light_policy(version="1.0"), tmp_path)
    found = _with_light(Registry({}, {}), str(wheel), tools(tiny_backbone("llama"))).available["drsr_light"]
    assert found.title == "DRSR light"
    assert getattr(found, "training", None) == ""  # it is nobody's ablation


def test_a_full_policy_is_refused_there(tmp_path: Path) -> None:
    wheel = wheel_of(versioned("1.0"), tmp_path)
    with pytest.raises(SettingsError, match="is a full policy"):
        _with_light(Registry({}, {}), str(wheel), tools(ScriptedBackbone()))
