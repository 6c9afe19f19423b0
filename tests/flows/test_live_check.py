"""States measured here and now against an export: they agree, or it is said which does not."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from drsr.errors import InputError
from drsr.flows.live_check import LARGEST_HARM, Agreement, compare, measure_again
from drsr.offline.stage_exports import Exporter
from drsr.offline.store.exports import add_part, place_of, read_parts
from drsr.settings import load_settings
from tests.offline.conftest import finished_pipeline as finished_pipeline
from tests.offline.small_pipeline import Pipeline, quick_params


@pytest.fixture(scope="module")
def there(finished_pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a catalog has measured, exported."""
    root = tmp_path_factory.mktemp("there")
    exporter = Exporter(finished_pipeline.catalog, finished_pipeline.artifacts, quick_params(), root)
    for stage in ("label", "featurize"):
        exporter.export(stage)
    return root


@pytest.fixture(scope="module")
def here(finished_pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of the states measured again, in a catalog of their own."""
    folder = tmp_path_factory.mktemp("here")
    settings = load_settings(folder, finished_pipeline.settings)
    return measure_again(settings, folder, 2, finished_pipeline.folder / "runs", source="runs")


def altered(there: Path, folder: Path, stage: str, column: str, shift: float) -> Path:
    """The same export with every number of a column shifted."""
    for name in ("label", "featurize"):
        for part in read_parts(place_of(there, name)):
            rows = part.table.to_pylist()
            for row in rows if name == stage else ():
                row[column] = [value + shift for value in row[column]]
            add_part(place_of(folder, name), part.about, pyarrow.Table.from_pylist(rows, part.table.schema), 0)
    return folder


def test_measured_again_they_agree(here: Path, there: Path) -> None:
    found = compare(here, there)
    assert found.holds
    assert found.states >= 2
    assert found.sets >= 7 * found.states
    assert (found.harm <= LARGEST_HARM, found.changed_unsafe) == (True, 0)


@pytest.mark.parametrize(
    ("stage", "column", "shift"), [("label", "deleted_nlls", 0.001), ("featurize", "values", 0.01)]
)
def test_other_numbers_are_seen(here: Path, there: Path, stage: str, column: str, shift: float, tmp_path: Path) -> None:
    found = compare(here, altered(there, tmp_path, stage, column, shift))
    assert not found.holds
    assert (found.harm > LARGEST_HARM) == (stage == "label")


def test_verdicts_that_change_are_counted(here: Path, there: Path, tmp_path: Path) -> None:
    assert compare(here, altered(there, tmp_path, "label", "deleted_nlls", 1.0)).changed_unsafe > 0


def test_a_state_that_is_not_there(here: Path, there: Path, tmp_path: Path) -> None:
    for name in ("label", "featurize"):
        part = next(read_parts(place_of(there, name)))
        known = {key for found in read_parts(place_of(here, name)) for key in found.table["state_key"].to_pylist()}
        rows = [row for row in part.table.to_pylist() if row["state_key"] not in known]
        add_part(place_of(tmp_path, name), part.about, pyarrow.Table.from_pylist(rows, part.table.schema), 0)
    with pytest.raises(InputError, match="is not in the sample with these deletion sets"):
        compare(here, tmp_path)


def test_nothing_measured_is_no_agreement() -> None:
    assert not Agreement(0, 0, 0.0, 0, 0.0).holds
