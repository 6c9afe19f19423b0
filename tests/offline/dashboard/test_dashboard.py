"""The numbers and both renderings: of an empty catalog, of made-up nights, and of a small published pipeline."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select, update

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.tables import Execution
from drsr.offline.dashboard import prometheus_text, read_numbers, write_dashboard
from drsr.offline.dashboard.numbers import Numbers
from drsr.offline.dashboard.page import NIGHTS, page
from drsr.offline.ingest.trajectories import Quarantined
from drsr.offline.publish.refreshes import FAILED, note_failed
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept
from drsr.offline.store.place import Place
from drsr.settings import load_settings
from tests.offline.audit.published import PublishedPipeline
from tests.offline.catalog.read_runs import part, record_parts, run
from tests.offline.dashboard.history import FIRST, a_night, record, stage_run
from tests.real_browser import NO_NETWORK, Browser

NOW = datetime.datetime(2026, 11, 18, 6, tzinfo=datetime.UTC)
DAY = 24 * 60


def metrics(numbers: Numbers) -> dict[tuple[str, ...], float]:
    """Every sample as the real parser reads it, by name and the values of its labels."""
    families = list(text_string_to_metric_families(prometheus_text(numbers)))
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert len({family.name for family in families}) == len(families)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.fixture
def place(catalog: Catalog, artifacts: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    return Place(load_settings(), catalog, artifacts)


def test_an_empty_catalog_has_a_page_and_metrics(place: Place) -> None:
    numbers = read_numbers(place, NOW)
    shown = page(numbers)
    for said in (
        "No stage has run",
        "has no layers to read features from",
        "Nothing was quarantined.",
        "Nothing is released yet",
    ):
        assert said in shown
    assert metrics(numbers) == {("drsr_nights",): 0.0, ("drsr_releases",): 0.0}  # what waits is unknown, and not 0


def test_nights_and_quarantine_are_counted(place: Place) -> None:
    nasty = 'so"urce\\<b>\nx'
    bad = part("c", source=nasty)
    bad.file.quarantine(Quarantined("c", "binary", "no text"))
    record_parts(place.catalog, part("a", run("r", "one")), bad)
    for day in range(NIGHTS + 2):
        record(place.catalog, a_night(day * DAY, {"published": False, "reason": "worse than <released>"}))
    numbers = read_numbers(place, NOW)
    found = metrics(numbers)
    assert found["drsr_nights",] == NIGHTS + 2
    assert found["drsr_night_stage_seconds", "label"] == 1_800.0
    assert found["drsr_night_between_seconds",] == 180.0
    assert found["drsr_night_published",] == 0.0
    assert found["drsr_night_quarantined", "broken_json"] == 2.0
    assert found["drsr_runs", "s"] == 1.0
    assert found["drsr_quarantined", nasty, "binary"] == 1.0
    assert found["drsr_labelled_states_per_hour",] == 200.0
    assert found["drsr_label_worker_seconds",] == 3_480.0 * (NIGHTS + 2)
    shown = page(numbers)
    assert f"The latest {NIGHTS} of {NIGHTS + 2}." in shown
    assert shown.count("worse than &lt;released&gt;") == NIGHTS + 1  # each shown night, and once as the last
    assert "<b>" not in shown
    assert json.loads(json.dumps(numbers.to_json()))["nights"][0]["seconds"]["train"] == 24 * 60


def test_a_night_that_failed_does_not_look_quiet(place: Place) -> None:
    record(place.catalog, a_night(0, {"published": True, "version": "2026.11.1"}))
    assert metrics(read_numbers(place, NOW))["drsr_night_failed", ""] == 0.0
    record(place.catalog, [stage_run("ingest", DAY, DAY + 1, files=9)])
    note_failed(place.catalog, "ingest", "a rule is <broken>")
    with place.catalog.writing() as connection:  # noted in that night, and not today
        mine = update(Execution).where(Execution.subject == FAILED)
        connection.execute(mine.values(started_at=FIRST + datetime.timedelta(minutes=DAY + 2)))
    numbers = read_numbers(place, NOW)
    found = metrics(numbers)
    assert found["drsr_nights",] == 2
    assert found["drsr_night_failed", "ingest"] == 1.0
    assert found["drsr_night_published",] == 0.0
    assert page(numbers).count("failed in ingest: a rule is &lt;broken&gt;") == 2, "in the table, and as the last night"
    assert '<p class="failed">The last night began' in page(numbers)
    assert numbers.to_json()["nights"][1]["failed"] == "ingest"


def test_two_nights_of_a_day_are_told_apart_by_their_time(place: Place) -> None:
    for minutes in (0, DAY, DAY + 4 * 60):
        record(place.catalog, a_night(minutes, {"published": False, "reason": "worse"}))
    shown = page(read_numbers(place, NOW))
    assert all(f">{label}<" in shown for label in ("11-01", "11-02 02:15", "11-02 06:15"))
    assert ">11-02<" not in shown


def test_a_catalog_that_has_published(
    release: PublishedPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in release.pipeline.settings.items():
        monkeypatch.setenv(name, value)
    place = Place(load_settings(), release.pipeline.catalog, release.pipeline.artifacts)
    kept = Kept(tmp_path / "kept.sqlite", "this code")
    numbers = read_numbers(place, NOW, kept)
    (released,) = numbers.releases
    found = metrics(numbers)
    point = release.pipeline.calibration
    version = released.release.version
    assert found["drsr_release_max_cardinality", version] == point.max_cardinality
    assert found["drsr_release_mean_removal", version] == pytest.approx(point.mean_removal)
    assert found["drsr_waiting", "label"] == 0.0
    assert found["drsr_untrained_states",] == 0.0
    assert numbers.drift is not None
    assert sum(row.rows for row in numbers.drift.sources) > numbers.drift.training_rows > 0
    assert numbers.labels[0].sets > numbers.labels[0].unsafe >= 0
    reads = select(SplitRead.split).where(SplitRead.purpose == "describe").order_by(SplitRead.id)
    with place.catalog.reading() as connection:
        assert connection.execute(reads).scalars().all() == ["train", "validation"]  # never test
    again = read_numbers(place, NOW, kept)
    assert again == numbers
    with place.catalog.reading() as connection:
        assert len(connection.execute(reads).all()) == 2  # it was kept: no feature was read again
    write_dashboard(tmp_path / "d.html", numbers)
    assert version in (tmp_path / "d.html").read_text()


def test_the_page_opens_in_a_browser(place: Place, tmp_path: Path, browser: Browser) -> None:
    for day in range(12):
        record(place.catalog, a_night(day * DAY, {"published": True, "version": f"2026.11.{day + 1}"}))
    write_dashboard(tmp_path / "d.html", read_numbers(place, NOW))
    grounds = browser.grounds((tmp_path / "d.html").as_uri(), NO_NETWORK)
    assert grounds["dark"] < 0.3 < 0.7 < grounds["light"]
