"""A feed that turns unreadable is not quiet."""

from __future__ import annotations

from pathlib import Path

import pytest

from drsr.errors import SettingsError
from drsr.expectations.judging import judge
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest import stage
from drsr.offline.ingest.feeds.limits import Limits, feeds, limits_of, load_limits
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.chat_files import chat, write_json, write_text


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "RACY_SECONDS", 0.0)


def broken_rules(catalog: Catalog, artifacts: ArtifactStore) -> list[str]:
    return [found.check for found in judge(catalog, artifacts, ("trajectories",)) if not found.passed]


def test_a_delivery_of_which_nothing_can_be_read_breaks_a_rule_until_it_is_mended(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    folder = tmp_path / "agents"
    for number in range(3):
        write_json(folder / f"good{number}.json", chat(number))
    for number in range(30):
        write_text(folder / f"{number}.json", "{}")
    for _ in range(2):  # also on a night that finds nothing new
        ingest(catalog, artifacts, str(folder))
        assert broken_rules(catalog, artifacts) == ["trajectories: deliveries are readable and sources have their runs"]
    for number in range(30):
        write_json(folder / f"{number}.json", chat(100 + number))
    ingest(catalog, artifacts, str(folder))
    assert broken_rules(catalog, artifacts) == []


def test_a_few_strange_files_are_no_alarm_unless_the_source_has_a_limit(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    write_text(tmp_path / "agents" / "README.md", "about these runs")
    ingest(catalog, artifacts, str(tmp_path / "agents"))
    with catalog.reading() as connection:
        assert [feed.is_settled for feed in feeds(connection, {})] == [True]
        assert [feed.is_settled for feed in feeds(connection, {"agents": Limits(model_says=("Bye!",))})] == [True]
        for share in (0.1, 0.5):  # the usual share, too, once somebody has chosen it
            assert [feed.is_settled for feed in feeds(connection, {"agents": Limits(share)})] == [False]
        assert [feed.is_settled for feed in feeds(connection, {"agents": Limits(1.0, runs=1)})] == [False]
        assert [feed.source for feed in feeds(connection, {"agents": Limits(1.0), "absent": Limits(runs=1)})] == [
            "agents",
            "absent",
        ]


def test_the_file_of_limits(tmp_path: Path) -> None:
    path = tmp_path / "feeds.toml"
    assert load_limits(path) == {}
    write_text(path, "[agents]\nquarantined = 0.1\nruns = 7\n")
    assert load_limits(path) == {"agents": Limits(0.1, 7)}
    write_text(path, '[agents]\nruns = 7\nmodel_says = ["Bye!"]\n[default]\nquarantined = 0.1\nruns = 3\n')
    default = Limits(0.1, 3)
    limits = load_limits(path)
    assert limits == {"agents": Limits(0.1, 7, model_says=("Bye!",)), "default": default}
    assert limits_of("others", limits) == default
    assert limits_of("others", {}) == Limits()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nshare = 1", "[a] has no setting 'share'\n  hint: they are quarantined, runs, mapping, redact"),
        ("runs = 1", "runs stands in no section\n  hint: [default] or the name of a source in brackets"),
        ("[a]\nquarantined = 2", "[a] quarantined is 2, which is not a share\n  hint: from 0 to 1"),
        ("[a]\nruns = 0.5", "[a] runs must be a whole number, not 0.5"),
        ("[a]\nredact = 1", "[a] redact must be the name of a file, not 1"),
        ("[a]\nruns = -1", "[a] runs is -1"),
        ("[", "cannot be read"),
        ('[a]\nmodel_says = "a"', "[a] model_says must be a list of sentences"),
        ("[a]\nmodel_says = [1]", "[a] model_says must be a list of sentences"),
        ('[a]\nframework_says = [" "]', "[a] ' ' is no sentence"),
        ('[a]\nmodel_says = ["…"]', "[a] '…' is no sentence"),
        ('[a]\nmodel_says = ["\\u0001…"]', "[a] '\\x01…' is no sentence"),
    ],
)
def test_a_mistake_in_it_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = write_text(tmp_path / "feeds.toml", text)
    with pytest.raises(SettingsError) as refused:
        load_limits(path)
    assert str(refused.value).startswith(f"{path}: {said}")
