"""A few states of the bundled sample, measured here and now, against what the sample says about them.

    python -m drsr.flows.live_check --states 3

They are measured in a catalog of their own, which is thrown away: what was taken over stays as it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drsr.errors import DrsrError, InputError
from drsr.flows.sample import BUNDLED, STAGES, pull
from drsr.offline import samples
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.params import load_params
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.exports import KEY, place_of, read_parts
from drsr.settings import Settings, load_settings

LARGEST_HARM = 1e-4
"""The largest difference between two measurements of a harm, in nats per token."""
LARGEST_FEATURE = 1e-3
"""The largest difference between two computations of a feature, relative to its value if that exceeds 1."""


class Agreement(NamedTuple):
    """The difference between labels measured here and those of the sample."""

    states: int
    sets: int
    harm: float
    """Largest difference, in nats per token."""
    changed_unsafe: int
    """Sets that are unsafe by one measurement and safe by the other."""
    features: float
    """Largest difference, as a part of the larger of the value and 1."""

    @property
    def holds(self) -> bool:
        return self.states > 0 and self.harm <= LARGEST_HARM and self.features <= LARGEST_FEATURE


def measure_again(
    settings: Settings, folder: Path, states: int, corpus: Path = samples.CORPUS, source: str = "sandbox"
) -> Path:
    """Measure about so many states of the corpus in a catalog below a folder; returns the folder of the exports."""
    from drsr.backbone.catalogue import load_backbone
    from drsr.offline.freeze.stage import freeze
    from drsr.offline.ingest.stage import ingest
    from drsr.offline.label.stage import label, label_run
    from drsr.offline.label.target_nll import TargetNll
    from drsr.request.view import caps_for

    backbone = load_backbone(settings.backbone, device=settings.device, dtype=settings.dtype)
    caps = caps_for(backbone.window)
    artifacts = ArtifactStore(str(folder / "artifacts"))
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog:
        ingest(catalog, artifacts, str(corpus), source=source)
        freeze(catalog, artifacts, backbone.tokenizer, caps)
        scorer = TargetNll(backbone)
        label(catalog, artifacts, scorer, label_run(scorer, settings.dtype, caps, limit=states))
        exporter = Exporter(catalog, artifacts, load_params(), folder / "exports")
        for stage in STAGES:
            exporter.export(stage)
    return folder / "exports"


def compare(here: Path, there: Path) -> Agreement:
    """Compare the states of one folder of exports with the same states in another. A state that is not there is an
    error."""
    sets = changed = 0
    harm = features = 0.0
    labels, values = (_rows(place_of(there, stage)) for stage in STAGES)
    mine = dict(_rows(place_of(here, "label")))
    for key, row in mine.items():
        if key not in labels or labels[key]["masks"] != row["masks"]:
            raise InputError(f"state {key} is not in the sample with these deletion sets", where=str(there))
        for now, then in zip(_harms(row), _harms(labels[key]), strict=True):
            sets, harm = sets + 1, max(harm, abs(now - then))
            changed += (now > HARM_TOLERANCE) != (then > HARM_TOLERANCE)
    for key, row in _rows(place_of(here, "featurize")).items():
        one, other = (np.array(each["values"]) for each in (row, values[key]))
        features = max(features, float((np.abs(one - other) / np.maximum(1.0, np.abs(other))).max()))
    return Agreement(len(mine), sets, harm, changed, features)


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row[KEY]: row for part in read_parts(folder) for row in part.table.to_pylist()}


def _harms(row: dict[str, Any]) -> Iterator[float]:
    return (nll - row["intact_nll"] for nll in row["deleted_nlls"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m drsr.flows.live_check", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--states", type=int, default=3, metavar="N", help="measure about N of them (default: 3)")
    options = parser.parse_args(arguments)
    try:
        pull(BUNDLED)
        with tempfile.TemporaryDirectory() as folder:
            found = compare(measure_again(load_settings(), Path(folder), options.states), BUNDLED.measured)
    except DrsrError as error:
        print(f"drsr: {error}", file=sys.stderr)
        return 2
    print(
        f"{found.states} states with {found.sets} deletion sets measured here and now: harm differs from the bundled "
        f"sample by at most {found.harm:.1e} (allowed {LARGEST_HARM:.0e}), features by {found.features:.1e} "
        f"(allowed {LARGEST_FEATURE:.0e}), {found.changed_unsafe} verdicts changed: "
        f"{'they agree' if found.holds else 'THEY DO NOT AGREE'}"
    )
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
