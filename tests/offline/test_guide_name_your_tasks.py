"""The guide keeps its word: the commands and the table of docs/guides/name-your-tasks.md, in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from drsr.cli import main
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.ingest.corpus.task_names import load_task_names
from tests.offline.chat_files import write_json, write_text

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "name-your-tasks.md").read_text()
COMMAND = re.compile(r"```console\n\$ (.*)\n((?:.*\n)*?)```")
TABLE = re.findall(r"```csv\n(.*?)```", GUIDE, re.DOTALL)


def run(name: str, request: str, result: str) -> dict[str, Any]:
    function = {"name": "get_order", "arguments": '{"id": "4410027"}'}
    messages = [
        {"role": "user", "content": request},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": result},
        {"role": "assistant", "content": "Refunded."},
    ]
    return {"id": name, "messages": messages}


def test_the_guide_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_CATALOG_URL", "sqlite:///catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", "artifacts")
    lost = "order 4410027 of customer ada_1815: lost"
    desk = run("desk-1", "Order 4410027 never arrived. Please refund it.", lost) | {"task_id": 17}
    write_json(tmp_path / "runs" / "desk.json", desk)
    write_json(tmp_path / "runs" / "shop.json", run("shop-1", "Where is my parcel?", lost))
    (table,) = TABLE
    write_text(tmp_path / "corpora" / "mine" / "tasks.csv", table)
    commands = COMMAND.findall(GUIDE)
    assert len(commands) == 2
    for command, shown in commands:
        words = shlex.split(command)
        while "=" in words[0]:
            monkeypatch.setenv(*words.pop(0).split("=", 1))
        assert main(words[1:]) == 0
        said = capsys.readouterr().out.splitlines()
        expected = shown.splitlines()
        assert said[0].startswith(expected[0].removesuffix(" ..."))
        assert said[1:] == expected[1:]
    with open_catalog("sqlite:///named.sqlite") as catalog, catalog.reading() as connection:
        found = connection.exec_driver_sql("SELECT task, group_key FROM trajectory ORDER BY external_id").all()
    assert [tuple(row) for row in found] == [
        ("desk/17", "task:customer/ada"),
        ("shop/late-parcel", "task:customer/ada"),
    ]


def test_the_public_table_is_as_long_as_it_says() -> None:
    assert f"a table of {len(load_task_names('public'))} rows" in GUIDE
