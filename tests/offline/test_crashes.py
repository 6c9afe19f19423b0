"""Killed anywhere, or eight at once: the catalog is the one of an undisturbed run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select

from drsr.errors import CatalogUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile
from drsr.offline.catalog.label_tables import StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize.stored import FeatureReader, stored_states
from drsr.offline.featurize.views import get_view
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import change_corpus, chat, task_in_split, write_corpus, write_json
from tests.offline.databases import PostgresServer, fresh_database

ALL_KILLS = int(os.environ.get("DRSR_CRASH_KILLS", "60"))
"""SIGKILLs on each database; `make crash` asks for more."""
KILLS, LABEL_KILLS = ALL_KILLS // 2, ALL_KILLS // 3
FEATURE_KILLS = ALL_KILLS - KILLS - LABEL_KILLS
TRY_AGAIN = 3
"""Exit code of a worker whose database was away."""
KILLS_AT_A_TIME = 8
"""Most kills of one half of a round."""
ROOT = Path(__file__).parents[2]

CHANGES: tuple[Callable[[Path], object], ...] = (write_corpus, change_corpus)
"""What is done to the corpus before each half of a round."""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Ask the process that forks workers; see `forked_stages.py`. It imports for seconds, so one serves all tests."""
    command = [sys.executable, "-m", "tests.offline.forked_stages"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def answer(do: str, **order: Any) -> dict[str, Any]:
            print(json.dumps({"do": do} | order), file=process.stdin, flush=True)
            line = process.stdout.readline()  # type: ignore[union-attr]
            assert line, "the process ended; its own words are above"
            found: dict[str, Any] = json.loads(line)
            return found

        try:
            yield answer
            process.stdin.close()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()  # a test that failed may have left it at work, and leaving the block waits for it


def fresh(database: str, tmp_path: Path, number: int) -> Any:
    folder = tmp_path / str(number)
    folder.mkdir()
    return fresh_database(database, folder, migrated=False)


def test_killed_at_random_moments_the_catalog_is_the_undisturbed_one(ask: Ask, database: str, tmp_path: Path) -> None:
    """From an empty database each time, so that creating the tables is killed as well.

    In the second half of a round two files have changed: what was read of them is superseded under fire.
    """
    corpus = tmp_path / "runs"
    undisturbed = []
    with fresh(database, tmp_path, 0) as url:
        order = {"catalog": url, "artifacts": str(tmp_path / "0" / "artifacts"), "corpus": str(corpus)}
        for change in CHANGES:
            change(corpus)
            undisturbed.append(ask("run", **order))
    assert undisturbed[0]["content"] != undisturbed[1]["content"]
    kills, round_number = [0, 0], 0
    while sum(kills) < KILLS or not all(kills):
        round_number += 1
        with fresh(database, tmp_path, round_number) as url:
            where = {
                "catalog": url,
                "artifacts": str(tmp_path / str(round_number) / "artifacts"),
                "corpus": str(corpus),
            }
            for half, change in enumerate(CHANGES):
                change(corpus)
                seconds = undisturbed[half]["seconds"]
                seed = 2 * round_number + half
                killed = ask("kill", kills=KILLS_AT_A_TIME, seed=seed, seconds=seconds, **where)
                assert killed["content"] == undisturbed[half]["content"]
                kills[half] += killed["kills"]


def test_eight_processes_at_once_record_everything_once(ask: Ask, database: str, tmp_path: Path) -> None:
    corpus = str(write_corpus(tmp_path / "runs"))
    with fresh(database, tmp_path, 0) as url:
        alone = ask("run", catalog=url, artifacts=str(tmp_path / "alone"), corpus=corpus)
    with fresh(database, tmp_path, 1) as url:
        order = {"catalog": url, "artifacts": str(tmp_path / "shared"), "corpus": corpus}
        eight = ask("together", workers=8, **order)
    assert eight["exits"] == [0] * 8
    assert eight["content"] == alone["content"]


def test_both_databases_say_the_same(ask: Ask, tmp_path: Path) -> None:
    corpus = str(write_corpus(tmp_path / "runs"))
    contents = set()
    for number, database in enumerate(("sqlite", "postgresql")):
        with fresh(database, tmp_path, number) as url:
            order = {"catalog": url, "artifacts": str(tmp_path / "artifacts"), "corpus": corpus}
            contents.add(ask("run", **order)["content"])
    assert len(contents) == 1


def test_labellers_killed_at_random_moments_leave_the_undisturbed_labels(
    ask: Ask, database: str, tmp_path: Path
) -> None:
    """Four workers, twenty kills: every state is measured, none twice, and the numbers are those of one worker."""
    corpus = tmp_path / "runs"
    for seed in range(12):
        write_json(corpus / f"{seed}.json", chat(seed, steps=4 + seed % 5))
    with fresh(database, tmp_path, 0) as url:
        order = {"catalog": url, "artifacts": str(tmp_path / "alone"), "corpus": str(corpus), "label": True}
        undisturbed = ask("run", **order)
    kills, round_number = 0, 0
    while kills < LABEL_KILLS:
        round_number += 1
        with fresh(database, tmp_path, round_number) as url:
            order["catalog"], order["artifacts"] = url, str(tmp_path / f"artifacts-{round_number}")
            seconds = undisturbed["seconds"]
            killed = ask("massacre", workers=4, kills=LABEL_KILLS - kills, seed=round_number, seconds=seconds, **order)
        assert killed["content"] == undisturbed["content"]
        assert set(killed["exits"]) <= {0}
        kills += killed["kills"]


def test_four_labellers_and_a_restart_of_postgresql(ask: Ask, tmp_path: Path) -> None:
    """In the middle of their work. Each is told to try again, and whoever comes next does what is left."""
    corpus = tmp_path / "runs"
    for seed in range(8):
        write_json(corpus / f"{seed}.json", chat(seed, steps=5))
    order = {"artifacts": str(tmp_path / "artifacts"), "corpus": str(corpus), "label": True}
    alone = ask("run", catalog=f"sqlite:///{tmp_path}/alone.sqlite", **order)
    server = PostgresServer()
    try:
        with ThreadPoolExecutor(1) as thread, open_catalog(server.url, create=True) as catalog:
            four = thread.submit(ask, "together", workers=4, catalog=server.url, **order)
            while not restarted_in_the_middle(server, catalog, states=8):
                assert not four.done(), "all was done before"
            exits = four.result()["exits"]
        assert set(exits) <= {0, TRY_AGAIN}, "nobody takes it for a fault"
        assert TRY_AGAIN in exits
        assert ask("together", workers=4, catalog=server.url, **order) == {
            "exits": [0] * 4,
            "content": alone["content"],
        }
    finally:
        server.stop()


def restarted_in_the_middle(server: PostgresServer, catalog: Catalog, states: int) -> bool:
    """Restart it if some states are measured, while nobody can record another; say whether that was so."""
    measured = 0
    with suppress(CatalogUnreachable), catalog.writing() as connection:  # of this connection nothing is left, either
        measured = connection.execute(select(func.count()).select_from(StateMeasurement)).scalar_one()
        if measured:
            assert measured < states
            server.restart()
    return measured > 0


def test_killed_workers_leave_each_state_s_features_once(ask: Ask, database: str, tmp_path: Path) -> None:
    """Labels and features of a trajectory are there together or not at all, and files are merged under fire."""
    corpus = tmp_path / "runs"
    for seed in range(8):
        task = task_in_split("train" if seed % 2 else "test")
        write_json(corpus / f"{seed}.json", chat(seed, steps=5 + seed % 3) | {"task": task})
    with fresh(database, tmp_path, 0) as url:
        order = {"catalog": url, "artifacts": str(tmp_path / "alone"), "corpus": str(corpus), "features": True}
        undisturbed = ask("run", **order)
        expected = stored_features(url, order["artifacts"])
    assert len(expected) > 10
    kills, round_number = 0, 0
    while kills < FEATURE_KILLS:
        round_number += 1
        with fresh(database, tmp_path, round_number) as url:
            order["catalog"], order["artifacts"] = url, str(tmp_path / f"artifacts-{round_number}")
            seconds, left = undisturbed["seconds"], FEATURE_KILLS - kills
            killed = ask("massacre", workers=3, kills=left, seed=round_number, seconds=seconds, **order)
            assert set(killed["exits"]) <= {0}
            assert killed["content"] == undisturbed["content"]
            found = stored_features(url, order["artifacts"])
        assert found.keys() == expected.keys()
        for key, matrix in found.items():
            np.testing.assert_allclose(matrix, expected[key], rtol=1e-5, atol=1e-5)
        kills += killed["kills"]


def stored_features(url: str, artifact_root: str) -> dict[str, Any]:
    """Every state's features by its key; and every row of the catalog's account of files is true."""
    with open_catalog(url) as catalog, catalog.reading() as connection:
        view = get_view(connection, "default")
        states = stored_states(connection, view)
        in_files = dict(connection.execute(select(FeatureFile.blob, FeatureFile.states)).tuples().all())
    assert Counter(state.blob for state in states) == in_files
    reader = FeatureReader(ArtifactStore(artifact_root), view)
    return {state.state_key: reader.matrix(state) for state in states}
