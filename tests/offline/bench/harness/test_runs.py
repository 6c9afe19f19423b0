"""All tasks with all methods: a run that was killed anywhere, run again, leaves the same file."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import AgentFailed, ArtifactCorrupt, InputError
from drsr.offline.bench.comparators.baseline import Baseline
from drsr.offline.bench.comparators.contract import Comparator
from drsr.offline.bench.comparators.drsr_policy import DrsrPolicy
from drsr.offline.bench.comparators.lre import Lre, LreModel
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.harness import runs
from drsr.offline.bench.harness.bundled_manifests import bundled_manifest
from drsr.offline.bench.harness.episode import Episode, Setting, run_episode
from drsr.offline.bench.harness.manifest import ManifestTask
from drsr.offline.bench.harness.results_file import ResultsFile, read_results
from drsr.offline.bench.harness.runs import about_run, run_tasks
from drsr.offline.bench.replay.method_version import version_of
from drsr.policy.scripted import scripted_policy
from tests.offline.bench.harness.settings import BALANCE, ORDER, OnlyTheTask, quick_setting

METHODS: dict[str, Comparator] = {
    "baseline": Baseline(),
    "short": OnlyTheTask(4, "short"),
    "longer": OnlyTheTask(8, "longer"),
}
ABOUT = about_run(bundled_manifest("sandbox"), quick_setting(), "a tokenizer")


def silent(done: int, total: int | None, note: str = "") -> None:
    return


def run(path: Path) -> list[Episode]:
    return run_some(path, [BALANCE, ORDER], METHODS, quick_setting())


def run_some(
    path: Path,
    tasks: Sequence[ManifestTask],
    methods: Mapping[str, Comparator],
    setting: Setting,
    told: Sequence[str] = ("--tasks", "sandbox"),
) -> list[Episode]:
    """As the command does."""
    with ResultsFile(path, ABOUT) as file:
        file.tell(told, {name: version_of(method) for name, method in methods.items()})
        return run_tasks(tasks, methods, setting, file, silent)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Episode]]:
    path = tmp_path_factory.mktemp("finished") / "deep" / "results.jsonl"
    episodes = run(path)
    return path.read_bytes(), episodes


def test_every_task_with_every_method(finished: tuple[bytes, list[Episode]]) -> None:
    data, episodes = finished
    found = [(episode.task, episode.method) for episode in episodes]
    assert found == [(task.id, method) for task in (BALANCE, ORDER) for method in METHODS]
    assert len(data.splitlines()) == 8
    told = {"told": ["--tasks", "sandbox"], "versions": dict.fromkeys(METHODS, "")}
    assert json.loads(data.splitlines()[1]) == told
    assert json.loads(data.splitlines()[0])["manifest_sha256"] == bundled_manifest("sandbox").identity


def test_a_second_run_has_nothing_to_do(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(finished[0])
    monkeypatch.delattr(runs, "run_episode")
    assert run(path) == finished[1]
    assert path.read_bytes() == finished[0]


@pytest.mark.parametrize("part", [0.0, 0.0005, 0.02, 0.35, 0.77, 0.999])
def test_killed_anywhere_and_run_again_it_is_the_same_file(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, part: float
) -> None:
    """Lines are only ever appended, so what a kill leaves is some beginning of the file."""
    data, episodes = finished
    path = tmp_path / "results.jsonl"
    path.write_bytes(data[: int(len(data) * part)])
    assert run(path) == episodes
    assert path.read_bytes() == data


def test_an_agent_that_fails_stops_the_run_and_loses_nothing(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.jsonl"
    whole = run_episode

    def fails(*arguments: object) -> Episode:
        if path.read_bytes().count(b"\n") == 5:
            raise AgentFailed("no answer")
        return whole(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(runs, "run_episode", fails)
        with pytest.raises(AgentFailed):
            run(path)
    assert path.read_bytes() == b"".join(finished[0].splitlines(keepends=True)[:5])
    assert run(path) == finished[1]
    assert path.read_bytes() == finished[0]


def test_another_seed_and_another_fit_are_other_rows(finished: tuple[bytes, list[Episode]], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(finished[0])
    again = run_some(path, [BALANCE], {"baseline": Baseline()}, quick_setting()._replace(seed=1))
    assert [episode.seed for episode in again] == [1]
    methods = {"drsr": DrsrPolicy(scripted_policy())}
    first = run_some(path, [BALANCE], methods, quick_setting())
    other = {"drsr": DrsrPolicy(scripted_policy(seed=5, risk_threshold=None))}
    second = run_some(path, [BALANCE], other, quick_setting())
    assert first[0].version != second[0].version
    assert (first[0].tokens.direct_removal or 0) > 0 == second[0].tokens.direct_removal
    found = read_results(path)
    every = found.episodes
    assert len(every) == 6 + 1 + 2
    assert found.latest == [*every[:7], second[0]]
    run_some(path, [BALANCE], methods, quick_setting())  # back to the first: nothing is run, and it is the one again
    back = read_results(path)
    assert back.episodes == every
    assert back.latest == [*every[:7], first[0]]
    assert back.versions == {**dict.fromkeys(METHODS, ""), "drsr": first[0].version}


def test_what_was_asked_for_last_counts_and_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    wide, narrow = ["--tasks", "sandbox", "--policy", "p1"], ["--tasks", "sandbox", "--policy", "p2", "--limit", "4"]
    with ResultsFile(path, ABOUT) as file:
        file.tell(wide, {"baseline": "", "drsr": "1"})
        file.tell(narrow, {"baseline": "", "drsr": "2"})
    written = path.read_bytes()
    with ResultsFile(path, ABOUT) as file:
        file.tell(narrow, {"baseline": "", "drsr": "2"})
        assert path.read_bytes() == written
        file.tell(wide, {"baseline": "", "drsr": "1"})
    found = read_results(path)
    assert found.versions == {"baseline": "", "drsr": "1"}
    assert found.told == [tuple(narrow), tuple(wide)]  # in this order they lead to the same file
    with ResultsFile(path, ABOUT) as file:  # another policy at the same place
        file.tell(wide, {"baseline": "", "drsr": "3"})
    assert read_results(path).versions["drsr"] == "3"


def test_a_file_of_the_format_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**ABOUT, "format": "drsr tasks results/2"}) + "\n")
    with pytest.raises(ArtifactCorrupt, match="'drsr tasks results/2', not 'drsr tasks results/3'(?s:.*)run again"):
        ResultsFile(path, ABOUT)


def test_versions_go_by_what_was_fitted() -> None:
    model = LreModel((0.0,) * 10, (1.0,) * 10, (0.1,) * 10, 0.0, 3, 9, 0.5)
    counts = TokenCounts(ScriptedTokenizer())
    assert version_of(Baseline()) == ""
    assert len(version_of(Lre(model, counts))) == 64


def test_a_file_of_another_agent_is_refused(finished: tuple[bytes, list[Episode]], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(finished[0])
    with pytest.raises(InputError, match="was made with agent 'scripted', this run has 'large'"):
        ResultsFile(path, {**ABOUT, "agent": "large"})
    about, episodes, *_ = read_results(path)
    assert (about["weighting"], episodes) == ("tasks", finished[1])


def test_tasks_run_at_the_same_time_and_come_to_the_same(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two meet at every beginning: one after the other, the first would wait for nobody."""
    meeting, whole = threading.Barrier(2, timeout=60), run_episode

    def together(*arguments: object) -> Episode:
        meeting.wait()
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "run_episode", together)
    path = tmp_path / "results.jsonl"
    with ResultsFile(path, ABOUT) as file:
        assert run_tasks([BALANCE, ORDER], METHODS, quick_setting(), file, silent, parallel=2) == finished[1]
    assert sorted(path.read_bytes().splitlines()) == sorted(
        line for line in finished[0].splitlines() if not line.startswith(b'{"told"')
    )


