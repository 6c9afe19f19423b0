"""The Markdown of a replay: rows counted by hand, where DRSR ranks, and the journal of this repository."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.replay_table import join, keep, main, some_methods, standing, table
from drsr.errors import InputError
from drsr.offline.bench.replay.file import MethodNote, Replay, read_replay
from drsr.offline.bench.replay.stage import Replayed
from drsr.offline.bench.replay.summary import Comparison, compare
from drsr.offline.bench.replay.tables import draw_frontier
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.replay.test_tables import rows_of

JOURNAL = Path("policies", "about", "replay-test.jsonl")
FEW = Bootstrap(50)


def rows_of_all(*methods: tuple[str, list[int], list[bool]]) -> list[Replayed]:
    """Methods that remove so many of a thousand tokens in the only decision of each task, unsafe or not."""
    return [
        rows_of(name, tokens, wrong, f"t{place}")
        for name, removed, unsafe in methods
        for place, (tokens, wrong) in enumerate(zip(removed, unsafe, strict=True))
    ]


def compared(*methods: tuple[str, list[int], list[bool]]) -> Comparison:
    return compare(rows_of_all(*methods), FEW)


def ranked(*methods: tuple[str, list[int], list[bool]]) -> str:
    rows = rows_of_all(*methods)
    return standing(rows, compare(rows, FEW), FEW)


SAFE, WRONG = [False] * 4, [True] * 4


def test_rows_are_sorted_and_idle_methods_named_below() -> None:
    shown = table(compared(("idle", [0] * 4, SAFE), ("drsr", [100] * 4, SAFE), ("more", [200] * 4, [True, *SAFE[1:]])))
    lines = shown.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| more", "| **drsr**"]
    assert lines[2].split(" | ")[1] == "20.0 [20.0, 20.0]"
    assert lines[2].split(" | ")[3].startswith("25.0 [")
    assert lines[-1] == "Below 0.1% removed: idle."


@pytest.mark.parametrize(
    ("ours", "other", "said"),
    [
        (([100] * 4, SAFE), ([50] * 4, SAFE), "more than any other method within 10%. The next is other, 5.0"),
        (
            ([100] * 4, SAFE),
            ([50] * 4, SAFE),
            "do not overlap. Decision by decision drsr removes 5.0 [5.0, 5.0] points",
        ),
        (([100] * 4, SAFE), ([200] * 4, SAFE), "not the most within 10%. The best is other, 20.0"),
        (([100] * 4, SAFE), ([200] * 4, SAFE), "do not overlap. Decision by decision drsr removes -10.0"),
        (([100] * 4, SAFE), ([200] * 4, WRONG), "no other method that removes 0.1% or more keeps to 10%"),
        (
            ([100] * 4, WRONG),
            ([50] * 4, SAFE),
            "Of all decisions 100.0 [100.0, 100.0] % are unsafe, more than the 10% that it must keep to",
        ),
        # Tasks differ more than methods do: the intervals overlap, the differences do not.
        (
            ([60, 110, 260, 410], SAFE),
            ([50, 100, 250, 400], SAFE),
            "overlap. Decision by decision drsr removes 1.0 [1.0,",
        ),
    ],
)
def test_where_drsr_ranks(ours: tuple[list[int], list[bool]], other: tuple[list[int], list[bool]], said: str) -> None:
    assert said in ranked(("drsr", *ours), ("other", *other))


def test_unsafe_is_a_share_of_all_decisions_and_of_what_was_changed() -> None:
    """Who changes little is hardly ever unsafe; of what it changes half may be."""
    tasks = 20
    few = ([400, 400] + [0] * (tasks - 2), [True] + [False] * (tasks - 1))
    ours = ([10] * tasks, [True] + [False] * (tasks - 1))
    rows = [row._replace(changed=row.removed_tokens > 0) for row in rows_of_all(("drsr", *ours), ("seldom", *few))]
    said = standing(rows, compare(rows, FEW), FEW)
    of_all, of_changed = said.split("Of all decisions")[1].split("Of what it changed")
    assert "not the most within 10%. The best is seldom, 4.0" in of_all
    assert "at 5.0 [" in of_all
    assert "no other method that removes 0.1% or more keeps to 10%" in of_changed
    assert of_changed.startswith(" 5.0 [0.0, ")


@pytest.mark.parametrize(("wrong", "said"), [(1, True), (0, False)])
def test_an_interval_that_reaches_above_the_limit_is_said(wrong: int, said: bool) -> None:
    """One of twelve is within the limit; what resampled tasks say is not."""
    shown = ranked(("drsr", [100] * 12, [True] * wrong + [False] * (12 - wrong)))
    assert shown.count("the interval reaches above 10%") == (2 if said else 0)


def test_an_ablation_is_neither_a_policy_nor_a_rival() -> None:
    said = ranked(("drsr", [100] * 4, SAFE), ("drsr_no_gate", [200] * 4, SAFE), ("other", [50] * 4, SAFE))
    assert "The next is other" in said
    assert "drsr_no_gate" not in said
    assert ranked(("other", [50] * 4, SAFE)) == "DRSR has no row here."


def test_the_light_policy_is_compared_with_the_full_one() -> None:
    said = ranked(("drsr", [30] * 4, SAFE), ("drsr_light", [100] * 4, SAFE), ("drsr_no_gate", [200] * 4, SAFE))
    assert said.endswith(" Decision by decision drsr_light removes 7.0 [7.0, 7.0] points more than drsr.")
    assert "points more than drsr." not in ranked(("drsr_light", [100] * 4, SAFE), ("other", [50] * 4, SAFE))


def test_the_journal_of_this_repository(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    figure = tmp_path / "frontier.svg"
    options = ["--methods", "drsr_light,self_gc", "--replicates", "20", "--figure", str(figure), "--domains"]
    monkeypatch.setattr(sys, "argv", ["replay_table", str(JOURNAL), *options])
    assert main() == 0
    said = capsys.readouterr().out
    found = compare(some_methods(read_replay(JOURNAL), ["drsr_light", "self_gc"]).rows, FEW)
    light = next(one for one in found.methods if one.method == "drsr_light")
    assert f"Of what it changed {100 * light.unsafe_of_changed.value:.1f} [" in said
    assert f"| **drsr_light** | {100 * light.removal.value:.1f} [" in said
    assert said.count("| **drsr_light**") == 1 + found.domains
    assert "DRSR light" in figure.read_text()


def test_the_figure_in_this_repository_is_the_journals() -> None:
    """The same bytes, so that a figure of an earlier journal is noticed."""
    rows = some_methods(read_replay(JOURNAL), None).rows
    assert JOURNAL.with_name("frontier.svg").read_bytes() == draw_frontier(compare(rows, FEW))


def test_a_method_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["replay_table", str(JOURNAL), "--methods", "nobody"])
    assert main() == 2
    assert "no rows of nobody" in capsys.readouterr().err


def test_journals_of_several_sources_are_one(tmp_path: Path) -> None:
    about = {"format": "drsr replay/4", "drsr": "1", "split": "test", "labeler": {}, "window": 400}
    notes = {"m": MethodNote("m", "M", "no", ("pairs",)), "n": MethodNote("n", "N", left_out="not installed")}
    air, web = (rows_of("m", 100, False, run) for run in ("air", "web"))
    one, other = Replay(about, notes, [air]), Replay(about, notes, [web, air])
    whole = join([(Path("one"), one), (Path("other"), other)])
    assert sorted(whole.rows) == sorted([air, web])
    keep(whole, tmp_path / "whole.jsonl")
    again = read_replay(tmp_path / "whole.jsonl")
    assert (again.about, again.notes, sorted(again.rows)) == (about, notes, sorted([air, web]))
    assert again.decisions == frozenset({air.state_key, web.state_key})
    with pytest.raises(InputError, match="is there already"):
        keep(whole, tmp_path / "whole.jsonl")
    with pytest.raises(InputError, match="otherwise than one: window"):
        join([(Path("one"), one), (Path("other"), other._replace(about={**about, "window": 800}))])
