"""Runs that were imported without their texts: how many there are, and how to get the texts.

They are known by hash, source, task, group and split. Training to publishing need no more; whatever reads a run passes
them over and says so with these words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.ingest.corpus.table import TABLE, corpus_folder, known_corpora, read_table


class AbsentTexts(NamedTuple):
    """Current runs whose texts are not here."""

    runs: int
    of: int
    """Current runs in all."""
    sources: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.runs > 0

    @property
    def said(self) -> str:
        """Say how many they are; empty if there are none."""
        return f"{self.runs:,} of {self.of:,} runs are here without their texts" if self.runs else ""

    @property
    def hint(self) -> str:
        """The commands that bring the texts."""
        corpora = sorted({corpus for corpus in known_corpora() if _sources_of(corpus) & set(self.sources)})
        fetch = [f"drsr corpus fetch {corpus} && drsr ingest --corpus {corpus}" for corpus in corpora]
        return " && ".join(fetch) or f"drsr ingest the runs of {', '.join(self.sources)}"


def absent_texts(connection: Connection) -> AbsentTexts:
    """Count the current runs without their texts. Two queries."""
    every = select(func.count()).select_from(Trajectory).where(Trajectory.is_current())
    query = (
        select(Source.name, func.count())
        .join(Trajectory, Trajectory.source_id == Source.id)
        .where(Trajectory.is_current(), ~Trajectory.has_text())
        .group_by(Source.name)
    )
    by_source = dict(connection.execute(query).tuples().all())
    of = connection.execute(every).scalar_one()
    return AbsentTexts(sum(by_source.values()), of, tuple(sorted(by_source)))


def states_without_text(connection: Connection, state_keys: Sequence[str] | None) -> int:
    """Count the states among these, or of all current runs, whose runs are here without their texts."""
    query = (
        select(func.count())
        .select_from(DecisionState)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .where(~Trajectory.has_text())
    )
    mine = Trajectory.is_current() if state_keys is None else among(connection, DecisionState.state_key, state_keys)
    count: int = connection.execute(query.where(mine)).scalar_one()
    return count


def _sources_of(corpus: str) -> set[str]:
    return {file.source for file in read_table(corpus_folder(corpus) / TABLE)[0]}
