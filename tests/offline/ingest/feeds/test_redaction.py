"""What must not be stored is replaced before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.cli import main
from drsr.errors import SettingsError
from drsr.offline.catalog.engine import Catalog
from drsr.offline.erase import holding
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.redaction import load_redaction
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
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
    ["[", "", "rules = ['phone']", "[patterns]\na = '('", "[patterns]\na = 'x*'", "[patterns]\na = 1", "other = 1"],
)
def test_a_rule_that_cannot_be_used_is_an_error_before_anything_is_read(tmp_path: Path, text: str) -> None:
    path = write_text(tmp_path / "redact.toml", text)
    with pytest.raises(SettingsError):
        load_redaction(path)
    assert main(["ingest", str(tmp_path / "nowhere"), "--redact", str(path)]) == 2
