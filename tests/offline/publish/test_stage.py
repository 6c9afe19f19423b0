"""Publishing, on a catalog that went through the real stages: what comes out, once, and what is refused."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from drsr.errors import InputError, ReleaseRefused, ScorerNotTrained, VersionTaken
from drsr.offline.audit.release import gated_order
from drsr.offline.calibrate.stage import calibrate
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import SplitRead
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun
from drsr.offline.catalog.tables import Execution
from drsr.offline.evaluate.second_opinion import SecondOpinion
from drsr.offline.publish.golden_requests import golden_requests
from drsr.offline.publish.lineage import read_lineage, trace
from drsr.offline.publish.stage import Published, default_versions, find_calibration
from drsr.offline.publish.subject import Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.stage import read_inputs
from drsr.offline.verdicts import Check, Severity, failed, passed
from drsr.policy.golden import read_golden, verify_files
from drsr.policy.loading import load_policy, policy_of
from drsr.policy.location import read_found
from tests.offline.publish.test_simple_index import content
from tests.offline.small_pipeline import Pipeline, copy_of, fit, publish_quickly, quick_params, run_stages

CHECKS = [
    *("admissible", "expectations of the data", "agreement", "hash chain to the trajectories", "split reads"),
    *("calibration repeated", "golden requests"),
]


def index_of(pipeline: Pipeline) -> Path:
    return pipeline.folder / "index"


def published(pipeline: Pipeline, **options: Any) -> Published:
    order = gated_order(options.pop("index", index_of(pipeline)), **options)
    return publish_quickly(pipeline, order)


def rows(catalog: Catalog, table: Any = PolicyRelease) -> list[Any]:
    with catalog.reading() as connection:
        return list(connection.execute(select(table).order_by(table.id)).mappings())


def publish_runs(catalog: Catalog) -> int:
    return sum(row["stage"] == "publish" for row in rows(catalog, Execution))


def test_a_published_policy_is_what_was_calibrated(pipeline: Pipeline) -> None:
    record, path, gates, is_new = published(pipeline, version="1.0")
    assert is_new
    assert [gate.check for gate in gates] == CHECKS
    assert all(gate.passed and gate.detail for gate in gates)
    assert path == index_of(pipeline) / "drsr-policy" / "drsr_policy-1.0-py3-none-any.whl"
    files = read_found(str(path))
    calibration = pipeline.calibration
    numbers = files.numbers
    assert (numbers.version, numbers.max_cardinality) == ("1.0", calibration.max_cardinality)
    assert numbers.risk_threshold == calibration.risk_threshold  # to the last bit
    assert numbers.uncertainty_coefficient == calibration.uncertainty_coefficient
    assert numbers.calibration["key"] == calibration.calibration_key
    assert (numbers.context_cap, numbers.target_cap) == (1536, 512)
    assert numbers.backbone.name == pipeline.backbone
    traced = trace(pipeline.catalog, pipeline.artifacts, calibration)
    assert pipeline.artifacts.get(traced.run.weights) == _scorer_bytes(path)
    policy = load_policy(path)
    golden = read_golden(files, "x")
    assert verify_files(policy, files, "x").passed
    assert {item.expected.reason for item in golden} >= {"too_few_candidates", "invalid_protocol", "unreadable_request"}
    assert any(item.expected.sets for item in golden)
    (row,) = rows(pipeline.catalog)
    assert (row["version"], row["wheel"], row["identity"]) == ("1.0", record.wheel, policy.identity)
    assert [check for check, _ in row["gates"]] == CHECKS
    assert pipeline.artifacts.get(row["wheel"]) == path.read_bytes()
    links, states = read_lineage(files.others["lineage.json"])
    assert [link.link for link in links][-1] == "policy"
    assert (row["lineage"], row["states"]) == (links[-1].sha256, states)
    assert publish_runs(pipeline.catalog) == 1


def _scorer_bytes(wheel: Path) -> bytes:
    from drsr.policy.wheel_file import read_wheel

    return read_wheel(wheel.read_bytes(), "x")["drsr_policy/scorer.safetensors"]


def test_the_same_again_changes_nothing(pipeline: Pipeline) -> None:
    first = published(pipeline)
    day = pipeline.calibration.calibrated_at
    assert first.record.version == f"{day.year}.{day.month}.{day.day}"
    before = {path: path.stat().st_mtime_ns for path in index_of(pipeline).rglob("*")}
    for options in ({}, {"version": first.record.version}):
        again = published(pipeline, **options)
        assert (again.record, again.is_new) == (first.record, False)
        assert [gate.row for gate in again.gates] == [gate.row for gate in first.gates]
    assert {path: path.stat().st_mtime_ns for path in index_of(pipeline).rglob("*")} == before
    assert len(rows(pipeline.catalog)) == publish_runs(pipeline.catalog) == 1


def test_the_bytes_are_the_same_whenever_and_wherever(
    pipeline: Pipeline, finished_pipeline: Pipeline, tmp_path: Path
) -> None:
    """Published again, from a copy, and from a catalog that went through all stages once more."""
    first = published(pipeline, version="1.0").wheel.read_bytes()
    copied = copy_of(finished_pipeline, tmp_path / "copy")
    assert published(copied, version="1.0").wheel.read_bytes() == first
    copied.catalog.close()
    anew = run_stages(tmp_path / "anew", finished_pipeline.backbone)
    assert published(anew, version="1.0").wheel.read_bytes() == first
    anew.catalog.close()
    with pipeline.catalog.writing() as connection:
        connection.execute(delete(PolicyRelease))
    again = published(pipeline, version="1.0")
    assert again.is_new
    assert again.wheel.read_bytes() == first


def test_a_lost_index_is_written_again(pipeline: Pipeline, tmp_path: Path) -> None:
    first = published(pipeline)
    other = published(pipeline, index=tmp_path / "other")
    assert not other.is_new
    assert content(tmp_path / "other") == content(index_of(pipeline))
    assert other.record == first.record


def test_a_version_is_never_published_twice_with_other_content(pipeline: Pipeline, tmp_path: Path) -> None:
    published(pipeline, version="1.0")
    before = content(index_of(pipeline))
    stricter = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(removal_cap=0.19))
    newer = pipeline._replace(calibration=stricter)
    with pytest.raises(VersionTaken, match="version 1.0 was published on .* with other content") as refusal:
        published(newer, version="1.0", index=tmp_path / "elsewhere")  # the catalog knows it
    assert "--version" in str(refusal.value)
    assert not (tmp_path / "elsewhere").exists()
    with newer.catalog.writing() as connection:
        connection.execute(delete(PolicyRelease))
    with pytest.raises(VersionTaken, match="is there with other content"):
        published(newer, version="1.0")  # the index has it
    assert content(index_of(pipeline)) == before
    assert rows(pipeline.catalog) == []


def test_without_a_version_the_first_free_of_the_day_is_taken(pipeline: Pipeline) -> None:
    versions = []
    for cap in (0.2, 0.19, 0.18):
        record = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(removal_cap=cap))
        day = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
        with pipeline.catalog.writing() as connection:
            connection.execute(update(CalibrationRun).where(CalibrationRun.id == record.id).values(calibrated_at=day))
            connection.execute(update(SplitRead).where(SplitRead.read_at > day).values(read_at=day))  # before it
        newer = pipeline._replace(calibration=record._replace(calibrated_at=day))
        versions.append(published(newer).record.version)
        assert published(newer).record.version == versions[-1]
    assert versions == ["2026.1.5", "2026.1.5.1", "2026.1.5.2"]
    assert next(default_versions(record._replace(calibrated_at=day))) == "2026.1.5"


def test_the_same_calibration_under_two_versions(pipeline: Pipeline) -> None:
    one, other = published(pipeline, version="1.0"), published(pipeline, version="1.1")
    assert other.is_new
    assert one.record.calibration_run_id == other.record.calibration_run_id
    assert one.record.identity != other.record.identity  # a receipt tells which one decided
    page = (index_of(pipeline) / "drsr-policy" / "index.html").read_text()
    assert page.index("1.0") < page.index("1.1")


@pytest.mark.parametrize("version", ["2026.01.05", "latest", ""])
def test_a_version_that_pip_would_rewrite_is_refused(pipeline: Pipeline, version: str) -> None:
    with pytest.raises(InputError, match="not a version in its normal form"):
        published(pipeline, version=version)


def test_nothing_admissible_is_refused_unless_asked_for(pipeline: Pipeline) -> None:
    nothing = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(max_mean_harm=-10.0))
    assert nothing.abstains_always
    abstaining = pipeline._replace(calibration=nothing)
    with pytest.raises(ReleaseRefused, match="calibration found nothing admissible; --always-abstain") as refusal:
        published(abstaining)
    assert [gate[1] for gate in refusal.value.gates] == [False, True]
    assert not index_of(pipeline).exists()
    assert rows(pipeline.catalog) == []
    assert publish_runs(pipeline.catalog) == 0
    record, path, _, _ = published(abstaining, may_abstain_always=True)
    assert record.abstains_always
    policy = load_policy(path)
    assert policy.numbers.always_abstains
    files = read_found(str(path))
    assert {item.expected.reason for item in read_golden(files, "x")} >= {"always_abstains", "too_few_candidates"}
    assert verify_files(policy_of(files), files, "x").passed
    assert b"This policy abstains always" in files.others["MODEL_CARD.md"]
    with pytest.raises(InputError, match="this one found something"):
        published(pipeline, may_abstain_always=True)


def test_further_checks_are_run_and_recorded(pipeline: Pipeline) -> None:
    states: Check[Subject] = Check(
        "states", Severity.MAJOR, "", "", lambda subject, _: passed(states, f"{len(subject.traced.states) > 0}")
    )
    signed: Check[Subject] = Check(
        "signed", Severity.MAJOR, "", "", lambda subject, _: failed(signed, "nobody signed it", "sign it")
    )

    with pytest.raises(ReleaseRefused, match="signed failed: nobody signed it"):
        published(pipeline, more_checks=(states, signed))
    assert not index_of(pipeline).exists()
    record = published(pipeline, more_checks=(states,)).record
    assert ["states", "True"] in record.gates
    assert [check for check, _ in record.gates] == [*CHECKS[:2], "states", *CHECKS[2:]]


def test_the_model_card_says_what_the_numbers_say(pipeline: Pipeline) -> None:
    record, path, _, _ = published(pipeline, version="1.0")
    card = read_found(str(path)).others["MODEL_CARD.md"].decode()
    calibration = pipeline.calibration
    title, why = card.split("\n")[:3:2]
    assert title.removeprefix("# drsr-policy 1.0: ") in ("deploy it", "try it in shadow mode first")
    assert f"It removes {calibration.mean_removal:.1%} of a request on average" in why
    for text in (
        repr(calibration.risk_threshold),
        calibration.explanation,
        f"{calibration.mean_removal:.2%}",
        record.lineage,
        record.requires,
        pipeline.backbone,
        "best of many that were tried on validation",
        "| finite-sample bound on the unsafe rate, not paid for the search |",
        "it was chosen on them, so what can be promised lies above it",
        "No second opinion was taken",
    ):
        assert text in card
    assert "| unsafe AUROC | all sets |" in card
    assert str(pipeline.folder) not in card.replace(pipeline.backbone, "")
    metadata = path.read_bytes()
    assert card.encode() in metadata  # pip shows it too
    assert b"Requires-Dist: drsr[backbone]>=0.1.0,<0.2\n" in metadata


def test_a_second_opinion_is_in_numbers_and_card(pipeline: Pipeline, tmp_path: Path) -> None:
    plain = published(pipeline, version="1.0").record
    opinion = SecondOpinion(pipeline.backbone, "another", 60, 55, 800, 3_000, 0.81, 0.74)
    path = tmp_path / "opinion.json"
    path.write_text(json.dumps(opinion.to_json()))
    found = published(pipeline, version="1.1", second_opinion=path)
    files = read_found(str(found.wheel))
    assert opinion.said in files.others["MODEL_CARD.md"].decode()
    assert files.numbers.calibration["second_opinion"] == opinion.to_json()
    assert found.record.identity != plain.identity
    with pytest.raises(VersionTaken):
        published(pipeline, version="1.0", second_opinion=path)


def test_which_calibration(pipeline: Pipeline, artifacts: ArtifactStore, tmp_path: Path) -> None:
    older = pipeline.calibration
    newer = fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, quick_params(removal_cap=0.19))
    assert find_calibration(pipeline.catalog, None) == newer
    with pytest.raises(ScorerNotTrained, match="nothing is calibrated yet, in the certified mode"):
        find_calibration(pipeline.catalog, None, certified=True)
    inputs = read_inputs(pipeline.catalog, pipeline.artifacts, "default", "default", "calibrate")
    tried = calibrate(pipeline.catalog, pipeline.artifacts, inputs, quick_params(), certified=True).record
    assert tried.calibrated_at > newer.calibrated_at
    assert find_calibration(pipeline.catalog, None) == newer  # what somebody tried does not take its place
    assert find_calibration(pipeline.catalog, None, certified=True) == tried
    assert find_calibration(pipeline.catalog, tried.calibration_key[:12]) == tried
    assert find_calibration(pipeline.catalog, older.calibration_key[:12]) == older
    with pytest.raises(InputError, match="0 calibrations have a key that begins with 'nothing'"):
        find_calibration(pipeline.catalog, "nothing")
    with pytest.raises(InputError, match="3 calibrations"):
        find_calibration(pipeline.catalog, "")


def test_an_empty_catalog_has_nothing_to_publish(catalog: Catalog) -> None:
    with pytest.raises(ScorerNotTrained, match="nothing is calibrated yet"):
        find_calibration(catalog, None)


def test_another_name_for_the_backbone(pipeline: Pipeline, tmp_path: Path) -> None:
    """The name under which consumers load it is the policy's; the model is the same."""
    (tmp_path / "models").symlink_to(pipeline.backbone.removeprefix("path:"))
    other = f"path:{tmp_path / 'models'}"
    path = published(pipeline, version="1.0", backbone=other).wheel
    assert read_found(str(path)).numbers.backbone.name == other


