"""Erase a run: its text, states, labels and features go for good, and a tombstone with hash and reason stays.

    drsr withdraw   the run is left out of everything from now on, and kept: what was made of it can be traced
    drsr erase      the run is gone, also from what was kept to save time; policies made of it are named

The tombstone is the run's rows without their text and without anything made of them, and a withdrawal that cannot be
taken back. An erased run is not taken in again when its file is read again. The store's files hold many runs each: they
are written anew without it, and the old ones deleted, so the store must belong to this catalog alone. Exported parts,
and what DVC keeps of them, are cleaned first, because the catalog knows what to look for there
(`offline/erased_exports.py`). Killed half-way, it is run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, case, delete, exists, func, select, update

from drsr.errors import InputError
from drsr.offline.catalog import ledger
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, StateFeatures
from drsr.offline.catalog.journal import note
from drsr.offline.catalog.label_tables import Interaction, Label, LabelExclusion, StateMeasurement
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.statements import insert_new
from drsr.offline.catalog.tables import (
    Candidate,
    DecisionState,
    FrozenTrajectory,
    Source,
    SourceFile,
    SplitGroup,
    Trajectory,
    TrajectoryFile,
    TrajectoryReward,
    Withdrawal,
)
from drsr.offline.featurize.files import FORMAT, FeatureBlock, read_file, write_file
from drsr.offline.featurize.views import get_view
from drsr.offline.freeze.exports import run_key
from drsr.offline.ingest.near_duplicates import text_of
from drsr.offline.ingest.splits import ERASED_GROUP
from drsr.offline.ingest.trajectories import Trajectory as Recorded
from drsr.offline.ingest.withdrawals import ERASED, withdraw, withdrawn_runs
from drsr.offline.store.artifacts import Artifact, ArtifactStore
from drsr.offline.store.kept import Kept

AT_ONCE = 500
"""Runs that are erased in one transaction."""
TABLES = tuple(
    str(table.__tablename__)
    for table in (Trajectory, SplitGroup, DecisionState, Candidate, StateMeasurement, Label, LabelExclusion)
)
"""Tables that a database writes anew after an erasure, so that no deleted row stays in its files."""
FEATURES = FORMAT.encode()
"""Stands in every file of features."""


class Erased(NamedTuple):
    """The result of an erasure."""

    runs: tuple[str, ...]
    """`source/external id` of each."""
    states: int
    labels: int
    files: int
    """Files of the store that were written anew or deleted."""
    policies: tuple[str, ...]
    """Versions of released policies that were made with one of them."""

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class _Doomed(NamedTuple):
    """A version of a run that goes."""

    id: int
    name: str
    content_hash: str
    blob: str

    @property
    def export_key(self) -> str:
        """Its name in every export."""
        source, _, external_id = self.name.partition("/")
        return run_key(source, external_id, self.content_hash)


def find_runs(
    connection: Connection, *, runs: Sequence[str] = (), source: str | None = None, task: str | None = None
) -> list[str]:
    """Return the names of the runs that are meant; InputError where there is none. One of the three is given.

    Of a list every name must be known: one that is misspelt would be taken for erased.
    """
    name = Source.name.concat("/").concat(Trajectory.external_id)
    query = select(name).select_from(Trajectory).join(Source, Source.id == Trajectory.source_id)
    query = query.distinct().order_by(name)
    if source is not None:
        wanted = [Source.name == source]
    elif task is not None:
        wanted = [Trajectory.task == task]
    else:
        wanted = [name.in_(runs[start : start + AT_ONCE]) for start in range(0, len(runs), AT_ONCE)]
    found = sorted({run for which in wanted for run in connection.execute(query.where(which)).scalars()})
    unknown = sorted(set(runs) - set(found))
    if unknown or not found:
        where = ", ".join(unknown[:5]) or source or task
        raise InputError("no run matches", where=where, hint="nothing was erased; drsr status lists the sources")
    return found


def require_reason(reason: str) -> None:
    if not reason.strip():
        raise InputError("a run is not erased without a reason", hint="--reason TEXT")


def erase(
    catalog: Catalog, artifacts: ArtifactStore, names: Sequence[str], reason: str, kept: Kept | None = None
) -> Erased:
    """Erase runs, all of their versions. Nothing is read of them afterwards, by any stage."""
    require_reason(reason)
    with catalog.reading() as connection:
        doomed = versions_of(connection, names)
        policies = _policies(connection, artifacts, doomed)
    features = _features_without(catalog, artifacts, doomed)
    packs = _packs_without(catalog, artifacts, doomed)
    with catalog.writing() as connection:
        known = {run.name: run.reason for run in withdrawn_runs(connection)}
        states, labels = _forget(connection, doomed)
        for file_id, (blob, count, rows) in features.items():
            if blob is None:
                connection.execute(delete(FeatureFile).where(FeatureFile.id == file_id))
            else:
                values = {"blob": blob, "states": count, "rows": rows}
                connection.execute(update(FeatureFile).where(FeatureFile.id == file_id).values(values))
        for row_id, key in packs.items():
            connection.execute(update(Trajectory).where(Trajectory.id == row_id).values(blob=key))
        for version in doomed:
            mine = update(Trajectory).where(Trajectory.id == version.id)
            connection.execute(mine.values(blob=version.content_hash, task=None, domain=None))  # where nothing lies
        for name in names:
            if not known.get(name, "").startswith(ERASED):
                withdraw(connection, name, f"{ERASED}{reason.strip()}", again=True)
        _rename_groups(connection, [version.id for version in doomed])
    if kept is not None:
        kept.forget([version.content_hash for version in doomed])
    return Erased(tuple(names), states, labels, _delete_unnamed(catalog, artifacts, doomed), policies)


def sentences(artifacts: ArtifactStore, doomed: Sequence[_Doomed], most: int = 10) -> list[str]:
    """Return the longest texts of some runs: whether they are gone is looked for afterwards."""
    said = {text for data in _texts(artifacts, doomed) for text in text_of(Recorded.from_json(data)).split("\n")}
    return sorted(said, key=lambda text: (-len(text), text))[:most]


def holding(artifacts: ArtifactStore, texts: Sequence[str]) -> list[str]:
    """Return the stored files that hold one of some texts. Every file of the store is unpacked and searched, whether
    the catalog names it or not."""
    wanted = [word for text in texts for word in (text.encode(), orjson.dumps(text)[1:-1]) if text]
    return [name for name in artifacts.stored() if any(word in artifacts.unpacked(name) for word in wanted)]


def _texts(artifacts: ArtifactStore, doomed: Sequence[_Doomed]) -> list[bytes]:
    """Return the stored bytes of some runs, as far as they exist."""
    gone = artifacts.missing(version.blob for version in doomed)
    return [artifacts.get(version.blob) for version in doomed if version.blob not in gone]


def versions_of(connection: Connection, names: Sequence[str]) -> list[_Doomed]:
    name = Source.name.concat("/").concat(Trajectory.external_id)
    columns = (Trajectory.id, name, Trajectory.content_hash, Trajectory.blob)
    query = select(*columns).join_from(Trajectory, Source, Source.id == Trajectory.source_id)
    query = query.where(name.in_(list(names)))
    return [_Doomed(*row) for row in connection.execute(query.order_by(Trajectory.id))]


def state_keys(connection: Connection, doomed: Sequence[_Doomed]) -> list[str]:
    """Return the keys of all states of these versions."""
    ids = [version.id for version in doomed]
    query = select(DecisionState.state_key).where(DecisionState.trajectory_id.in_(ids))
    return list(connection.execute(query).scalars())


def _policies(connection: Connection, artifacts: ArtifactStore, doomed: Sequence[_Doomed]) -> tuple[str, ...]:
    """The released policies that rest on a state of these runs."""
    keys = set(state_keys(connection, doomed))
    releases = connection.execute(select(PolicyRelease.version, PolicyRelease.states).order_by(PolicyRelease.id)).all()
    return tuple(version for version, states in releases if keys & set(orjson.loads(artifacts.get(states))))


def _features_without(
    catalog: Catalog, artifacts: ArtifactStore, doomed: Sequence[_Doomed]
) -> dict[int, tuple[str | None, int, int]]:
    """Write the feature files that hold states of these runs anew; by file: key, states and rows, None where empty."""
    ids = [version.id for version in doomed]
    with catalog.reading() as connection:
        query = (
            select(FeatureFile.id, FeatureFile.blob, FeatureView.name, FeatureView.version, DecisionState.state_key)
            .join(StateFeatures, StateFeatures.file_id == FeatureFile.id)
            .join(FeatureView, FeatureView.id == FeatureFile.view_id)
            .join(DecisionState, DecisionState.id == StateFeatures.state_id)
            .where(DecisionState.trajectory_id.in_(ids))
        )
        rows = connection.execute(query).all()
        views = {(row.name, row.version): get_view(connection, row.name, row.version) for row in rows}
    gone: dict[tuple[int, str, str, int], set[str]] = {}
    for row in rows:
        gone.setdefault((row.id, row.blob, row.name, row.version), set()).add(row.state_key)
    written: dict[int, tuple[str | None, int, int]] = {}
    for (file_id, blob, name, version), keys in gone.items():
        view = views[name, version]
        stored = read_file(artifacts, view, blob)
        places: dict[str, list[int]] = {}
        for place, key in enumerate(stored.state_keys):
            places.setdefault(key, []).append(place)
        blocks = [
            FeatureBlock(key, stored.prefix_hashes[at[0]], view.identity.layout_hash, stored.matrix[at])
            for key, at in places.items()
            if key not in keys
        ]
        new = write_file(artifacts, view, blocks) if blocks else None
        written[file_id] = (new, len(blocks), sum(len(block.matrix) for block in blocks))
    return written


def _packs_without(catalog: Catalog, artifacts: ArtifactStore, doomed: Sequence[_Doomed]) -> dict[int, str]:
    """Write the packs that hold these runs anew; returns the new key of every other run in them, by row."""
    going = {version.id for version in doomed}
    hashes = {version.content_hash for version in doomed}
    packs = sorted({version.blob.partition("@")[2].partition(":")[0] for version in doomed} - {""})
    moved: dict[int, str] = {}
    for pack in packs:
        with catalog.reading() as connection:
            query = select(Trajectory.id, Trajectory.blob).where(func.substr(Trajectory.blob, 66, 64) == pack)
            others = [(row_id, blob) for row_id, blob in connection.execute(query).tuples() if row_id not in going]
        staying = [(row_id, blob) for row_id, blob in others if blob.partition("@")[0] not in hashes]
        keys = artifacts.put_pack(Artifact(blob.partition("@")[0], artifacts.get(blob)) for _, blob in staying)
        moved |= {row_id: keys[blob.partition("@")[0]] for row_id, blob in staying}
    return moved


def _forget(connection: Connection, doomed: Sequence[_Doomed]) -> tuple[int, int]:
    """Delete all that was made of these versions; returns how many states and labels went."""
    ids = [version.id for version in doomed]
    query = select(DecisionState.id).where(DecisionState.trajectory_id.in_(ids))
    states = list(connection.execute(query).scalars())
    gone_rows = {
        "mark": ledger.marks(connection, ids),
        "state": ledger.states(connection, ids),
        "measurement": ledger.measurements(connection, state_ids=states),
    }
    note(connection, "erase", {name: dict.fromkeys(rows) for name, rows in gone_rows.items()})
    _count_files(connection, ids)
    labels = 0
    for table in (Interaction, Label, LabelExclusion, StateMeasurement, StateFeatures, Candidate):
        gone = connection.execute(delete(table).where(table.state_id.in_(states)))
        labels += gone.rowcount if table is Label else 0
    connection.execute(delete(DecisionState).where(DecisionState.id.in_(states)))
    for of_run in (FrozenTrajectory, TrajectoryReward, TrajectoryFile):
        connection.execute(delete(of_run).where(of_run.trajectory_id.in_(ids)))
    return len(states), labels


def _count_files(connection: Connection, ids: Sequence[int]) -> None:
    """Take the runs out of what their files are recorded to hold, as if they were read without them."""
    query = select(TrajectoryFile.source_file_id, func.count(func.distinct(Trajectory.external_id)))
    query = query.join(Trajectory, Trajectory.id == TrajectoryFile.trajectory_id).where(Trajectory.id.in_(ids))
    held = dict(connection.execute(query.group_by(TrajectoryFile.source_file_id)).tuples().all())
    before = ledger.files(connection, list(held))
    for file_id, count in held.items():
        left = case((SourceFile.trajectories > count, SourceFile.trajectories - count), else_=0)
        connection.execute(update(SourceFile).where(SourceFile.id == file_id).values(trajectories=left))
    note(connection, "erase", {"file": ledger.changed(before, ledger.files(connection, list(held)))})


def _rename_groups(connection: Connection, ids: Sequence[int]) -> None:
    """Give the groups that hold erased runs alone names without words: a task's name may be its text."""
    tombstone = exists().where(
        *(Withdrawal.source_id == Trajectory.source_id, Withdrawal.external_id == Trajectory.external_id),
        *(Withdrawal.taken_back_at.is_(None), Withdrawal.reason.startswith(ERASED)),
    )
    of_group = Trajectory.group_key == SplitGroup.group_key
    mine = select(Trajectory.group_key).where(Trajectory.id.in_(ids), Trajectory.group_key.startswith("task:"))
    alone = ~exists().where(of_group, ~tombstone)
    query = select(SplitGroup.group_key, SplitGroup.split).where(SplitGroup.group_key.in_(mine), alone)
    for key, split in connection.execute(query).tuples().all():
        rows = list(connection.execute(select(Trajectory.id).where(Trajectory.group_key == key)).scalars())
        before = ledger.runs(connection, rows)
        name = f"{ERASED_GROUP}{hashlib.sha256(key.encode()).hexdigest()}"
        insert_new(connection, SplitGroup, [{"group_key": name, "split": split}])
        connection.execute(update(Trajectory).where(Trajectory.id.in_(rows)).values(group_key=name))
        connection.execute(delete(SplitGroup).where(SplitGroup.group_key == key))
        note(connection, "erase", {"run": ledger.changed(before, ledger.runs(connection, rows))})


def _delete_unnamed(catalog: Catalog, artifacts: ArtifactStore, doomed: Sequence[_Doomed]) -> int:
    """Delete the stored files that hold these runs, and files of features that no row names any more.

    They are known by the runs' hashes: an erasure that was killed here goes on, when nothing leads to the texts.
    """
    named: set[str] = set()
    with catalog.reading() as connection:
        has_text = select(Trajectory.blob).where(Trajectory.has_text())
        for query in (has_text, select(FeatureFile.blob)):
            named.update(key.partition("@")[2].partition(":")[0] or key for key in connection.execute(query).scalars())
    unnamed = [name for name in artifacts.stored() if name not in named]
    gone = set(artifacts.holding({version.content_hash for version in doomed}, unnamed))
    for name in unnamed:
        if name not in gone:
            data = artifacts.unpacked(name)
            gone |= {name} if data.startswith(b"PAR1") and FEATURES in data else set()
    for name in sorted(gone):
        artifacts.delete(name)
    return len(gone)
