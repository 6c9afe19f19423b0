"""Readers of other packages: what they do wrong costs a file, never the ingest. The guide's test has a real one."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from drsr.errors import InputError, SourceUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest import stage
from drsr.offline.ingest.formats import plug_ins, read, reader_named
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, write_json
from tests.offline.ingest.formats.files import Items, as_json, as_lines, memory_file, read_value
from tests.offline.ingest.formats.miniatures import CHAT

Brought = Callable[..., None]
SESSION = {"made_by": "acme", "said": ["Hello", "Good day"]}
SOUND = """
from drsr.offline.ingest.formats import *
def recognises(value): return isinstance(value, dict) and value["made_by"] == "acme"
def messages(value):
    asked, answered = value["said"]
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
def one(value, record, file): return Run(record.place, "openai", {"messages": messages(value)})
READER = Reader("acme", 1, "Acme", recognises, each(one))
"""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brought]:
    """Bring a reader `acme` as the module of an installed package does."""

    def bring(code: str, *more: EntryPoint, name: str = "acme") -> None:
        (tmp_path / "acme_drsr.py").write_text(code)
        sys.modules.pop("acme_drsr", None)
        found = [EntryPoint(name, "acme_drsr:READER", "drsr.formats"), *more]
        monkeypatch.setattr(plug_ins, "plug_in_entries", lambda: found)
        plug_ins.plug_ins.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield bring
    plug_ins.plug_ins.cache_clear()
    sys.modules.pop("acme_drsr", None)


class _Breaking(io.RawIOBase):
    """A network that goes in the middle of a file."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._at > len(self._data) // 2:
            raise OSError(110, "timed out")
        piece = self._data[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def only_failure(items: Items) -> str:
    (problem,) = items
    assert isinstance(problem, Quarantined), items
    assert problem.reason == "reader_failed"
    assert "acme of the package" in problem.detail
    return problem.detail


def test_a_reader_of_another_package_reads_what_nobody_else_knows(brought: Brought) -> None:
    assert isinstance(read_value(SESSION)[0], Quarantined)
    brought(SOUND)
    (run,) = read_value(SESSION)
    assert isinstance(run, Trajectory)
    assert (run.reader, run.request["messages"][1]["content"]) == ("acme/1", "Good day")
    assert reader_named("acme").package == "of no name"


@pytest.mark.parametrize(
    ("sound", "wrong", "said"),
    [
        ('value["said"]', "__import__('os').abort_if_you_can()", "AttributeError"),
        ("def one(value, record, file): return", "def one(value, record, file): raise OSError(5); return", "OSError"),
        ("READER = ", "1 / 0; READER = ", "cannot be loaded: ZeroDivisionError"),
        ("READER = ", "import no_such_thing; READER = ", "cannot be loaded: ModuleNotFoundError"),
        ('READER = Reader("acme", 1', 'READER = Reader("other", 1', "it calls itself 'other'"),
        ("READER = Reader(", "READER = dict; Reader(", "is no Reader"),
        ("each(one))", 'each(one), grouping="stream")', "its grouping one of each, session"),
        ("each(one))", "each)", "TypeError"),
        ('value["made_by"] == "acme"', "1 / 0", "failed on it (ZeroDivisionError"),
    ],
)
def test_what_a_reader_does_wrong_costs_the_file_it_was_shown(
    brought: Brought, sound: str, wrong: str, said: str
) -> None:
    assert sound in SOUND
    brought(SOUND.replace(sound, wrong))
    assert said in only_failure(list(read(memory_file(as_json(SESSION)))))
    good = list(read(memory_file(as_lines([{"messages": CHAT}] * 2))))
    assert [isinstance(item, Trajectory) for item in good] == [True, True]


@pytest.mark.parametrize(
    ("sound", "wrong", "said"),
    [
        ("return Run(", "return dict(messages=(", "should be a Run"),
        ('"role": "assistant"', '"role": "alien"', "role should be"),
        ('"content": answered', '"content": 7', "content of a assistant message"),
        ('"openai", {', '"telepathy", {', "protocol should be openai or anthropic"),
        ('{"messages": messages(value)}', '{"messages": "none"}', "messages should be a list"),
    ],
)
def test_what_a_reader_hands_out_is_checked(brought: Brought, sound: str, wrong: str, said: str) -> None:
    code = SOUND.replace(sound, wrong)
    brought(code.replace("(value)})\n", "(value)}))\n") if "dict(" in wrong else code)
    (problem,) = read_value(SESSION)
    assert isinstance(problem, Quarantined)
    assert (problem.reason, said in problem.detail) == ("malformed", True), problem


def test_a_name_that_is_taken(brought: Brought) -> None:
    brought(SOUND.replace('Reader("acme"', 'Reader("codex"'), name="codex")
    (problem,) = read_value(SESSION)
    assert isinstance(problem, Quarantined)
    assert "drsr has a reader of this name" in problem.detail
    brought(SOUND, EntryPoint("acme", "acme_drsr:READER", "drsr.formats"))
    assert "several installed packages" in only_failure(read_value(SESSION))


def test_storage_that_fails_is_not_the_readers_fault(brought: Brought) -> None:
    """A session reader may be asking for its next record when the network goes."""
    session = "def all_of(records, file): yield one([r.value for r in records][0], next(records, None), file)\n"
    code = SOUND.replace("READER = ", session + "READER = ").replace("each(one))", 'all_of, grouping="session")')
    brought(code)
    data = as_lines([SESSION] * 100_000)
    file = replace(memory_file(data), opener=lambda: io.BufferedReader(_Breaking(data)))
    with pytest.raises(SourceUnreachable, match="timed out"):
        list(read(file))


def test_files_are_read_again_once_a_reader_is_mended(
    brought: Brought, catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)
    brought("import no_such_thing")
    write_json(tmp_path / "calls" / "a.json", SESSION)
    write_json(tmp_path / "calls" / "b.json", chat(1))
    first = ingest(catalog, artifacts, str(tmp_path / "calls"))
    assert (first.added, first.quarantined) == (1, {"reader_failed": 1})
    assert ingest(catalog, artifacts, str(tmp_path / "calls")).unchanged_files == 2
    with pytest.raises(InputError, match="no reader is called 'acne'"):
        ingest(catalog, artifacts, str(tmp_path / "calls"), reader="acne")
    brought(SOUND)
    second = ingest(catalog, artifacts, str(tmp_path / "calls"))
    assert (second.unchanged_files, second.added, second.unchanged, second.quarantined) == (0, 1, 1, {})
