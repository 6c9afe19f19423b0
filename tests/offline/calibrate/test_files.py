"""What a calibration writes: the table reads back to the bit, the curves are the table's, the plots are pictures."""

from __future__ import annotations

import csv
import io
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drsr.errors import SettingsError
from drsr.offline.calibrate.certificates import calibrate_certified
from drsr.offline.calibrate.files import read_search_table, search_table_csv, write_files
from drsr.offline.calibrate.search import SearchTable, calibrate
from tests.offline.frames import make_frame, make_scored, params

PARAMS = params().calibrate


def lines(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode())))


def same(left: SearchTable, right: SearchTable) -> None:
    assert left.states == right.states
    for one, other in zip(left.columns, right.columns, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_the_search_table_reads_back_to_the_bit() -> None:
    found = calibrate(make_scored(make_frame("validation", 12)), PARAMS)
    data = search_table_csv(found, PARAMS)
    same(read_search_table(data), found.table)
    assert search_table_csv(found, PARAMS) == data
    rows = lines(data)
    admissible = found.table.admissible(PARAMS.max_unsafe_rate, PARAMS.max_mean_harm)
    assert [row["admissible"] == "1" for row in rows] == admissible.tolist()
    some = next(row for row in rows if row["unsafe_rate"])
    assert float(some["unsafe_rate"]) == int(some["unsafe"]) / int(some["selected"])


def test_weighted_counts_are_in_the_table_of_a_balanced_search_alone() -> None:
    frame = make_frame("validation", 12)
    names = tuple(f"{'one' if n < 6 else 'other'}/{name}" for n, name in enumerate(frame.trajectory_ids))
    balanced = replace(PARAMS, source_balance=0.5)
    found = calibrate(make_scored(replace(frame, trajectory_ids=names)), balanced)
    data = search_table_csv(found, balanced)
    same(read_search_table(data), found.table)
    assert int(lines(data)[-1]["balanced_selected"]) != int(lines(data)[-1]["selected"])
    plain = search_table_csv(calibrate(make_scored(frame), PARAMS), PARAMS)
    assert b"balanced" not in plain


def test_nothing_selected_is_empty_not_a_number() -> None:
    found = calibrate(make_scored(make_frame("validation", 6)), replace(PARAMS, removal_cap=1e-6))
    data = search_table_csv(found, PARAMS)
    assert b"nan" not in data
    assert {row["unsafe_rate"] for row in lines(data)} == {""}
    same(read_search_table(data), found.table)


def test_the_certified_table_says_what_passed() -> None:
    train = make_scored(make_frame("train", 60, noise=0.0), noise=0.3)
    validation = make_scored(make_frame("validation", 100, noise=0.0), 1, noise=0.3)
    found = calibrate_certified(train, validation, PARAMS)
    data = search_table_csv(found, PARAMS)
    rows = lines(data)
    assert [row["certified"] == "1" for row in rows] == [policy.certified for policy in found.tried]
    assert [float(row["unsafe_bound"]) for row in rows] == [policy.unsafe_bound for policy in found.tried]
    same(read_search_table(data), found.calibration.table)


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_curve_and_sensitivity_as_data_and_as_plots(tmp_path: Path) -> None:
    found = calibrate(make_scored(make_frame("validation", 40), noise=0.5), PARAMS)
    assert found.chosen is not None
    paths = write_files(tmp_path / "new" / "folder", found.table, found.chosen, PARAMS)
    assert [path.name for path in paths] == [
        "operating_curve.csv",
        "beta_sensitivity.csv",
        "operating_curve.png",
        "beta_sensitivity.png",
    ]
    curve = lines(paths[0].read_bytes())
    assert {row["max_cardinality"] for row in curve} == {"2", "3"}
    chosen = [
        row
        for row in curve
        if float(row["risk_threshold"]) == found.chosen.risk_threshold
        and int(row["max_cardinality"]) == found.chosen.max_cardinality
    ]
    assert [float(row["mean_removal"]) for row in chosen] == [found.chosen.mean_removal]
    sensitivity = lines(paths[1].read_bytes())
    assert len(sensitivity) == 10
    assert max(float(row["mean_removal"] or 0) for row in sensitivity) == found.chosen.mean_removal
    for path in paths[2:]:
        assert min(png_size(path)) > 300


def test_plots_are_made_when_nothing_is_admissible(tmp_path: Path) -> None:
    frame = make_frame("validation", 6)
    harmful = replace(frame, harm=np.where(frame.mask == 15, -0.5, 0.5), unsafe=frame.mask != 15)
    found = calibrate(make_scored(harmful), PARAMS)
    assert found.abstains_always
    paths = write_files(tmp_path, found.table, None, PARAMS)
    assert {row["mean_removal"] for row in lines(paths[1].read_bytes())} == {""}
    assert all(png_size(path) for path in paths[2:])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = calibrate(make_scored(make_frame("validation", 6)), PARAMS)
    with pytest.raises(SettingsError, match="cannot be written to"):
        write_files(tmp_path / "file" / "folder", found.table, found.chosen, PARAMS)