def test_a_golden_request_that_hangs_by_a_thread_is_left_out(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drsr.offline.publish import candidate as release_candidate

    monkeypatch.setattr(release_candidate, "survives", lambda decision: decision.outcome is None)
    with pytest.raises(ReleaseRefused, match="so close to the risk threshold"):
        published(pipeline)
    monkeypatch.setattr(release_candidate, "survives", lambda decision: decision.tokens_before != 1_069)
    record = published(pipeline).record
    assert record.golden_requests == len(golden_requests()) - 1


def test_a_golden_request_that_fails_inside_stops_everything(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drsr.decide.representation import FrozenRepresentation

    def fail(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(FrozenRepresentation, "features", fail)
    with pytest.raises(ReleaseRefused, match="cannot be decided: MemoryError"):
        published(pipeline)
    assert rows(pipeline.catalog) == []


def test_no_machine_and_no_moment_is_in_the_wheel(pipeline: Pipeline) -> None:
    """But for the name of a local backbone, which the consumer needs."""
    data = published(pipeline, version="1.0").wheel.read_bytes()
    seen = data.replace(pipeline.backbone.encode(), b"")
    year = str(pipeline.calibration.calibrated_at.year).encode()
    for secret in (str(pipeline.folder).encode(), str(Path.home()).encode(), year + b"-"):
        assert secret not in seen
