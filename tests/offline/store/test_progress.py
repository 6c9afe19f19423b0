"""Progress where nobody watches: a line now and then, on standard error."""

from __future__ import annotations

import pytest

from drsr.offline.store import progress as module
from drsr.offline.store.progress import progress


def test_lines_say_how_much_and_how_it_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with progress("train", "epochs") as report:
        report(5, 300)
        report(1_000, None, "AUROC 0.9")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "train: 5 of 300 epochs\ntrain: 1,000 epochs, AUROC 0.9\n"


def test_lines_are_rare(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("label", "states") as report:
        for done in range(1_000):
            report(done, 1_000)
    assert capsys.readouterr().err == ""
