"""Lists of runs whose trials share a task."""

from __future__ import annotations

from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.ingest.formats.files import as_json, one, only_problem, read_bytes, read_value
from tests.offline.ingest.formats.miniatures import CHAT, TAU_BENCH


def test_trials_of_one_task_share_its_identity() -> None:
    items = [item for item in read_value(TAU_BENCH) if isinstance(item, Trajectory)]
    assert [item.external_id for item in items] == ["runs.json#7/0", "runs.json#7/1"]
    assert {item.task for item in items} == {"tau-bench/7"}
    assert [item.reward for item in items] == [0.0, 1.0]


def test_the_domain_is_read_from_the_policy() -> None:
    policy = {"role": "system", "content": "# Airline Agent Policy\n\nBe kind."}
    trajectory = one(read_value([{**TAU_BENCH[0], "traj": [policy, *CHAT[1:]]}]))
    assert (trajectory.domain, trajectory.task) == ("airline", "airline/7")


def test_a_list_cut_short_keeps_its_sound_runs() -> None:
    data = as_json(TAU_BENCH)
    items = read_bytes(data[: len(data) * 3 // 4])
    assert isinstance(items[0], Trajectory)
    assert only_problem(items[1:]).location.endswith("runs.json[1]")
    assert only_problem(items[1:]).reason == "truncated_json"
