"""Runs of different splits about one thing: found by what they look up, and by how they open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.offline import samples
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.corpus.task_names import load_task_names
from drsr.offline.ingest.shared_subjects import (
    PlacedRun,
    Subject,
    kept_subject,
    rare_below,
    read_kept_subject,
    shared_subjects,
    subject_of,
    subjects_on_two_sides,
)
from drsr.offline.ingest.splits import assign_split
from drsr.offline.ingest.stage import admit_named, ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, write_json
from tests.trajectory_files import trajectories_folder

ORDERS = ("#Q4410027", "#Q5582910", "#Q9120045")


def shop(customer: str, orders: tuple[str, ...], wish: str, *, benchmark: str, task: str) -> Any:
    """A small run of either tau benchmark, in the form that it records."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": wish}]
    for number, (tool, asked) in enumerate([("get_user", customer), *(("get_order", order) for order in orders)]):
        call = {"id": f"c{number}", "name": tool, "arguments": {"id": asked}, "requestor": "assistant"}
        if benchmark == "tau":
            function = {"name": tool, "arguments": json.dumps({"id": asked})}
            call = {"id": f"c{number}", "type": "function", "function": function}
        result = {"role": "tool", "content": json.dumps({"id": asked, "state": wish})}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(result | ({"tool_call_id": f"c{number}"} if benchmark == "tau" else {"id": f"c{number}"}))
    messages.append({"role": "assistant", "content": "Done."})
    if benchmark == "tau":
        return [{"task_id": task, "reward": 1.0, "traj": messages, "trial": 0}]
    simulation = {"id": f"s-{task}", "task_id": task, "messages": messages, "trial": 0, "reward_info": {"reward": 1.0}}
    info = {"environment_info": {"domain_name": "retail", "policy": "Serve the customer."}}
    return {"info": info, "tasks": [], "simulations": [simulation]}


def number_in(split: str, name: str) -> str:
    """A task number that the hash puts into a split."""
    return next(str(number) for number in range(1_000) if assign_split(f"task:{name}/{number}") == split)


def test_one_customer_under_the_tasks_of_two_benchmarks(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    """The planted tau case: two wishes, other words, the same made-up customer and orders."""
    first = shop("ada_byron_1815", ORDERS, "Return my lamp", benchmark="tau", task=number_in("train", "tau-bench"))
    second = shop(
        "ada_byron_1815", ORDERS[:2], "Mend the kettle", benchmark="tau2", task=number_in("test", "tau2/retail")
    )
    other = shop("alan_bell_1912", ("#Q7777001", "#Q7777002"), "Cancel all", benchmark="tau", task="5")
    write_json(tmp_path / "runs" / "tau" / "runs.json", first)
    write_json(tmp_path / "runs" / "tau2" / "runs.json", second)
    write_json(tmp_path / "runs" / "others" / "runs.json", other)
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    ((one, one_split, two, two_split, shared),) = subjects_on_two_sides(catalog, artifacts)
    assert (one.partition("/")[0], one_split, two, two_split) == (
        "tau",
        "train",
        f"tau2/{second['simulations'][0]['id']}",
        "test",
    )
    assert shared == "#q4410027, #q5582910, ada_byron_1815"


def test_one_user_task_without_its_name(catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path) -> None:
    """The planted AgentDojo case: two agents at the same user task, as plain chats that name none."""
    request = "Water every plant listed in plants.txt today."
    for number in range(40):
        run = chat(number, steps=2 + number % 3)
        run["messages"][1]["content"] = request
        run["messages"][2]["tool_calls"][0]["function"] = {"name": "read_file", "arguments": '{"path": "plants.txt"}'}
        write_json(tmp_path / "runs" / f"{number}.json", run)
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    found = subjects_on_two_sides(catalog, artifacts)
    assert {pair.shared for pair in found} == {
        'water every plant listed in plants txt today: read_file {"path": "plants.txt"}'
    }
    assert {frozenset((pair.first_split, pair.second_split)) for pair in found} >= {frozenset(("train", "test"))}


def test_the_sample_corpus_has_no_subject_on_two_sides(catalog: Catalog, artifacts: ArtifactStore) -> None:
    ingest(catalog, artifacts, str(samples.CORPUS), source="sandbox")
    assert subjects_on_two_sides(catalog, artifacts) == []


def test_the_public_runs_have_none_with_their_groups(catalog: Catalog, artifacts: ArtifactStore, database: str) -> None:
    folder = trajectories_folder()
    if folder is None or database != "sqlite":
        pytest.skip("the recorded runs are not on this machine, or were judged on the other database")
    ingest(catalog, artifacts, str(folder), admit=admit_named(load_task_names("public")))
    assert subjects_on_two_sides(catalog, artifacts) == []


def run_of(*messages: dict[str, Any], protocol: Any = "openai") -> Trajectory:
    return Trajectory("run", protocol, {"messages": list(messages)}, "test/1")


def test_an_identifier_is_asked_for_and_answered() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"id": "W-100200, 2024-05-17"}'}}
    answer = {"role": "tool", "tool_call_id": "1", "content": "W-100200 of 2024-05-17 costs 555666, shelf 12"}
    found = subject_of(run_of({"role": "assistant", "content": None, "tool_calls": [call]}, answer))
    assert found[:2] == (frozenset({"w-100200"}), "")
    assert found.start.startswith('find {"id": "W-100200, 2024-05-17"} ')


