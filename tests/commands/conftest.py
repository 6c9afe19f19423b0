"""Fixtures of the commands: those of the backbones that one of them fetches and lists."""

from __future__ import annotations

from tests.backbone.conftest import own_cache, smollm2

__all__ = ["own_cache", "smollm2"]
