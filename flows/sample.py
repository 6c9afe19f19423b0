"""The bundled sample: labels and features of the whole sample corpus, in a DVC repository next to its remote.

    python -m drsr.flows.sample          pull it, check it, import it into the catalog that has frozen the sample corpus
    python -m drsr.flows.sample --make   make it from a catalog that has measured the sample corpus (`make sample`)

Measuring the corpus takes minutes; taking it over takes seconds. What was measured on another corpus, with another
language model, rule, renderer or feature layout, or is not the file it was, is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from drsr.errors import ArtifactCorrupt, CatalogError, DrsrError, InputError
from drsr.files import write_atomically
from drsr.offline import samples
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.label.exports import ImportedMeasurements, import_measured, state_ids
from drsr.offline.params import load_params
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.dvc_calls import with_dvc
from drsr.offline.store.exports import KEY, place_of, read_parts, to_bytes
from drsr.settings import Settings, load_settings

FORMAT = "drsr sample/1"
STAGES = ("label", "featurize")
_MAKE = "measure the sample corpus anew: make sample"
_MEASURE = "without it: drsr label --workers 2 && drsr featurize, about ten minutes on two cores"


class SampleRefused(InputError):
    """The bundled sample does not fit this corpus, this catalog or these settings. Nothing was changed."""


class Bundle(NamedTuple):
    """The places of a sample's files."""

    root: Path

    @property
    def description(self) -> Path:
        return self.root / "sample.json"

    @property
    def measured(self) -> Path:
        """Its exports, once they are pulled."""
        return self.root / "measured"


BUNDLED = Bundle(Path(__file__).resolve().parents[1] / "samples")


def take_sample(
    catalog: Catalog, artifacts: ArtifactStore, settings: Settings, bundle: Bundle, corpus: Path = samples.CORPUS
) -> ImportedMeasurements:
    """Pull, check, take over. Again: nothing changes. SampleRefused or ArtifactCorrupt: nothing has changed."""
    described = _described(bundle)
    if described["corpus"] != _sha256(corpus):
        raise SampleRefused(
            f"was measured on another sample corpus than {corpus.name}", where=str(bundle.root), hint=_MAKE
        )
    pull(bundle)
    keys = _state_keys(bundle, described)
    with catalog.reading() as connection:
        unknown = len(keys) - len(state_ids(connection, sorted(keys)))
    if unknown:
        where = "none of its states is" if unknown == len(keys) else f"{unknown} of its {len(keys)} states are not"
        hint = "first: drsr ingest && drsr freeze; or another language model or rule froze the states"
        raise SampleRefused(f"{where} frozen in this catalog", where=str(bundle.root), hint=hint)
    try:
        return import_measured(catalog, artifacts, settings, bundle.measured)
    except InputError as error:
        raise SampleRefused(error.what, where=error.where, hint=f"{_MAKE}; {_MEASURE}") from None


def pull(bundle: Bundle) -> None:
    """Have DVC put the measured files into place from the remote next to them, checked by their hashes."""
    try:
        with_dvc(bundle.root, lambda repo: repo.pull())
    except CatalogError as error:
        what = f"cannot be pulled from the remote beside it: {error.what}"
        raise ArtifactCorrupt(what, where=str(bundle.root), hint=f"git checkout samples, or {_MAKE}") from None


def make_sample(catalog: Catalog, artifacts: ArtifactStore, bundle: Bundle, corpus: Path = samples.CORPUS) -> int:
    """Export everything that was measured, put it under DVC and into the remote; returns the number of states."""
    shutil.rmtree(bundle.measured, ignore_errors=True)
    exporter = Exporter(catalog, artifacts, load_params(), bundle.measured)
    exported = [exporter.export(stage) for stage in (*STAGES, "freeze")]
    labels, features, frozen = (found.added.states if found.added else 0 for found in exported)
    if not labels == features == frozen:
        counts = f"{frozen} states are frozen, {labels} labelled, {features} have features"
        raise InputError(
            counts, where=catalog.location, hint="drsr run --until featurize; the sample is complete or it is not"
        )
    shutil.rmtree(bundle.measured / "freeze")
    # Only what this sample names stays in the remote.
    shutil.rmtree(bundle.root / "remote", ignore_errors=True)
    with_dvc(bundle.root, lambda repo: repo.add(str(bundle.measured)))
    with_dvc(bundle.root, lambda repo: repo.push())
    parts = {stage: sorted(path.name for path in place_of(bundle.measured, stage).iterdir()) for stage in STAGES}
    described = {"format": FORMAT, "corpus": _sha256(corpus), "states": labels, "parts": parts}
    write_atomically(bundle.description, to_bytes(described | {"measured_with": _about(bundle)}))
    return labels


def _described(bundle: Bundle) -> dict[str, Any]:
    try:
        found: dict[str, Any] = orjson.loads(bundle.description.read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactCorrupt(f"cannot be read: {error}", where=str(bundle.description), hint=_MAKE) from None
    if found.get("format") != FORMAT:
        what = f"has format {found.get('format')!r}, this version of drsr reads {FORMAT!r}"
        raise SampleRefused(what, where=str(bundle.description), hint=_MAKE)
    return found


def _state_keys(bundle: Bundle, described: dict[str, Any]) -> set[str]:
    """The states that both exports hold: as many as described, in the described files, whose names are hashes."""
    by_stage = {}
    for stage in STAGES:
        folder = place_of(bundle.measured, stage)
        if sorted(path.name for path in folder.glob("*")) != described["parts"][stage]:
            raise ArtifactCorrupt("does not hold the described files", where=str(folder), hint=_MAKE)
        by_stage[stage] = {key for part in read_parts(folder) for key in part.table.column(KEY).to_pylist()}
    keys: set[str] = by_stage["label"]
    if keys != by_stage["featurize"] or len(keys) != described["states"]:
        raise ArtifactCorrupt("does not hold the described states", where=str(bundle.measured), hint=_MAKE)
    return keys


def _about(bundle: Bundle) -> dict[str, Any]:
    return {stage: next(read_parts(place_of(bundle.measured, stage))).about for stage in STAGES}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m drsr.flows.sample", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--make", action="store_true", help="make it from what this catalog has measured")
    parser.add_argument(
        "--if-it-fits", action="store_true", help="if it does not fit, say why and leave the measuring to drsr label"
    )
    options = parser.parse_args(arguments)
    settings = load_settings()
    try:
        with open_catalog(settings.catalog_url) as catalog:
            artifacts = ArtifactStore(settings.artifact_root)
            if options.make:
                states = make_sample(catalog, artifacts, BUNDLED)
                size = sum(path.stat().st_size for path in (BUNDLED.root / "remote").rglob("*") if path.is_file())
                print(f"{states:,} states in a remote of {size / 1e6:.1f} MB below {BUNDLED.root.name}/; commit it")
                return 0
            taken = take_sample(catalog, artifacts, settings, BUNDLED)
    except SampleRefused as error:
        if not options.if_it_fits:
            print(f"drsr: {error}", file=sys.stderr)
            return 2
        print(f"the bundled sample does not fit: {error}\nnothing is taken over; drsr label will measure")
        return 0
    except DrsrError as error:
        print(f"drsr: {error}", file=sys.stderr)
        return 2
    print(
        f"bundled sample: labels of {taken.labels.taken:,} states and features of {taken.features.taken:,} taken over, "
        f"{taken.labels.there:,} were there"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
