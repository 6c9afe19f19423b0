from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import ManifestError
from drsr.offline.bench.harness.bundled_manifests import KNOWN, bundled_manifest, find_manifest
from drsr.offline.bench.harness.manifest import Manifest, make_manifest
from drsr.offline.evaluate.eval40 import EVAL40
from drsr.offline.sandbox.corpus import SEED, corpus_tasks

GOOD: dict[str, Any] = {
    "format": "drsr tasks/1",
    "name": "mine",
    "suite": "sandbox",
    "weighting": "tasks",
    "counts": {"code": 1, "web": 1},
    "tasks": [{"id": "code/crash/640-000", "domain": "code"}, {"id": "web/order/640-000", "domain": "web"}],
}


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_file_and_back(tmp_path: Path) -> None:
    manifest = find_manifest(written(tmp_path, "mine.json", json.dumps(GOOD)))
    assert (manifest.name, manifest.suite, manifest.weighting) == ("mine", "sandbox", "tasks")
    assert {task.id: task.domain for task in manifest.tasks} == {
        "code/crash/640-000": "code",
        "web/order/640-000": "web",
    }
    assert manifest.to_json() == GOOD
    assert make_manifest(manifest.to_json(), KNOWN, where="again").identity == manifest.identity


def test_what_is_in_it_changes_its_identity() -> None:
    swapped = {**GOOD, "tasks": GOOD["tasks"][::-1]}
    renamed = {**GOOD, "name": "other"}
    identities = {make_manifest(value, KNOWN, where="x").identity for value in (GOOD, swapped, renamed)}
    assert len(identities) == 3


def test_the_sandbox_has_ten_tasks_of_each_domain_and_none_of_the_corpus() -> None:
    manifest = bundled_manifest("sandbox")
    assert manifest.counts == {"code": 10, "office": 10, "security": 10, "web": 10}
    assert all(f"/{SEED}-" not in task.id for task in manifest.tasks)
    assert not {task.id for task in manifest.tasks} & {task.identity for task in corpus_tasks()}


def test_eval40_is_the_papers_list() -> None:
    manifest = bundled_manifest("eval40")
    assert [(task.domain, task.id) for task in manifest.tasks] == [(one.domain, one.task) for one in EVAL40]
    assert (manifest.suite, manifest.weighting) == ("workbuddybench", "domains")


def test_nobody_published_the_ids_of_full260() -> None:
    with pytest.raises(
        ManifestError, match="names no task; it claims 80 code, 50 office, 60 security, 70 web"
    ) as found:
        find_manifest("full260")
    assert "template" in str(found.value.hint)


def full260() -> str:
    counts = {"code": 80, "office": 50, "security": 60, "web": 70}
    rows = [f"{domain}-{n},{domain}" for domain, number in counts.items() for n in range(number)]
    return "\n".join(["task,domain", *rows]) + "\n"


def test_whoever_has_the_ids_hands_them_in(tmp_path: Path) -> None:
    manifest = find_manifest(written(tmp_path, "full260.csv", full260()))
    assert isinstance(manifest, Manifest)
    assert (len(manifest.tasks), manifest.suite, manifest.weighting) == (260, "workbuddybench", "tasks")
    one_less = full260().rsplit("\n", 2)[0]
    with pytest.raises(ManifestError, match="claims .*70 web and has .*69 web"):
        find_manifest(written(tmp_path, "full260.csv", one_less))


def test_a_list_is_not_called_eval40_that_is_none(tmp_path: Path) -> None:
    rows = [f"{one.task},{one.domain}" for one in EVAL40]
    assert find_manifest(written(tmp_path, "eval40.csv", "\n".join(["task,domain", *rows]))).name == "eval40"
    rows[0] = "another-task,code"
    with pytest.raises(ManifestError, match="called eval40 and names 1 other tasks: another-task"):
        find_manifest(written(tmp_path, "eval40.csv", "\n".join(["task,domain", *rows])))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": "drsr tasks/9"}, "is not a list of tasks"),
        ({"notes": "mine"}, "fields missing or unknown: notes"),
        ({"name": ""}, "`name` is ''"),
        ({"suite": 3}, "`suite` is 3"),
        ({"weighting": "money"}, "`weighting` is 'money'"),
        ({"counts": {"code": 1}}, "claims 1 code and has 1 code, 1 web"),
        ({"counts": {"code": True, "web": 1}}, "`counts` is"),
        ({"counts": {}}, "`counts` is"),
        ({"tasks": []}, "names no task"),
        ({"tasks": "code/crash/640-000"}, "`tasks` is not a list"),
        ({"tasks": [{"id": "a"}]}, "task 0 is"),
        ({"tasks": [{"id": " ", "domain": "code"}]}, "task 0 is"),
        ({"counts": {"code": 2}, "tasks": [GOOD["tasks"][0]] * 2}, "'code/crash/640-000' is in it more than once"),
        ({"name": "full260"}, "is called full260, whose suite is workbuddybench"),
    ],
)
def test_a_bad_list_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        make_manifest({**GOOD, **change}, KNOWN, where="x")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("mine.json", "{", "is not JSON"),
        ("mine.json", "[]", "is not a list of tasks"),
        ("mine.csv", "task,domain\n", "nothing is known of a list called 'mine'"),
        ("full260.csv", "id,domain\na,code\n", "columns id, domain"),
        ("full260.csv", "task,domain\n", "names no task"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        find_manifest(written(tmp_path, name, text))


def test_no_such_list() -> None:
    with pytest.raises(ManifestError, match="there is no such list") as found:
        find_manifest("full261")
    assert "sandbox, eval40, full260" in str(found.value.hint)
