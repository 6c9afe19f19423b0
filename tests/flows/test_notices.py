"""A night that fails tells its hook and its dashboard; its stages emit OpenLineage events. On a real Prefect server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drsr.errors import NothingThere
from drsr.flows.nightly import nightly
from drsr.flows.parameters import Location
from tests.offline.notices.listener import listening

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_night_that_fails_tells_the_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path}/catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    monkeypatch.setenv("DRSR_LINEAGE", str(tmp_path / "lineage.jsonl"))
    with listening() as listener:
        monkeypatch.setenv("DRSR_ON_FAILURE", listener.url)
        with pytest.raises(NothingThere):
            nightly(locations=[Location(uri=str(tmp_path / "nowhere"))], docs=str(tmp_path / "docs"))
    assert "failed in ingest: " in (tmp_path / "docs" / "dashboard.html").read_text(), "and not the page of before"
    (told,) = listener.heard
    assert told["what"].startswith("nightly ")
    assert told["stage"] == "ingest"
    assert "nothing is there" in told["reason"]
    assert told["what_to_do"]
    events = [json.loads(line) for line in (tmp_path / "lineage.jsonl").read_text().splitlines()]
    assert [(event["job"]["name"], event["eventType"]) for event in events] == [("ingest", "START"), ("ingest", "FAIL")]
    assert events[0]["inputs"] == [{"namespace": "file", "name": f"{tmp_path}/nowhere"}]
