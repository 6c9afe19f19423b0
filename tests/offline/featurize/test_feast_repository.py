"""A feature view as a Feast repository; where there is a Python with Feast, Feast itself reads it.

Feast wants older pandas, prometheus_client and tenacity than drsr's tools, so it lives in an environment of its own:
`make feast` makes one, and names its Python in DRSR_FEAST_PYTHON.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from drsr.cli import main
from drsr.offline.featurize.views import get_view
from drsr.offline.train.frames import get_training_frame
from tests.offline.small_pipeline import Pipeline

PYTHON = os.environ.get("DRSR_FEAST_PYTHON")
READ = """
import json, sys
from feast import FeatureStore
store = FeatureStore(repo_path=sys.argv[1])
names = ["default:" + field.name for field in store.get_feature_view("default").features]
rows = json.loads(sys.argv[2])
print(json.dumps(store.get_online_features(features=names, entity_rows=rows).to_dict()))
"""


@pytest.fixture
def repository(pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the command writes."""
    for name, value in pipeline.settings.items():
        monkeypatch.setenv(name, value)
    assert main(["featurize", "--feast", str(tmp_path / "feast")]) == 0
    return tmp_path / "feast"


def expected(pipeline: Pipeline) -> dict[tuple[str, int], np.ndarray[Any, Any]]:
    """The features of every candidate of train, as training reads them."""
    frame = get_training_frame(pipeline.catalog, pipeline.artifacts, split="train", purpose="train")
    return {
        (key, place): frame.features[number, place]
        for number, key in enumerate(frame.state_ids)
        for place in range(int(frame.candidate_counts[number]))
    }


def test_every_candidate_of_a_current_state_has_its_row(
    pipeline: Pipeline, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pyarrow.parquet.read_table(repository / "data" / "default.parquet")
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    names = [column.name for column in view.columns]
    assert table.column_names == ["state_key", "candidate", "event_timestamp", "created", *names]
    keys = zip(table["state_key"].to_pylist(), table["candidate"].to_pylist(), strict=True)
    found = dict(zip(keys, np.array([table[name].to_numpy() for name in names]).T, strict=True))
    trained = expected(pipeline)
    assert trained.keys() <= found.keys()
    assert len(found) > len(trained)  # other splits
    assert all(np.array_equal(found[place], values) for place, values in trained.items())
    definitions = ast.parse((repository / "drsr_default.py").read_text())
    assert names == next(
        ast.literal_eval(node.generators[0].iter) for node in ast.walk(definitions) if isinstance(node, ast.ListComp)
    )
    # The stores are the user's; what is generated stays as it is while nothing changes.
    (repository / "feature_store.yaml").write_text("mine")
    before = (repository / "drsr_default.py").stat().st_mtime_ns
    capsys.readouterr()
    assert main(["featurize", "--feast", str(repository), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(found)
    assert (repository / "feature_store.yaml").read_text() == "mine"
    assert (repository / "drsr_default.py").stat().st_mtime_ns == before


def test_a_view_without_features_and_options_that_do_not_go_together(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, said in (
        (("--view", "window"), "window"),
        (("--statistics",), "--feast writes all of a view"),
        (("--source", "runs"), "--feast writes all of a view"),
    ):
        assert main(["featurize", "--feast", str(tmp_path / "other"), *arguments]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(PYTHON is None, reason="Feast needs an environment of its own: make feast")
def test_feast_materializes_and_reads_a_row(pipeline: Pipeline, repository: Path) -> None:
    assert PYTHON is not None
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean["FEAST_USAGE"] = "False"

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, env=clean, cwd=repository)
        assert done.returncode == 0, done.stderr
        return done.stdout

    feast = str(Path(PYTHON).with_name("feast"))
    run(feast, "apply")
    run(feast, "materialize", "2020-01-01T00:00:00", "2100-01-01T00:00:00")
    trained = expected(pipeline)
    places = [*trained][:3]
    asked = [{"state_key": key, "candidate": place} for key, place in places]
    answer = json.loads(run(PYTHON, "-c", READ, str(repository), json.dumps(asked)).splitlines()[-1])
    with pipeline.catalog.reading() as connection:
        names = [column.name for column in get_view(connection, "default").columns]
    for row, place in enumerate(places):
        read = np.array([answer[name][row] for name in names], dtype=np.float32)
        assert np.array_equal(read, trained[place])