def test_anthropic_blocks_are_read_alike() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"id": ["W-100200"]}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "W-100200"}]}
    said = {"role": "user", "content": [{"type": "text", "text": "Find the parcel now"}]}
    run = run_of(
        said, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}, protocol="anthropic"
    )
    assert subject_of(run)[:2] == (frozenset({"w-100200"}), "find the parcel now: find W-100200")


def test_demonstrations_and_short_openings_name_no_task() -> None:
    demonstration = {"role": "user", "content": "word " * 40, "is_demo": True}
    assert subject_of(run_of(demonstration, {"role": "user", "content": "Hello there"})).opening == ""
    assert subject_of(run_of({"role": "user", "content": "word " * 12})).opening == ("word " * 12).strip()


def placed(name: str, split: str, *identifiers: str, group: str = "") -> PlacedRun:
    return PlacedRun(name, group or name, split, Subject(frozenset(identifiers), ""))


def test_shared_by_many_groups_is_not_rare_and_one_side_is_fine() -> None:
    common = ("a100", "b200", "c300")
    many = [placed(f"g{number}", ("train", "test")[number % 2], *common) for number in range(30)]
    assert shared_subjects(many) == []
    assert shared_subjects([placed("x", "train", *common), placed("y", "train", *common)]) == []
    assert len(shared_subjects([placed("x", "train", *common), placed("y", "test", *common)])) == 1
    more = tuple(f"d{number}00" for number in range(20))
    assert (
        shared_subjects([placed("x", "train", *common, *more), placed("y", "test", *common, "e1", "e2", "e3", "e4")])
        == []
    )
    assert [rare_below(groups) for groups in (2, 50, 100, 1_000)] == [2, 4, 5, 12]


def test_a_customer_of_four_groups_in_a_small_catalog() -> None:
    """Four of sixty groups are about one customer: their identifiers are rare, though not in a twentieth of them."""
    orders = ("a100", "b200", "c300")
    four = [placed(f"ada{number}", ("train", "test")[number % 2], *orders) for number in range(4)]
    others = [placed(f"g{number}", "train", f"x{number}00", f"y{number}00", f"z{number}00") for number in range(56)]
    assert len(shared_subjects([*four, *others])) == 4
    assert rare_below(len(four) + len(others)) == 4


def opened(name: str, split: str, start: str = "", opening: str = "do what task.md says") -> PlacedRun:
    return PlacedRun(name, name, split, Subject(frozenset(), opening, start))


def test_an_opening_of_many_groups_is_a_form() -> None:
    few = [opened(f"g{number}", ("train", "test")[number % 2], f"read {number}") for number in range(50)]
    assert [(pair.first, pair.second) for pair in shared_subjects(few)] == [("g0", "g1")]
    many = [*few, opened("g50", "train", "read 50")]
    assert shared_subjects(many) == []
    assert shared_subjects([*many, *(opened(f"h{number}", "test") for number in range(2))]) == []
    again = shared_subjects([*many, opened("h", "test", "read 2")])
    assert [(pair.first, pair.second, pair.shared) for pair in again] == [("g2", "h", "do what task.md says")]


def test_what_is_kept_of_subjects_finds_what_the_subjects_find() -> None:
    def run(number: int) -> Trajectory:
        (path, asked) = ("a.md", 7) if number in (0, 60) else (f"{number}.md", number)
        calls = [{"id": "c", "type": "function", "function": {"name": "read", "arguments": json.dumps({"path": path})}}]
        return Trajectory(
            external_id=str(number),
            request={
                "messages": [
                    {"role": "user", "content": "please do what the task in the file says and then report to me"},
                    {"role": "assistant", "content": None, "tool_calls": calls},
                    {"role": "tool", "tool_call_id": "c", "content": f"the file says {asked}"},
                    {"role": "assistant", "content": "Done."},
                ]
            },
            protocol="openai",
            reader="openai_chat/2",
        )

    runs = [run(number) for number in range(61)]
    splits = ["test" if number == 60 else "train" for number in range(61)]
    found = []
    for subjects in (
        [subject_of(one) for one in runs],
        [read_kept_subject(kept_subject(one.to_json())) for one in runs],
    ):
        placed = (PlacedRun(f"g{n}", f"g{n}", splits[n], subject) for n, subject in enumerate(subjects))
        found.append([(pair.first, pair.second) for pair in shared_subjects(placed)])
    assert found == [[("g0", "g60")]] * 2
