"""Storage of which every call takes long: few calls, many at a time, and nothing is taken for a failure.

Calls are counted on a real S3 server behind a proxy that lets each wait. What a run or a night costs is in
docs/benchmarks.md; here it is that calls are a fixed number per new run and per night, however much there is already.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import fsspec
import pytest

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.near_duplicates import near_duplicates
from drsr.offline.ingest.stage import ingest
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import caps_for
from tests.offline.chat_files import chat
from tests.offline.slow_storage import SlowStorageDouble
from tests.offline.small_pipeline import quick_params
from tests.tiny_models import build_tiny
