"""Large documents and large runs take other ways, to the same runs and the same bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import Trajectory as TrajectoryRow
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds import neighbours
from drsr.offline.ingest.feeds.neighbours import sketch_of
from drsr.offline.ingest.formats import array_stream, records
from drsr.offline.ingest.formats.formats import READERS
from drsr.offline.ingest.formats.reading import _opened, _unique
from drsr.offline.ingest.near_duplicates import shingles, text_of
from drsr.offline.ingest.stage import ingest
from drsr.offline.ingest.trajectories import Quarantined, Trajectory
from drsr.offline.store.artifacts import Artifact, ArtifactStore
from drsr.offline.store.source_files import Limits
from tests.offline.chat_files import chat, write_corpus
from tests.offline.ingest.formats.files import Items, as_json, as_lines, memory_file, read_bytes
from tests.offline.ingest.formats.miniatures import MINIATURES
from tests.offline.logical_content import content_hash_of_catalog

TEXT = st.text(max_size=6)
VALUE = st.recursive(
    st.none() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.dictionaries(TEXT, VALUE, max_size=4)
REQUEST = st.fixed_dictionaries({"messages": st.lists(MESSAGE, max_size=3)}, optional={"tools": VALUE, "system": VALUE})

NOTHING: Items = [Quarantined("mem/source/runs.json", "empty", "the file holds no runs")]


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_WHOLE", 64)
    monkeypatch.setattr(array_stream, "_CHUNK", 50)
    monkeypatch.setattr(stage, "LARGE_RUN", 0)


def at_once(data: bytes) -> Items:
    """As a file is read in which nobody has looked for one large document."""
    names: dict[str, int] = {}
    found = _opened(memory_file(data), READERS, Limits(), packed=False, is_document=False)
    return [item if isinstance(item, Quarantined) else _unique(item, names) for item in found]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", MINIATURES)
def test_every_format_reads_the_same_from_a_large_document(everything_is_large: None, name: str, indent: int) -> None:
    for record in MINIATURES[name].records:
        data = json.dumps(record, indent=indent).encode()
        assert read_bytes(data) == (at_once(data) or NOTHING)


@pytest.mark.parametrize(
    "data",
    [
        as_lines([chat(1), chat(2)]),
        as_json(chat(1))[:-9],
        as_json(chat(1)) + b"\n" + as_json(chat(2))[:90],
        json.dumps(chat(1), indent=2).encode() * 2,
        b'{"messages": [\n' + as_lines([chat(1)]),
        as_json(chat(1)).replace(b"Done.", b"\xff"),
        as_json(chat(1)).replace(b"Done.", b"\\ud800"),
        b"\n" * 100 + as_json(chat(1)),
        b"{}" + b" " * 200,
        b'{"a": ' * 100,
        as_json(chat(1)) + b" trailing",
        as_json({"x": 1}) + b"\n" + as_json({"y": "z" * 100}),
    ],
)
def test_what_is_not_one_document_is_read_as_ever(everything_is_large: None, data: bytes) -> None:
    found = read_bytes(data)
    assert found == (at_once(data) or NOTHING)


@given(REQUEST, st.none() | TEXT, st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_the_pieces_are_the_bytes(request: dict[str, Any], task: str | None, reward: float | None) -> None:
    run = Trajectory("source/run", "openai", request, "reader/1", task=task, domain=task, reward=reward)
    assert b"".join(run.json_pieces()) == run.to_json()
    assert Artifact.in_pieces(run.json_pieces).sha256 == run.content_hash


@pytest.mark.parametrize("where", ["messages", "tools"])
def test_what_is_too_deep_is_so_in_pieces_too(where: str) -> None:
    """To the level at which the whole is refused."""
    taken = []
    for depth in range(240, 260):
        value: Any = "leaf"
        for _ in range(depth):
            value = [value]
        nested = [{"role": "user", "content": value}] if where == "messages" else value
        run = Trajectory("r", "openai", {"messages": [], where: nested}, "reader/1")
        try:
            whole = run.to_json()
        except TypeError:
            with pytest.raises(TypeError):
                list(run.json_pieces())
        else:
            taken.append(depth)
            assert b"".join(run.json_pieces()) == whole
    assert 0 < len(taken) < 20


def test_writing_leaves_no_second_copy_in_the_texts() -> None:
    text = "größe " * 100_000
    run = Trajectory("r", "openai", {"messages": [{"role": "user", "content": text}]}, "reader/1")
    before = text.__sizeof__()
    Artifact.in_pieces(run.json_pieces)
    assert text.__sizeof__() == before
    orjson.dumps(text)
    assert text.__sizeof__() > before  # which is why


@pytest.mark.parametrize(
    "lengths", [[10, 20], [40, 40, 40], [300], [1, 500, 1], [90, 9], [0, 100, 0, 100], [], [50, 49, 2]]
)
def test_a_sketch_is_of_the_ends_of_the_text(monkeypatch: pytest.MonkeyPatch, lengths: list[int]) -> None:
    monkeypatch.setattr(neighbours, "_CHARACTERS", 50)
    contents = [(f"word{number} " * 60)[:length] for number, length in enumerate(lengths)]
    run = Trajectory("r", "openai", {"messages": [{"role": "user", "content": text} for text in contents]}, "reader/1")
    text = text_of(run)
    if len(text) > 100:
        text = f"{text[:50]}\n{text[-50:]}"
    assert sketch_of(run).smallest.tolist() == shingles(text)[:64].tolist()


def test_a_catalog_of_large_runs_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write_corpus(tmp_path / "corpus", 30)

    def ingested(name: str) -> str:
        artifacts = ArtifactStore(str(tmp_path / name))
        with open_catalog(f"sqlite:///{tmp_path}/{name}.sqlite", create=True) as catalog:
            ingest(catalog, artifacts, str(corpus))
            with catalog.reading() as connection:
                runs = connection.execute(select(TrajectoryRow.blob, TrajectoryRow.content_hash)).all()
                found = content_hash_of_catalog(connection)
        assert len(runs) > 30
        assert all(Trajectory.from_json(artifacts.get(blob)).content_hash == named for blob, named in runs)
        return found

    expected = ingested("small")
    monkeypatch.setattr(records, "_WHOLE", 64)
    monkeypatch.setattr(array_stream, "_CHUNK", 50)
    monkeypatch.setattr(stage, "LARGE_RUN", 0)
    assert ingested("large") == expected
