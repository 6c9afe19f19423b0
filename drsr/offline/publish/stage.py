"""The publish stage: a calibrated scorer becomes a package in an index, if every check passes.

Nothing is written before all checks have passed. Then the artifacts, the wheel, the index's pages, and last the row in
the catalog: killed anywhere, the same command gives the same files and the same row. A version never changes.
"""

from __future__ import annotations

import datetime
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection

import drsr
from drsr.backbone.catalogue import load_backbone
from drsr.decide.numbers import PolicyNumbers
from drsr.errors import InputError, ScorerNotTrained, VersionTaken
from drsr.features.light import LIGHT_VIEW
from drsr.offline.calibrate.certificates import PointBound
from drsr.offline.calibrate.stage import point_bound
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.reads import note_reads
from drsr.offline.catalog.runs import finish_run, start_run
from drsr.offline.evaluate.second_opinion import read_opinion
from drsr.offline.featurize.light_reader import load_light_reader
from drsr.offline.publish.candidate import Built, build, decide_golden, policy_numbers
from drsr.offline.publish.gates import AGREEMENT, in_one, refuse_failed
from drsr.offline.publish.lineage import Traced, trace
from drsr.offline.publish.lineage_rows import view_of
from drsr.offline.publish.records import ReleaseRecord, find_release, record_release, releases_of
from drsr.offline.publish.simple_index import WheelFile, add_wheels, is_there, place_of
from drsr.offline.publish.subject import Order, PolicyCandidate, Subject
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.claims import POLL_SECONDS, Claims
from drsr.offline.store.kept import Kept
from drsr.offline.train.records import CalibrationRecord, get_training_run, latest_calibrations
from drsr.offline.train.stage import load_trained
from drsr.offline.verdicts import Check, Severity, Verdict, run_check
from drsr.policy.generated import requirement
from drsr.policy.golden import GoldenRequest
from drsr.policy.wheel_file import check_version
from drsr.scorer.frozen import FrozenScorer


class Published(NamedTuple):
    """The policy that was published, now or before."""

    record: ReleaseRecord
    wheel: Path
    gates: tuple[Verdict, ...]
    is_new: bool
    """False: this calibration was published before, and nothing was done."""


@dataclass(frozen=True)
class PublishOrder:
    """The order to publish a policy, with its options."""

    index: Path
    """The folder that pip installs from."""
    checks: tuple[Check[Subject], ...]
    """Asked before anything is built. `drsr.offline.audit.release` puts these and the next together."""
    wheel_checks: tuple[Check[Subject], ...]
    """Asked of the wheel that would be written."""
    audit: Order = Order()  # noqa: RUF009 - a plain value
    """Amount that the checks of the wheel compute again."""
    kept: Kept | None = None
    """Values read and judged before that need not be computed again; None computes everything."""
    version: str | None = None
    """Version to publish. By default the day of the calibration, `2026.11.16`; if another policy has that one,
    `2026.11.16.1`, ..."""
    may_abstain_always: bool = False
    """Publish even a policy that never prunes, because calibration found nothing admissible."""
    beside: tuple[WheelFile, ...] = ()
    """Other wheels for the same index: drsr itself."""
    backbone: str | None = None
    """Another name for the same language model, under which consumers will load it."""
    device: str = "cpu"
    second_opinion: Path | None = None
    """A file that records how far another language model agrees with the labels."""


