from __future__ import annotations

import csv
import io

import pytest

from drsr.offline.bench.harness.episode import Sent
from drsr.offline.bench.harness.results_file import TaskResults
from drsr.offline.bench.harness.summary import summarise
from drsr.offline.bench.harness.task_tables import references, task_section, task_tables
from drsr.offline.train.metrics import Bootstrap
from tests.offline.bench.harness.settings import episode
from tests.offline.bench.harness.test_summary import EPISODES

ABOUT = {
    "drsr": "0.0.1",
    "manifest": "sandbox",
    "manifest_sha256": "ab" * 32,
    "weighting": "tasks",
    "agent": "scripted",
    "summariser": "scripted",
    "window": 2048,
    "step_limit": 24,
}

FEW = Bootstrap(replicates=50)


def test_the_tables() -> None:
    results, tokens, paths, domains = task_tables(ABOUT, summarise(EPISODES, FEW), drawn=True)
    names = [table.name for table in (results, tokens, paths, domains)]
    assert names == ["tasks", "task_tokens", "task_paths", "tasks_by_domain"]
    rows = list(csv.DictReader(io.StringIO(results.to_csv())))
    assert [row["method"] for row in rows] == ["Baseline", "Short"]
    assert rows[1]["change %"].startswith("-33.3 [")
    assert rows[1]["equal-domain change %"].startswith("-40.0 [")
    assert (rows[1]["no"], rows[1]["tokens"]) == ("2", "200")
    path = list(csv.DictReader(io.StringIO(paths.to_csv())))[1]
    assert (path["method"], path["failed"], path["out of steps"], path["requests"]) == ("Short", "1", "1", "1.0")
    assert (rows[0]["paper's reward (Eval40)"], rows[1]["paper's reward (Eval40)"]) == ("0.675", "")
    parts = list(csv.DictReader(io.StringIO(tokens.to_csv())))[1]
    assert (parts["total"], parts["direct removal"], parts["saved"], parts["residual"]) == ("200", "127", "100", "-27")
    assert [row[:2] for row in domains.rows] == [
        ("code", "Baseline"),
        ("code", "Short"),
        ("web", "Baseline"),
        ("web", "Short"),
    ]
    assert results.figure.startswith(b"<svg")


def test_a_section_of_the_report() -> None:
    refitted = [one._replace(version="second", reward=0.0) for one in EPISODES if one.method == "short"]
    every = [*EPISODES, *refitted]
    for version, reward in (("second", "0.000"), ("", "0.500")):  # of the one that was asked for last alone
        section = task_section(TaskResults(ABOUT, every, [], {"baseline": "", "short": version}), FEW)
        results = section.analyses[0]
        assert [str(row[3])[:5] for row in results.rows] == ["1.000", reward]
        assert (len(section.analyses), dict(section.left_out)) == (4, {})
    stopped = task_section(TaskResults(ABOUT, every, [], {"baseline": "", "short": "third"}), FEW)
    assert [row[1] for row in stopped.analyses[0].rows] == ["Baseline"]
    assert "was not run yet: drsr evaluate --tasks" in stopped.left_out["Short"]
    for nothing in (None, TaskResults(ABOUT, [], [], {})):
        missing = task_section(nothing, FEW)
        assert (list(missing.analyses), list(missing.left_out)) == ([], ["tasks"])


def test_the_printed_identity_holds_where_the_endpoint_refused_the_baseline() -> None:
    refused = [
        episode("d", "web", "baseline", sent=(Sent(0, 0, 0, 0, 0, 0, 0),), reward=0.0),
        episode("d", "web", "short", sent=(Sent(500, 10, 0, 0, 900, 0, 0),)),
    ]
    tokens = task_tables(ABOUT, summarise([*EPISODES, *refused], FEW), drawn=False)[1]
    row = list(csv.DictReader(io.StringIO(tokens.to_csv())))[1]
    saved, direct, residual = (int(row[name]) for name in ("saved", "direct removal", "residual"))
    assert (saved, direct) == (100, 127)
    assert saved == direct + residual
    assert row["compared"] == "3"


def test_what_not_all_methods_have_is_left_out_and_named() -> None:
    few = episode("a", "code", "few")
    more = [episode(name, "web", "baseline") for name in "de"]
    given = [*EPISODES, *more, few]
    results = task_tables(ABOUT, summarise(given, FEW), drawn=False)[0]
    assert [row[1:3] for row in results.rows] == [("Baseline", 3), ("Short", 3)]
    assert "2 runs that not all of them have are left out." in results.says
    assert "Left out because they have too few runs: Few." in results.says
    section = task_section(TaskResults(ABOUT, given, [], {}), FEW)
    assert section.left_out["Few"].startswith("it was run on 1 of the 3 that the others share")


def test_the_text_says_what_it_is() -> None:
    says = task_tables(ABOUT, summarise(EPISODES, FEW), drawn=False)[0].says
    for words in ("scripted double", "a window of 2,048 tokens", "summaries by scripted", "reported by the paper"):
        assert words in says
    about = {**ABOUT, "agent": "large at http://x", "weighting": "domains"}
    other = task_tables(about, summarise(EPISODES, FEW), drawn=False)
    assert "The agent is large at http://x." in other[0].says
    assert "Reward and change are equal-domain" in other[0].says
    assert other[0].rows[1][6].startswith("-40.0")  # type: ignore[union-attr]


def test_the_papers_values_are_the_papers() -> None:
    """Not what its rounded means give: those of Eval40 give -35.82."""
    reward, tokens, change = references("eval40")["drsr"]
    assert (reward, tokens) == (0.794, 1.211)
    assert change == pytest.approx(-35.85, abs=0.005)
    assert references("eval40")["drsr_no_pair_pooling"] == (0.757, 1.201, None)
    assert references("full260")["drsr"] == (0.802, 2.126, -20.82)
    assert references("full260")["structural_pruning"] == (0.701, 2.292, -14.64)
    assert references("sandbox") == references("eval40")
