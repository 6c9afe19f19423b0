"""What a search table says of the choice that was recorded."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.expectations.frames.calibration import SEARCHED, search_row
from drsr.offline.train.records import CalibrationRecord

LIMITS = {"max_unsafe_rate": 0.1, "max_mean_harm": 0.02}
HEADER = (
    "max_cardinality,uncertainty_coefficient,risk_threshold,states,selected,unsafe,unsafe_rate,mean_harm,mean_removal"
)
LINES = [
    "2,0.0,0.1,10,0,0,,,0.0",  # selects nothing
    "2,0.0,0.2,10,4,0,0.0,0.01,0.05",
    "3,0.5,0.3,10,10,1,0.1,-0.01,0.11",
    "3,0.5,0.4,10,10,2,0.2,0.01,0.3",  # unsafe
    "3,0.5,0.5,10,10,0,0.0,0.03,0.3",  # harmful
]
CHOSEN = {
    "max_cardinality": 3,
    "uncertainty_coefficient": 0.5,
    "risk_threshold": 0.3,
    "selected": 10,
    "unsafe_rate": 0.1,
    "mean_harm": -0.01,
    "mean_removal": 0.11,
}


def record(**changes: Any) -> CalibrationRecord:
    rest = dict.fromkeys(CalibrationRecord._fields)
    about = {"calibration_key": "0" * 64, "mode": "plain", "params": LIMITS, "tried": 5, "admissible": 2}
    return CalibrationRecord(**{**rest, **about, "abstains_always": False, **CHOSEN, **changes})


def row(found: CalibrationRecord, lines: list[str] = LINES, header: str = HEADER) -> dict[str, Any]:
    return search_row(found, "\n".join([header, *lines]).encode())


def test_an_honest_record() -> None:
    found = row(record())
    assert tuple(found) == SEARCHED
    assert (found["rows"], found["admissible_rows"], found["chosen_rows"], found["wanted_rows"]) == (5, 2, 1, 1)
    assert found["largest_removal"] == found["mean_removal"] == 0.11


@pytest.mark.parametrize("name", CHOSEN)
def test_one_number_that_is_another(name: str) -> None:
    assert row(record(**{name: CHOSEN[name] + 1}))["chosen_rows"] == 0


def test_a_worse_choice() -> None:
    worse = {"max_cardinality": 2, "uncertainty_coefficient": 0.0, "risk_threshold": 0.2, "selected": 4}
    found = row(record(**worse, unsafe_rate=0.0, mean_harm=0.01, mean_removal=0.05))
    assert found["chosen_rows"] == 1
    assert found["largest_removal"] > found["mean_removal"]


def test_nothing_admissible() -> None:
    nothing = dict.fromkeys(("risk_threshold", "unsafe_rate", "mean_harm"))
    found = row(record(**nothing, abstains_always=True, selected=0, mean_removal=0.0, admissible=0), LINES[3:])
    assert (found["admissible_rows"], found["chosen_rows"], found["wanted_rows"]) == (0, 0, 0)
    assert found["largest_removal"] == 0.0


def test_only_what_is_certified_counts() -> None:
    lines = [f"{line},{int(number == 1)}" for number, line in enumerate(LINES)]
    found = row(record(mode="certified"), lines, f"{HEADER},certified")
    assert (found["admissible_rows"], found["chosen_rows"]) == (1, 0)


def test_where_sources_are_weighted_the_weighted_counts_keep_to_the_limit_too() -> None:
    weighted = record(params={**LIMITS, "source_balance": 0.5})
    header = f"{HEADER},balanced_selected,balanced_unsafe"
    kept, broken = ([f"{line},{selected},100" for line in LINES] for selected in (1000, 900))
    assert row(weighted, kept, header)["admissible_rows"] == 2
    assert row(weighted, broken, header)["admissible_rows"] == 0
    assert row(record(), broken, header)["admissible_rows"] == 2
    assert row(weighted)["admissible_rows"] == 0  # a table without them
