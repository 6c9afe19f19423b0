"""The catalog and the parameters that the commands for training and after find in their working directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.frames import PARAMS_FILE
from tests.offline.stored_frames import fill


def fill_catalog(**options: Any) -> None:
    """Made-up examples, where the settings of the test say."""
    with open_catalog(os.environ["DRSR_CATALOG_URL"], create=True) as catalog:
        fill(catalog, ArtifactStore(os.environ["DRSR_ARTIFACT_ROOT"]), **options)


def quick_params_file(folder: Path, epochs: int = 10) -> None:
    """The real parameters with fewer epochs."""
    text = PARAMS_FILE.read_text().replace("max_epochs: 300", f"max_epochs: {epochs}")
    (folder / "params.yaml").write_text(text)
