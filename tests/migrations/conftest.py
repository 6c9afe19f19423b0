"""The databases that the catalog's tests use."""

from __future__ import annotations

from tests.offline.conftest import catalog_url, database, empty_url

__all__ = ["catalog_url", "database", "empty_url"]
