"""OpenLineage events, checked against the part of the public specification (2-0-2) that they use."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from drsr.cli import main
from drsr.errors import InputError
from drsr.flows.stage_tasks import in_time
from drsr.offline.notices.lineage import emitting
from drsr.offline.stages import STAGES
from tests.offline.chat_files import chat, write_json
from tests.offline.notices.listener import listening

URI = {"type": "string", "format": "uri", "pattern": "^[a-z][a-z0-9+.-]*:"}
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": URI, "_schemaURL": URI},
    },
}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}, "facets": FACETS},
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": URI,
        "schemaURL": URI,
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {
                "runId": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
                "facets": {
                    **FACETS,
                    "properties": {"errorMessage": {"required": ["message", "programmingLanguage"]}},
                },
            },
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {
                "namespace": {"type": "string"},
                "name": {"type": "string"},
                "facets": {
                    **FACETS,
                    "properties": {
                        "jobType": {"required": ["processingType", "integration"]},
                        "documentation": {"required": ["description"]},
                    },
                },
            },
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}
"""Written here from the specification's text: what it requires of an event, and of the facets in ours."""


def check(event: dict[str, Any]) -> None:
    jsonschema.validate(event, RUN_EVENT)
    assert datetime.datetime.fromisoformat(event["eventTime"]).tzinfo is not None


def names(datasets: list[dict[str, str]]) -> list[str]:
    return [dataset["name"] for dataset in datasets]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_CATALOG_URL", "postgresql://me:hunter2@db/runs")
    monkeypatch.setenv("DRSR_LINEAGE", str(tmp_path / "var" / "lineage.jsonl"))
    return tmp_path / "var" / "lineage.jsonl"


def emitted(file: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in file.read_text().splitlines()]
    for event in events:
        check(event)
    return events


def test_the_check_can_fail() -> None:
    with pytest.raises(jsonschema.ValidationError):
        check({"eventType": "BEGIN"})


def test_the_published_classes_take_every_event(file: Path) -> None:
    """Those that OpenLineage generates from its schema; `make schemas` installs them."""
    published = pytest.importorskip("openlineage.client.event_v2", reason="no openlineage-python here: make schemas")
    of = pytest.importorskip("openlineage.client.facet_v2")
    facets = {
        "jobType": of.job_type_job.JobTypeJobFacet,
        "documentation": of.documentation_job.DocumentationJobFacet,
        "errorMessage": of.error_message_run.ErrorMessageRunFacet,
    }

    def taken(owner: type, said: dict[str, Any]) -> Any:
        """Its class made of what we say; a name that it does not know is an error."""
        made = {
            name: facets[name](**{key: value for key, value in facet.items() if not key.startswith("_")})
            for name, facet in said.get("facets", {}).items()
        }
        for name, facet in said.get("facets", {}).items():
            assert facet["_schemaURL"].rpartition("/")[2] == made[name]._get_schema().rpartition("/")[2]
        return owner(**{**said, "facets": made})

    with pytest.raises(InputError), emitting("label", []):
        raise InputError("no room")
    for event in emitted(file):
        inputs = [taken(published.InputDataset, one) for one in event["inputs"]]
        outputs = [taken(published.OutputDataset, one) for one in event["outputs"]]
        mine = {"run": taken(published.Run, event["run"]), "job": taken(published.Job, event["job"])}
        again = published.RunEvent(
            eventType=published.RunState(event["eventType"]),
            eventTime=event["eventTime"],
            producer=event["producer"],
            inputs=inputs,
            outputs=outputs,
            **mine,
        )
        assert again.schemaURL == event["schemaURL"]


def test_every_stage_has_a_start_and_an_end(file: Path) -> None:
    for stage in STAGES:
        with emitting(stage.name, ["s3://bucket/runs?key=hunter2", "runs"] if stage.name == "ingest" else []):
            pass
    events = emitted(file)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * len(STAGES)
    assert len({event["run"]["runId"] for event in events}) == len(STAGES)
    made = ["trajectories", "states", "labels", "features", "scorer", "calibration", "evaluation", "policy"]
    assert [name for event in events[::2] for name in names(event["outputs"])] == made
    first, label = events[1], events[4]
    assert first["inputs"] == [
        {"namespace": "s3://bucket", "name": "runs"},
        {"namespace": "file", "name": str(file.parents[1] / "runs")},
    ]
    assert label["inputs"] == [{"namespace": "postgresql://me:***@db/runs", "name": "states"}]
    assert "hunter2" not in file.read_text()


def test_what_fails_is_a_fail_and_is_raised(file: Path) -> None:
    def refuse() -> None:
        raise InputError("no room at s3://me:hunter2@host/x", where="disk")

    with pytest.raises(InputError, match="no room"):
        in_time("freeze", refuse)
    start, end = emitted(file)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["run"]["facets"]["errorMessage"]["message"] == "no room at s3://host/x"


def test_commands_emit_to_a_server(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(file.parents[1] / "runs" / "a.json", chat(1, steps=8))
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{file.parents[1]}/catalog.sqlite")
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    with listening() as listener:
        monkeypatch.setenv("DRSR_LINEAGE", f"{listener.url}/api/v1/lineage")
        assert main(["ingest", "runs"]) == 0
        assert main(["ingest", "nowhere"]) == 2
    for event in listener.heard:
        check(event)
    told = [(event["job"]["name"], event["eventType"]) for event in listener.heard]
    assert told == [("ingest", "START"), ("ingest", "COMPLETE"), ("ingest", "START"), ("ingest", "FAIL")]


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/hunter2", "/proc/nowhere/lineage.jsonl"])
def test_an_event_that_does_not_arrive_stops_nothing(
    target: str, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRSR_LINEAGE", target)
    with emitting("label") as ending:
        ending.failed = None
    printed = capsys.readouterr().err
    assert printed.count("an OpenLineage event was not delivered") == 2
    assert "hunter2" not in printed


def test_without_the_setting_nothing_is_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRSR_LINEAGE")
    with emitting("label"):
        pass
    assert not file.exists()
