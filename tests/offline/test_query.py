"""SQL over exports: right numbers, and no way out of the tables. Needs the real DuckDB."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.errors import ArtifactCorrupt, InputError, MissingExtra
from drsr.offline.catalog.engine import Catalog
from drsr.offline.query import TABLES, Answer, answer, by_candidate, column_names
from drsr.offline.store.exports import read_parts

pytest.importorskip("duckdb", reason="pip install 'drsr[query]'")

MEASURED = Path(__file__).parents[2] / "corpora" / "measured"


def no_catalog() -> Catalog:
    raise InputError("no question here asks for names of features")


def ask(question: str, exports: Path = MEASURED) -> Answer:
    return answer(question, exports, no_catalog)


def test_labels_agree_with_the_files_read_by_hand() -> None:
    sets = unsafe = 0
    for part in read_parts(MEASURED / "label" / "labels"):
        for row in part.table.to_pylist():
            harms = [nll - row["intact_nll"] for nll in row["deleted_nlls"] or []]
            sets += len(harms)
            unsafe += sum(harm > part.about["harm_tolerance"] for harm in harms)
    question = "select count(*) as sets, sum(unsafe::int) as unsafe, max(cardinality) from labels"
    assert ask(question) == (["sets", "unsafe", "max(cardinality)"], [(sets, unsafe, 4)])


def test_tables_can_be_joined() -> None:
    question = "select r.source, count(*) from LABELS join states using (state_key) join runs r using (trajectory_key)"
    found = dict(ask(f"{question} group by all").rows)
    assert sum(found.values()) == ask("select count(*) from labels").rows[0][0]
    assert "intercode" in found
    assert ask("select count(distinct state_key) from measurements where outcome = 'labelled'").rows == [(707,)]


@pytest.mark.parametrize(
    "question",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('{secret}')",
        "select * from '{secret}'",
        "select * from glob('/etc/*')",
        "copy (select 1) to '{out}'",
        "attach '{out}'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "pragma database_list",
        "create table more as select 1",
        "insert into labels select * from labels",
        "drop table labels",
        "select 1; copy (select 1) to '{out}'",
        "select 1; select 2",
        "explain analyze select 1",
        "export database '{out}'",
        "select * from parameters",
        "selekt",
        "",
        "select nothing from labels",
    ],
)
def test_there_is_no_way_out(question: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2")
    parameters = {"of": "this function"}  # DuckDB would find a caller's variable by its name, if it were allowed to
    assert parameters
    with pytest.raises(InputError, match=r"the tables are runs, states, measurements, labels, features"):
        ask(question.format(secret=tmp_path / "secret", out=tmp_path / "out"))
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_what_is_missing_or_damaged_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"has no labels: drsr export .* --stage label"):
        ask("select * from labels", tmp_path)
    folder = tmp_path / "freeze" / "states"
    folder.mkdir(parents=True)
    (folder / f"{'0' * 32}.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactCorrupt, match="not those it is named by"):
        ask("select * from states", tmp_path)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'drsr\[query\]'"):
        ask("select 1")


def test_features_need_a_catalog_that_knows_their_layout(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no feature view of that layout.*\n  hint: drsr import"):
        column_names(catalog, "0" * 64, tmp_path)


def test_what_tables_there_are_can_be_asked() -> None:
    """No table is named then. A misspelt name is answered with the one that is meant."""
    names = {row[0] for row in ask("show tables").rows}
    assert names == {name for name in TABLES if name != "features"}
    with pytest.raises(InputError, match='Did you mean "labels"'):
        ask("select * from lables")


def test_features_have_a_row_per_candidate_and_a_column_per_feature() -> None:
    part = next(read_parts(MEASURED / "featurize" / "features"))
    names = [f"column_{number}" for number in range(part.about["columns"])]
    table = by_candidate(part.table, names)
    assert table.column_names == ["state_key", "candidate", *names]
    row = next(row for row in part.table.slice(0, 20).to_pylist() if row["outcome"] == "stored")
    mine = table.slice(0, 200).to_pylist()
    mine = [other for other in mine if other["state_key"] == row["state_key"]]
    assert [other["candidate"] for other in mine] == list(range(len(mine)))
    assert [other[name] for other in mine for name in names] == row["values"]


def test_the_command_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    question = "select split, count(*) as runs from runs group by split order by split"
    assert main(["query", question, "--exports", str(MEASURED), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(row["runs"] for row in rows) == sum(
        part.table.num_rows for part in read_parts(MEASURED / "ingest" / "trajectories")
    )
    assert main(["query", "select 1 where false", "--exports", str(MEASURED)]) == 0
    assert capsys.readouterr().out == "no rows\n"
    assert main(["query", "drop table runs"]) == 2