def test_an_agent_that_fails_beside_others_loses_none_that_has_begun(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_episode

    def fails_first(task: ManifestTask, method: Comparator, *arguments: object) -> Episode:
        if method.name == "baseline":
            raise AgentFailed("no answer")
        return whole(task, method, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runs, "run_episode", fails_first)
    path = tmp_path / "results.jsonl"
    with ResultsFile(path, ABOUT) as file, pytest.raises(AgentFailed):
        run_tasks([BALANCE, ORDER], METHODS, quick_setting(), file, silent, parallel=2)
    kept = [] if not path.exists() else read_results(path).episodes
    assert "baseline" not in {episode.method for episode in kept}
    monkeypatch.setattr(runs, "run_episode", whole)
    assert run(path) == finished[1]


def parts(folder: Path, finished: tuple[bytes, list[Episode]]) -> list[Path]:
    """The results of two machines, each with a part of the tasks."""
    paths = [folder / "one.jsonl", folder / "two.jsonl"]
    for path, task in zip(paths, (BALANCE, ORDER), strict=True):
        run_some(path, [task], METHODS, quick_setting())
    return paths


def test_results_of_several_machines_are_merged(
    finished: tuple[bytes, list[Episode]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = parts(tmp_path, finished)
    monkeypatch.delattr(runs, "run_episode")
    whole = tmp_path / "whole.jsonl"
    with ResultsFile(whole, ABOUT) as file:
        assert file.merge(paths) == 6
        assert run_tasks([BALANCE, ORDER], METHODS, quick_setting(), file, silent) == finished[1]
        assert file.merge(paths) == 0
    assert read_results(whole).episodes == finished[1]


def test_what_does_not_belong_together_is_not_merged(finished: tuple[bytes, list[Episode]], tmp_path: Path) -> None:
    good, other = parts(tmp_path, finished)
    lines = other.read_bytes().splitlines(keepends=True)
    changed = tmp_path / "changed.jsonl"
    changed.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b'"reward": 1.0', b'"reward": 0.25')]))
    assert changed.read_bytes() != other.read_bytes()
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_bytes(b"".join([lines[0].replace(b"a tokenizer", b"another"), *lines[1:]]))
    with ResultsFile(tmp_path / "whole.jsonl", ABOUT) as file:
        with pytest.raises(InputError, match="with different results"):
            file.merge([good, other, changed])
        with pytest.raises(InputError, match="was made with tokenizer 'another'"):
            file.merge([good, elsewhere])
        assert file.episodes == []
    assert len(finished[1]) == 6
