"""Feature files one after another, and the little that is kept of them: counts, hashes, and a sample of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pyarrow.parquet
from sqlalchemy import select

from drsr.errors import ArtifactCorrupt
from drsr.offline.catalog.feature_tables import StateFeatures
from drsr.offline.catalog.tables import Candidate, DecisionState, Trajectory
from drsr.offline.featurize.files import KEYS, columns_of, matrix_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from drsr.offline.featurize.views import RegisteredView
    from drsr.offline.store.artifacts import ArtifactStore


FROZEN_COLUMNS = ("structural_token_position", "structural_tokens", "structural_direct_saving")
"""The columns of a view that freezing knows, too."""


def frozen_candidates(connection: Connection, view: RegisteredView) -> dict[str, NDArray[np.float64]]:
    """By state the numbers that these columns must hold: [candidates, columns].

    Freezing is an earlier stage than featurizing, which tokenizes the run again: place, size and saving of a candidate
    are known twice. A file with rows of another state, of other candidates or tokens does not get past all three.
    """
    query = (
        select(
            DecisionState.state_key,
            Candidate.token_spans,
            Candidate.direct_saving,
            StateFeatures.request_tokens,
        )
        .join(DecisionState, DecisionState.id == Candidate.state_id)
        .join(StateFeatures, StateFeatures.state_id == DecisionState.id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(StateFeatures.view_id == view.id, StateFeatures.outcome == "stored", Trajectory.is_current())
        .order_by(Candidate.state_id, Candidate.position)
    )
    found: dict[str, list[tuple[float, float, float]]] = {}
    for key, spans, saving, request_tokens in connection.execute(query):
        tokens = sum(stop - start for start, stop in spans)
        numbers = (spans[0][0] / request_tokens, np.log1p(tokens), np.log1p(saving))
        found.setdefault(key, []).append(numbers)
    return {key: np.array(rows) for key, rows in found.items()}


class FeatureReading:
    """Read the files of a view. It looks at them itself, so that what a reader would refuse gets a verdict."""

    def __init__(
        self,
        names: Sequence[str],
        frozen: Mapping[str, NDArray[np.float64]] | None = None,
        *,
        of_views: bool = False,
    ) -> None:
        """`names` are the view's columns; `frozen` has by state what FROZEN_COLUMNS must hold. Light columns describe
        the part of a request that was labelled as if it were all of it: `of_views`."""
        self.rows: dict[str, int] = {}
        """By state how many rows its file has of it."""
        self.prefixes: dict[str, str] = {}
        """By state the hash of the tokens that its rows were computed from."""
        self.other_candidates: dict[str, int] = {}
        """By state how many of its rows are not of the candidate that was frozen."""
        self.non_finite: NDArray[np.int64] = np.zeros(len(names), dtype=np.int64)
        """By column how many values are infinite or not a number."""
        self.sampled: list[tuple[str, int]] = []
        """State and candidate of each row of the sample."""
        self._names = list(names)
        self._frozen = frozen or {}
        self._of_views = of_views
        self._sample: list[NDArray[np.float32]] = [np.empty((0, len(names)), dtype=np.float32)]

    @property
    def sample(self) -> NDArray[np.float32]:
        """The rows of the states that were to be sampled: [rows, columns]."""
        return np.concatenate(self._sample)

    def add(
        self, artifacts: ArtifactStore, blob: str, states: Collection[str], sampled: Collection[str] = ()
    ) -> dict[str, Any]:
        """Read these states in a file; returns what the file says of itself. ArtifactCorrupt if it cannot be read.

        The rows of those that are to be sampled are kept.
        """
        data = artifacts.get(blob)
        try:
            table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read(use_threads=False)
        except (pyarrow.ArrowException, OSError) as error:
            raise ArtifactCorrupt(f"is not a Parquet file: {error}", where=f"feature file {blob}") from None
        found, expected = columns_of(table, self._names), [*KEYS, *self._names]
        about = {
            "other_columns": 0 if found == expected else max(1, len(set(found) ^ set(expected))),
            "layout_hash": (table.schema.metadata or {}).get(b"layout_hash", b"").decode(),
        }
        if not set(KEYS) <= set(found):
            return about  # whose rows these are, nobody can tell: its states are without features
        keys, candidates, prefixes = (table.column(name).to_pylist() for name in KEYS)
        mine = np.array([row for row, key in enumerate(keys) if key in states], dtype=np.int64)
        for row in mine:
            self._count(keys[row], prefixes[row])
        matrix = matrix_of(table, self._names)[mine]
        self.non_finite += (~np.isfinite(matrix)).sum(axis=0)
        owners = [(keys[row], candidates[row]) for row in mine]
        for (key, _), agrees in zip(owners, self._as_frozen(matrix, owners), strict=True):
            self.other_candidates[key] = self.other_candidates.get(key, 0) + (not agrees)
        kept = [place for place, row in enumerate(mine) if keys[row] in sampled]
        self._sample.append(matrix[kept])
        self.sampled += [owners[place] for place in kept]
        return about

    def _as_frozen(self, matrix: NDArray[np.float32], owners: Sequence[tuple[str, int]]) -> NDArray[np.bool_]:
        """For each row whether it says of its candidate what freezing said, to the rounding of 32 bits. A view without
        any such column says nothing."""
        if not set(FROZEN_COLUMNS) & set(self._names):
            return np.ones(len(owners), dtype=np.bool_)
        expected = np.full((len(owners), len(FROZEN_COLUMNS)), np.nan)
        for row, (key, candidate) in enumerate(owners):
            known = self._frozen.get(key)
            if known is not None and candidate in range(len(known)):
                expected[row] = known[candidate]
        found = np.full_like(expected, np.nan)
        for place, name in enumerate(FROZEN_COLUMNS):
            if name in self._names:
                found[:, place] = matrix[:, self._names.index(name)]
        if self._of_views:
            _move_into_views(expected[:, 0], found[:, 0], [key for key, _ in owners])
        tolerance = 1e-6 if self._of_views else 1e-7
        agrees: NDArray[np.bool_] = np.isclose(found, expected, rtol=1e-6, atol=tolerance).all(axis=1)
        return agrees

    def _count(self, state: str, prefix: str) -> None:
        self.rows[state] = self.rows.get(state, 0) + 1
        if self.prefixes.setdefault(state, prefix) != prefix:
            self.prefixes[state] = f"{self.prefixes[state]} and {prefix}"


def _move_into_views(expected: NDArray[np.float64], found: NDArray[np.float64], keys: Sequence[str]) -> None:
    """Express the places of each state's candidates in its view, in place: a stretch of the request, which nobody kept.

    First and last candidate say where the view begins and ends, and those between must lie where freezing saw them. A
    view is no longer than its request, so nothing moves closer together.
    """
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    for mine in rows.values():
        first, last = mine[0], mine[-1]
        frozen, seen = expected[last] - expected[first], found[last] - found[first]
        if frozen > 0 and seen >= frozen - 1e-6:
            expected[mine] = found[first] + (expected[mine] - expected[first]) * (seen / frozen)
