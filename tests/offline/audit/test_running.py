"""An audit from start to end: what an honest release gets, and that no check goes without a verdict."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from drsr.cli import main
from drsr.offline.audit import running
from drsr.offline.audit.checks import splits, weight_files
from drsr.offline.audit.report import page
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.location import read_found
from tests.offline.audit.forging import forge
from tests.offline.audit.published import ALL_BUT_RULES, WITHOUT_MODEL, PublishedPipeline, audited, failures


def test_an_untouched_release_passes(release: PublishedPipeline) -> None:
    audit = audited(release, ALL_BUT_RULES, sample=3)
    assert failures(audit) == {}
    assert audit.passed
    assert len(audit.verdicts) == len(audit.sections) == 15
    assert all(verdict.detail for verdict in audit.verdicts)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"links": []}, "its lineage cannot be read: it has no links"),
        ({"states": "0" * 64}, f"artifact {'0' * 64} is missing"),
        ({"states": None}, "it does not name the list of its states"),
    ],
)
def test_a_hostile_wheel_gets_a_verdict_of_every_check(
    release: PublishedPipeline, change: dict[str, Any], says: str
) -> None:
    lineage = orjson.loads(read_found(str(release.wheel)).others[LINEAGE_FILE]) | change
    forge(release, lineage=orjson.dumps(lineage))
    audit = audited(release)
    assert len(audit.verdicts) == len(WITHOUT_MODEL)
    assert says in failures(audit)["hash chain to the trajectories"]
    assert "banner failed" in page(audit)


def test_a_list_of_states_that_is_no_list(release: PublishedPipeline) -> None:
    for stored in (b"no JSON", b"{}", b"[1]", b"[]"):
        key = release.pipeline.artifacts.put(stored)
        lineage = orjson.loads(read_found(str(release.wheel)).others[LINEAGE_FILE]) | {"states": key}
        forge(release, lineage=orjson.dumps(lineage))
        assert f"artifact {key} is not a list of states" in failures(audited(release, [splits.CHECK]))["splits hold"]


def test_whatever_a_check_stumbles_over_is_a_failure_that_names_it(release: PublishedPipeline) -> None:
    def stumble(subject: Subject, told: Told) -> list[Verdict]:
        raise KeyError("words of a recorded run")

    def say_nothing(subject: Subject, told: Told) -> list[Verdict]:
        return []

    broken = Check("broken", Severity.MAJOR, "Does it break?", "It does.", stumble)
    silent = Check("silent", Severity.MAJOR, "Does it speak?", "It does not.", say_nothing)
    audit = audited(release, [broken, silent, weight_files.CHECK])
    assert failures(audit) == {
        "broken": "could not be checked: KeyError in stumble",
        "silent": "came to no verdict",
    }
    assert "words of a recorded run" in audit.sections[0].trace
    assert "words of a recorded run" not in page(audit) + str(audit.to_json())


def test_the_command_shows_the_place_to_whoever_debugs(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stumble(subject: Subject, told: Told) -> list[Verdict]:
        raise IndexError("planted")

    for name, value in release.pipeline.settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(running, "CHECKS", (Check("broken", Severity.MAJOR, "", "", stumble),))
    assert main(["audit"]) == 1
    assert "planted" not in capsys.readouterr().err
    assert main(["audit", "--debug"]) == 1
    assert "IndexError: planted" in capsys.readouterr().err
