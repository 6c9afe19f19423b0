"""A refresh that left less than is wished has something to do. What DVC recorded is in test_recording.py."""

from __future__ import annotations

from pathlib import Path

from drsr.flows.wishes import Wishes, pages_in


def test_wheel_and_pages_must_be_there(tmp_path: Path) -> None:
    wheel, docs = tmp_path / "index" / "policy.whl", tmp_path / "docs"
    wheel.parent.mkdir()
    wheel.touch()
    index = str(wheel.parent)
    outcome = {"published": True, "wheel": str(wheel), "index": index, "recorded": {}}
    assert Wishes(index).are_met(outcome)
    assert not Wishes(str(tmp_path / "packages")).are_met(outcome), "another index"
    assert not Wishes(index, str(docs)).are_met(outcome)
    docs.mkdir()
    page = docs / "index.html"
    page.write_text("all rules are kept")
    assert not Wishes(index, str(docs)).are_met(outcome), "somebody else's"
    with_pages = outcome | {"pages": pages_in(str(docs))}
    assert Wishes(index, str(docs)).are_met(with_pages)
    page.write_text("a rule is broken")
    assert not Wishes(index, str(docs)).are_met(with_pages), "a night that failed since has left these"
    page.unlink()
    assert not Wishes(index, str(docs)).are_met(with_pages)
    wheel.unlink()
    assert not Wishes(index).are_met(outcome), "somebody removed it"
    assert Wishes(index).are_met({"published": False, "reason": "worse"})


def test_ablations_are_more_than_the_full_scorer() -> None:
    outcome = {"published": False, "reason": "worse"}
    assert not Wishes("index", ablations=True).are_met(outcome)
    assert not Wishes("index", ablations=True).are_met(outcome | {"ablations": False})
    assert Wishes("index", ablations=True).are_met(outcome | {"ablations": True})
    assert Wishes("index").are_met(outcome | {"ablations": True})


def test_what_was_not_recorded_is_not_looked_for() -> None:
    assert not Wishes("index", dvc=True).are_met({"published": False, "recorded": {}})
    assert not Wishes("index", dvc=True).are_met({"published": False})
