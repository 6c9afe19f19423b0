"""Keeping a view's files in order: small ones are merged, and the contents of a lost one are forgotten, to be computed
again.

Every trajectory leaves a file of its own. Thousands of them would take longer to open than to read, so files are
merged, small ones among small ones: a row is written again a few times at most, however large the view grows. The old
files stay in the artifact store, for processes that are still reading them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from sqlalchemy import and_, delete, select, update

from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.feature_tables import FeatureFile, StateFeatures
from drsr.offline.catalog.statements import among, insert_new
from drsr.offline.catalog.tables import SPLITS, DecisionState
from drsr.offline.featurize.files import SMALL, FeatureBlock, FeatureRows, read_files, write_file
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.store.artifacts import ArtifactStore

FULL = 1_024
"""States of a file that is merged no more: about 16 MB."""
ENOUGH = 8
"""Number of files of a size from which they are merged."""


class _File(NamedTuple):
    id: int
    blob: str
    states: int


def merge_small_files(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> int:
    """Merge files of like size; returns how many were merged away. Repeating it, or two at once, changes nothing."""
    merged = 0
    for split in SPLITS:
        for lower, upper in ((0, SMALL), (SMALL, FULL)):
            files = _files(catalog, view, split, lower, upper)
            if len(files) >= ENOUGH:
                merged += sum(_merge(catalog, artifacts, view, split, group) for group in _groups(files))
    return merged


def lost_files(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> dict[str, int]:
    """Return the files of a view that are gone from the artifact store: how many states each held."""
    query = select(FeatureFile.blob, FeatureFile.states).where(FeatureFile.view_id == view.id)
    with catalog.reading() as connection:
        states = dict(connection.execute(query).tuples().all())
    return {blob: states[blob] for blob in artifacts.missing(states)}


def forget_lost(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView) -> int:
    """Forget the features whose file is gone from the artifact store; returns of how many states."""
    lost = lost_files(catalog, artifacts, view)
    if lost:
        with catalog.writing() as connection:
            still = artifacts.missing(lost)  # another worker may have computed them again meanwhile
            gone = and_(FeatureFile.view_id == view.id, among(connection, FeatureFile.blob, sorted(still)))
            named = select(FeatureFile.id).where(gone)
            connection.execute(delete(StateFeatures).where(StateFeatures.file_id.in_(named)))
            connection.execute(delete(FeatureFile).where(gone))
    return sum(lost.values())


def _files(catalog: Catalog, view: RegisteredView, split: str, lower: int, upper: int) -> list[_File]:
    """Files of a split with at least `lower` and fewer than `upper` states, oldest first."""
    query = (
        select(FeatureFile.id, FeatureFile.blob, FeatureFile.states)
        .where(FeatureFile.view_id == view.id, FeatureFile.split == split)
        .where(FeatureFile.states >= lower, FeatureFile.states < upper)
        .order_by(FeatureFile.id)
    )
    with catalog.reading() as connection:
        return [_File(*row) for row in connection.execute(query)]


def _groups(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Consecutive files that make a full one together; the last group may stay smaller."""
    group: list[_File] = []
    states = 0
    for file in files:
        group.append(file)
        states += file.states
        if states >= FULL:
            yield group
            group, states = [], 0
    if len(group) > 1:
        yield group


def _merge(catalog: Catalog, artifacts: ArtifactStore, view: RegisteredView, split: str, group: list[_File]) -> int:
    """Write one file for a group, then let the rows name it; nothing happens if the group has changed since."""
    ids = [file.id for file in group]
    belongs = (
        select(StateFeatures.state_id, DecisionState.state_key, StateFeatures.file_id)
        .join(DecisionState, DecisionState.id == StateFeatures.state_id)
        .where(StateFeatures.view_id == view.id, StateFeatures.file_id.in_(ids))
    )
    with catalog.reading() as connection:
        rows = connection.execute(belongs).all()
    wanted = {(key, file_id) for _, key, file_id in rows}
    stored = zip(group, read_files(artifacts, view, [file.blob for file in group]), strict=True)
    blocks = [block for file, part in stored for block in _blocks(view, part) if (block.state_key, file.id) in wanted]
    if not blocks:  # another worker merged all of them since they were listed
        return 0
    blob = write_file(artifacts, view, blocks)
    new = {
        "view_id": view.id,
        "split": split,
        "blob": blob,
        "states": len(blocks),
        "rows": sum(len(block.matrix) for block in blocks),
        "written_at": datetime.datetime.now(datetime.UTC),
    }
    with catalog.writing() as connection:
        if set(connection.execute(belongs).all()) != set(rows):  # another worker was quicker
            return 0
        insert_new(connection, FeatureFile, [new])
        query = select(FeatureFile.id).where(FeatureFile.view_id == view.id, FeatureFile.blob == blob)
        file_id = connection.execute(query).scalar_one()
        connection.execute(update(StateFeatures).where(StateFeatures.file_id.in_(ids)).values(file_id=file_id))
        connection.execute(delete(FeatureFile).where(FeatureFile.id.in_(ids)))
    return len(group)


def _blocks(view: RegisteredView, rows: FeatureRows) -> Iterator[FeatureBlock]:
    """Yield the states of a file, one after another."""
    for key, numbers in groupby(range(len(rows.state_keys)), key=lambda number: rows.state_keys[number]):
        members = np.array(list(numbers))
        prefix = rows.prefix_hashes[members[0]]
        yield FeatureBlock(key, prefix, view.identity.layout_hash, rows.matrix[members])
