"""Trees: the branch of the last node."""

from __future__ import annotations

import copy

from tests.offline.ingest.formats.files import as_json, history, one, only_problem, read_bytes, read_value, shape
from tests.offline.ingest.formats.miniatures import MOATLESS


def test_the_branch_of_the_last_node_that_asked_the_model() -> None:
    trajectory = one(read_value(MOATLESS))
    assert shape(trajectory) == ["user", "assistant+1", "user=1", "assistant+1"]
    assert trajectory.request["system"] == "You search code."
    assert trajectory.task == "bikes__wheel-14"
    assert [step.complete for step in history(trajectory).steps] == [True, False]


def test_the_folder_names_the_instance_where_the_content_does_not() -> None:
    value = {**MOATLESS, "metadata": {}}
    assert one(read_bytes(as_json(value), "bikes__wheel-9/trajectory.json")).task == "bikes__wheel-9"


def test_the_older_form_with_nested_children() -> None:
    nodes = {node["node_id"]: copy.deepcopy(node) for node in MOATLESS["nodes"]}
    nodes[2]["children"] = [nodes[3]]
    nodes[0]["children"] = [nodes[1], nodes[2]]
    assert one(read_value({"agent": MOATLESS["agent"], "root": nodes[0]})).request == one(read_value(MOATLESS)).request


def test_a_tree_without_requests() -> None:
    value = {"agent": {}, "nodes": [{"node_id": 0, "parent_id": 0}]}
    assert only_problem(read_value(value)).reason == "no_assistant_message"
