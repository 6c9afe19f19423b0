"""What must not be stored is replaced before anything is."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from drsr.cli import main
from drsr.errors import SettingsError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.tables import QuarantinedItem, Source
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.erase import erase, find_runs, holding
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.redaction import BUILT_IN, Redaction, load_redaction
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.place import opened
from tests.offline.chat_files import chat, write_json, write_text

RULES = "rules = ['email', 'key', 'card']\n[patterns]\ncustomer = 'C-\\d{4}'\n"
SECRETS = ("ann@bikes.example", "sk-abcdefghijklmnop1234", "4111 1111 1111 1111", "C-0815")


def test_nothing_of_it_is_stored_and_every_rule_is_counted(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    run = chat(1)
    run["messages"][1]["content"] = " and ".join(SECRETS)
    run["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"to": "ann@bikes.example"}'
    write_json(tmp_path / "runs" / "a.json", run)
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    summary = ingest(catalog, artifacts, str(tmp_path / "runs"), redact=redaction)
    assert summary.redacted == {"email": 2, "key": 1, "card": 1, "customer": 1}
    assert holding(artifacts, SECRETS) == []
    again = load_redaction(tmp_path / "redact.toml")
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), redact=again).unchanged_files == 1
    fewer = load_redaction(write_text(tmp_path / "fewer.toml", "rules = ['email', 'key', 'card']"))
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), redact=fewer).unchanged_files == 0


def test_placeholders_are_stable_and_numbers_that_are_no_card_stay(tmp_path: Path) -> None:
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    assert redaction.text("ann@bikes.example, 4111 1111 1111 1112") == "[email-2c6ad725], 4111 1111 1111 1112"
    assert redaction.text("ann@bikes.example") == redaction.text("ann@bikes.example")


@pytest.mark.parametrize(
    "text",
    [
        *("[", "", "other = 1", "rules = ['phone']", "rules = [['email']]"),
        *(f"[patterns]\n{own}" for own in ("a = '('", "a = 'x*'", "a = 1", "a = 'x{99999999999}'", "card = 'x'")),
    ],
)
def test_a_rule_that_cannot_be_used_is_an_error_before_anything_is_read(tmp_path: Path, text: str) -> None:
    path = write_text(tmp_path / "redact.toml", text)
    with pytest.raises(SettingsError):
        load_redaction(path)
    assert main(["ingest", str(tmp_path / "nowhere"), "--redact", str(path)]) == 2


ESCAPED = {
    "an escaped sign": ('{"to": "ann\\u0040bikes.example"}', '{"to": "[email-2c6ad725]"}'),
    "an escaped letter": ('{"to": "\\u0061nn@bikes.example"}', '{"to": "[email-2c6ad725]"}'),
    "the end of a line before it": ('{"text": "to:\\nann@bikes.example"}', '{"text": "to:\\n[email-2c6ad725]"}'),
    "a key after the end of a line": ('{"env": "A=1\\nsk-abcdefghijklmnop1234"}', '{"env": "A=1\\n[key-6c2b82b5]"}'),
    "a card with escaped spaces": ('{"n": "4111\\u00201111\\u00201111\\u00201111"}', '{"n": "[card-6a7e0e79]"}'),
    "JSON in JSON": (
        '{"a": "{\\"to\\": \\"\\\\u0061nn@bikes.example\\"}"}',
        '{"a": "{\\"to\\": \\"[email-2c6ad725]\\"}"}',
    ),
    "a number": ('{"card": 4111111111111111, "n": 1}', '{"card": "[card-9bbef194]", "n": 1}'),
    "no JSON at all": ("C:\\temp\\ann@bikes.example 50 % \\u", "C:\\temp\\[email-2c6ad725] 50 % \\u"),
}


@pytest.mark.parametrize(("text", "expected"), ESCAPED.values(), ids=ESCAPED)
def test_what_escapes_stand_for_is_looked_at(text: str, expected: str, tmp_path: Path) -> None:
    """Placeholders are the same as of the plain text, and JSON stays JSON."""
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    assert redaction.text(text) == expected
    assert redaction.counts.total() == 1
    if text.startswith("{"):
        json.loads(expected)


@given(
    st.recursive(st.text(alphabet='ab"\\\né@ ') | st.integers(-9, 9), lambda inner: st.dictionaries(st.text(), inner))
)
@settings(max_examples=30)
def test_json_without_anything_to_replace_stays_as_it_is(value: Any) -> None:
    text = json.dumps(json.dumps(value))
    assert Redaction(BUILT_IN).text(text) == text


def test_a_time_in_milliseconds_is_no_card() -> None:
    """One in ten has the checksum of one, and many runs are named by it. No card begins with 1."""
    assert Redaction(BUILT_IN).text("1025429379833 4111 1111 1111 1111") == "1025429379833 [card-6a7e0e79]"


def test_addresses_of_other_alphabets(tmp_path: Path) -> None:
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    assert redaction.text("to jürgen@bücher.example.") == "to [email-2e1df3d0]."


def test_input_of_tools_has_no_names_of_its_own(tmp_path: Path) -> None:
    """Whatever its fields are called; ids of calls, roles and names of tools are left, or nothing would fit."""
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    mail = "ann@bikes.example"
    call = {
        "type": "tool_use",
        "id": "C-0815",
        "name": "C-0815",
        "input": {"name": mail, "id": 4111111111111111, mail: True},
    }
    messages = [{"role": "user", "name": mail, "content": mail}, {"role": "assistant", "content": [call]}]
    run = redaction(Trajectory("C-0815", "anthropic", {"messages": messages}, "test/1", mail, mail))
    assert (run.external_id, run.task, run.domain) == ("[customer-42fcabda]", "[email-2c6ad725]", "[email-2c6ad725]")
    said, called = run.request["messages"]
    assert said == {"role": "user", "name": "[email-2c6ad725]", "content": "[email-2c6ad725]"}
    found = {"name": "[email-2c6ad725]", "id": "[card-9bbef194]", "[email-2c6ad725]": True}
    assert called["content"] == [call | {"input": found}]


def test_a_pattern_that_does_not_come_to_an_end_is_named(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drsr.offline.ingest.feeds.redaction.SECONDS", 0.05)
    run = chat(1)
    run["messages"][1]["content"] = "a" * 60 + "!"
    write_json(tmp_path / "runs" / "a.json", run)
    redaction = load_redaction(write_text(tmp_path / "redact.toml", "[patterns]\nslow = '(a+)+$'"))
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(SettingsError, match="'slow' does not come to an end"):
        ingest(catalog, artifacts, str(tmp_path / "runs"), redact=redaction)
    assert signal.getsignal(signal.SIGVTALRM) is before


def test_what_is_said_about_a_file_that_cannot_be_read_quotes_no_secret(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_json(tmp_path / "runs" / "a.json", {SECRETS[0]: 1, "messages": 5})
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    ingest(catalog, artifacts, str(tmp_path / "runs"), redact=redaction)
    with catalog.reading() as connection:
        (detail,) = connection.execute(select(QuarantinedItem.detail)).scalars()
    assert "an object with the keys [email-2c6ad725], messages" in detail


def test_rules_of_a_source_hold_for_whoever_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for a night, and for somebody who forgets the option: read without rules, a run would be stored in full."""
    monkeypatch.chdir(tmp_path)
    for name in ("DRSR_CATALOG_URL", "DRSR_ARTIFACT_ROOT"):
        monkeypatch.delenv(name, raising=False)
    run = chat(1)
    run["messages"][1]["content"] = " and ".join(SECRETS)
    for source in ("agents", "public"):
        write_json(tmp_path / "runs" / source / "a.json", run)
    write_text(tmp_path / "redact.toml", RULES)
    write_text(tmp_path / "feeds.toml", "[agents]\nredact = 'redact.toml'")
    assert main(["ingest", "runs"]) == 0
    with opened() as place, place.catalog.reading() as connection:
        texts = {
            source: place.artifacts.get(blob)
            for source, blob in connection.execute(
                select(Source.name, TrajectoryRow.blob).join(Source, Source.id == TrajectoryRow.source_id)
            )
        }
    assert {source: SECRETS[0].encode() in text for source, text in texts.items()} == {"agents": False, "public": True}
    assert capsys.readouterr().err == ""
    write_text(tmp_path / "feeds.toml", "[agent]\nredact = 'redact.toml'")
    assert main(["ingest", "runs"]) == 0
    assert "feeds.toml: [agent]: nothing was ever read of a source of that name" in capsys.readouterr().err
    write_text(tmp_path / "redact.toml", "[patterns]\na = '('")
    assert main(["ingest", "runs"]) == 2


def test_an_erased_run_does_not_come_back_under_a_redacted_name(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    write_json(tmp_path / "runs" / f"{SECRETS[3]}.json", chat(1))
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    with catalog.reading() as connection:
        names = find_runs(connection, source="runs")
    assert SECRETS[3] in names[0]
    erase(catalog, artifacts, names, "asked for")
    redaction = load_redaction(write_text(tmp_path / "redact.toml", RULES))
    assert ingest(catalog, artifacts, str(tmp_path / "runs"), redact=redaction).added == 0