def find_calibration(
    catalog: Catalog, key: str | None, *, certified: bool = False, light: bool = False, source: str | None = None
) -> CalibrationRecord:
    """Return the calibration whose key begins so, whatever it is. Without a key return the latest plain one, or the
    latest certified one, of a full or a light scorer, made from all sources or from one.

    Never just the latest: a calibration tried in the other mode, or of the other kind, must not take the place of the
    one meant.
    """
    mode = "certified" if certified else "plain"
    with catalog.reading() as connection:
        known = latest_calibrations(connection, 10_000, mode if key is None else None)
        if key is None:
            known = [record for record in known if _kind(connection, record) == (light, source)][:1]
    found = [record for record in known if key is None or record.calibration_key.startswith(key)]
    if not known:
        view = (f" --view {LIGHT_VIEW}" if light else "") + (f" --source {source}" if source else "")
        command = f"drsr calibrate{view}{' --certified' if certified else ''}"
        where = f", in the {mode} mode{f' on the view {LIGHT_VIEW}' if light else ''}"
        where += f" of the source {source}" if source else ""
        what = f"nothing is calibrated yet{where}" if key is None else "nothing is calibrated yet"
        raise ScorerNotTrained(what, hint=f"drsr train{view}, then {command}")
    if len(found) != 1:
        raise InputError(f"{len(found)} calibrations have a key that begins with {key!r}", hint="drsr status")
    return found[0]


def _kind(connection: Connection, calibration: CalibrationRecord) -> tuple[bool, str | None]:
    """Return whether a calibration is of a light scorer, and its source if it was made from one alone."""
    run = get_training_run(connection, calibration.training_run_id)
    return view_of(connection, run.view_id).is_light, run.source


def publish(
    catalog: Catalog, artifacts: ArtifactStore, calibration: CalibrationRecord, order: PublishOrder
) -> Published:
    """Check everything, build the package, publish it. ReleaseRefused or VersionTaken: nothing was written."""
    if order.version is not None:
        check_version(order.version)
    if order.may_abstain_always and not calibration.abstains_always:
        raise InputError(
            "--always-abstain is for a calibration that found nothing admissible; this one found something",
            hint="leave it out",
        )
    with _alone(catalog):
        known = _published_before(catalog, artifacts, calibration, order)
        if known is not None:
            record, wheel = known
            add_wheels(order.index, [wheel, *order.beside])
            return Published(record, place_of(order.index, wheel), _gates(record), is_new=False)
        return _publish(catalog, artifacts, calibration, order)


def _publish(
    catalog: Catalog, artifacts: ArtifactStore, calibration: CalibrationRecord, order: PublishOrder
) -> Published:
    traced = trace(catalog, artifacts, calibration, kept=order.kept)
    labelled_by = traced.labeler.identity.backbone
    opinion = None if order.second_opinion is None else read_opinion(order.second_opinion, labelled_by)
    subject = Subject(catalog, artifacts, order.audit, PolicyCandidate(traced, order.may_abstain_always), order.kept)
    gates = [in_one(run_check(check, subject)) for check in order.checks]
    refuse_failed(gates)
    scorer = load_trained(artifacts, traced.run)
    view = traced.view.identity
    name = order.backbone or view.backbone
    backbone = (
        load_light_reader(name) if traced.view.is_light else load_backbone(name, device=order.device, dtype=view.dtype)
    )
    numbers = policy_numbers(traced, scorer, backbone, opinion)
    candidate = PolicyCandidate(traced, order.may_abstain_always, numbers, backbone)
    gates.append(in_one(run_check(AGREEMENT, Subject(catalog, artifacts, order.audit, candidate))))
    refuse_failed(gates)
    decided = decide_golden(numbers, scorer, backbone)
    frames = traced.frames["train"], traced.frames["validation"]
    bound = point_bound(artifacts, traced.calibration, traced.run, scorer, frames)
    built = _first_free(catalog, traced, scorer, numbers, decided, bound, order)
    subject = Subject(catalog, artifacts, order.audit, candidate._replace(built=built), order.kept)
    gates += [in_one(run_check(check, subject)) for check in order.wheel_checks]
    refuse_failed(gates)
    return _write(catalog, artifacts, traced, built, gates, order)


def default_versions(calibration: CalibrationRecord) -> Iterator[str]:
    """Yield the day of the calibration, then the same with .1, .2, ...: the same calibration asks for the same
    version."""
    day = calibration.calibrated_at
    first = f"{day.year}.{day.month}.{day.day}"
    yield first
    yield from (f"{first}.{number}" for number in itertools.count(1))


