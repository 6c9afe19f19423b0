"""Kept evaluations: the rule of early stopping, told by an obvious twin, and what does not follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import ArtifactCorrupt
from drsr.offline.train.evaluations import (
    NOT_SAID,
    EarlyStopping,
    Evaluation,
    Quality,
    broken_rule,
    history_bytes,
    read_history,
)
from tests.offline.frames import params

PARAMS = replace(params().train, seeds=(11, 29), max_epochs=12, evaluate_every=5, patience=2)
Rows = list[Evaluation]


def kept(*areas: float, seeds: tuple[int, ...] = PARAMS.seeds) -> Rows:
    """Return what training leaves behind where every member has these areas, in epochs 5, 10 and 12."""
    rules = {seed: EarlyStopping(PARAMS.patience) for seed in seeds}
    rows = []
    for epoch, area in zip((5, 10, 12), areas, strict=False):
        for seed, rule in rules.items():
            quality = Quality(area, 0.5, -0.1)
            rows.append(Evaluation(epoch, seed, 1.0, quality, rule.judge(quality), rule.stopped, "validation"))
    return rows


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, float("nan")]), max_size=12), st.integers(1, 4))
def test_the_rule_is_its_obvious_twin(areas: list[float], patience: int) -> None:
    rule = EarlyStopping(patience)
    said = [(rule.judge(Quality(area, 0.0, 0.0)), rule.stopped) for area in areas]
    expected: list[tuple[bool, bool]] = []
    for number, area in enumerate(areas):
        before = areas[:number]
        chosen = [place for place, (is_best, _) in enumerate(expected) if is_best]
        had_stopped = any(stopped for _, stopped in expected)
        is_best = not had_stopped and (not before or area > areas[chosen[-1]])
        waited = 0 if is_best else number - chosen[-1]
        expected.append((is_best, had_stopped or waited >= patience))
    assert said == expected


@pytest.mark.parametrize("areas", [(0.5, 0.6, 0.7), (0.7, 0.6, 0.5), (0.5, float("nan"), 0.6)])
def test_what_training_leaves_behind_keeps_the_rule_and_comes_back(areas: tuple[float, ...]) -> None:
    back = read_history(history_bytes(kept(*areas)), "history")
    assert [row.to_json() | {"unsafe_auroc": 0} for row in back] == [
        row.to_json() | {"unsafe_auroc": 0} for row in kept(*areas)
    ]
    assert list(broken_rule(back, PARAMS)) == []


def test_members_that_stopped_end_the_training() -> None:
    patient = replace(PARAMS, max_epochs=100)
    rows = kept(0.7, 0.6, 0.5)
    rows = [row._replace(epoch={12: 15}.get(row.epoch, row.epoch)) for row in rows]
    assert list(broken_rule(rows, patient)) == []
    assert list(broken_rule(rows[:4], patient)) == [
        "evaluations were kept up to epoch 10, where no rule ends the training"
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: [row._replace(is_best=row.epoch == 12) for row in rows], "was marked as its best and is not"),
        (lambda rows: [row._replace(is_best=False) for row in rows], "is better than the one that was chosen"),
        (lambda rows: rows[:-1], "of member 29 are missing"),
        (lambda rows: rows[2:], "of member 11 are missing, or not of every 5 epochs"),
        (lambda rows: rows[:2], "up to epoch 5, where no rule ends"),
        (lambda rows: [row._replace(seed=7) for row in rows], "of other members than [11, 29]"),
        (lambda rows: [], "of other members than [11, 29]"),
    ],
)
def test_what_does_not_follow_from_the_rule(change: Callable[[Rows], Rows], says: str) -> None:
    assert says in "\n".join(broken_rule(change(kept(0.7, 0.6, 0.5)), PARAMS))


def test_evaluations_from_before_they_said_their_split() -> None:
    rows = [{name: value for name, value in row.to_json().items() if name != "split"} for row in kept(0.5, 0.6, 0.7)]
    assert {row.split for row in read_history(orjson.dumps(rows), "history")} == {NOT_SAID}


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"[{}]", b"[[]]", b"1"])
def test_something_else(data: bytes) -> None:
    with pytest.raises(ArtifactCorrupt, match="is not a list of evaluations"):
        read_history(data, "artifact 0")