def _first_free(
    catalog: Catalog,
    traced: Traced,
    scorer: FrozenScorer,
    numbers: PolicyNumbers,
    decided: Sequence[GoldenRequest],
    bound: PointBound | None,
    order: PublishOrder,
) -> Built:
    """Return the package under the requested version, or under the first that no other package has."""
    for version in default_versions(traced.calibration) if order.version is None else (order.version,):
        built = build(traced, scorer, numbers, decided, version, bound)
        try:
            _refuse_taken(catalog, built)
            is_there(order.index, built.wheel)
        except VersionTaken:
            if order.version is not None:
                raise
        else:
            return built
    raise AssertionError("versions do not end")


def _refuse_taken(catalog: Catalog, built: Built) -> None:
    with catalog.reading() as connection:
        known = find_release(connection, built.numbers.version)
    if known is not None and known.wheel != built.wheel.sha256:
        raise VersionTaken(
            f"version {known.version} was published on {known.published_at:%Y-%m-%d} with other content: SHA-256 "
            f"{known.wheel}, not {built.wheel.sha256}",
            where=catalog.location,
            hint="a published version never changes; say another one with --version",
        )


def _write(
    catalog: Catalog,
    artifacts: ArtifactStore,
    traced: Traced,
    built: Built,
    gates: Sequence[Verdict],
    order: PublishOrder,
) -> Published:
    """Files first, the row last."""
    numbers, wheel = built.numbers, built.wheel
    with catalog.writing() as connection:
        run_id = start_run(connection, "publish", numbers.version, drsr.__version__)
    artifacts.put(built.states.data)
    artifacts.put(wheel.data)
    add_wheels(order.index, [wheel, *order.beside])
    row = {
        "version": numbers.version,
        "calibration_run_id": traced.calibration.id,
        "identity": built.identity,
        "file_name": wheel.file_name,
        "wheel": wheel.sha256,
        "size": len(wheel.data),
        "lineage": built.links[-1].sha256,
        "states": built.states.sha256,
        "abstains_always": numbers.always_abstains,
        "requires": requirement(numbers),
        "golden_requests": len(built.golden),
        "gates": [[gate.check, gate.detail] for gate in gates],
        "index_location": str(order.index),
        "code_version": drsr.__version__,
        "published_at": datetime.datetime.now(datetime.UTC),
    }
    with catalog.writing() as connection:
        known = find_release(connection, numbers.version)
        record = known or record_release(connection, row)
        if known is None:
            note(connection, "publish", {"release": ledger.releases(connection, record.version)})
            note_reads(connection)
        finish_run(connection, run_id, {"version": record.version, "wheel": record.wheel})
    return Published(record, place_of(order.index, wheel), tuple(gates), is_new=known is None)


def _published_before(
    catalog: Catalog, artifacts: ArtifactStore, calibration: CalibrationRecord, order: PublishOrder
) -> tuple[ReleaseRecord, WheelFile] | None:
    """Return the release of this calibration by this version of drsr, if its wheel is still in the artifact store."""
    with catalog.reading() as connection:
        known = releases_of(connection, calibration.id)
    for record in known:
        same = record.code_version == drsr.__version__ and order.version in (None, record.version)
        if same and order.backbone is None and order.second_opinion is None and artifacts.exists(record.wheel):
            return record, WheelFile(record.file_name, artifacts.get(record.wheel))
    return None


def _gates(record: ReleaseRecord) -> tuple[Verdict, ...]:
    return tuple(Verdict(check, Severity.MAJOR, True, detail) for check, detail in record.gates)


@contextmanager
def _alone(catalog: Catalog) -> Iterator[None]:
    """Allow one publisher at a time: two would choose the same version, or write pages that miss each other's wheel."""
    with Claims(catalog, "publish") as claims:
        while True:
            with catalog.writing() as connection:
                if claims.take(connection, "release"):
                    break
            time.sleep(POLL_SECONDS)
        yield
