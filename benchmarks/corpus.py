"""Describe a measured corpus: states, sets, unsafe shares, interactions and lengths, by source and by cardinality.

    DRSR_CATALOG_URL=... python -m benchmarks.corpus

Reads the labels of the configured catalog and prints the tables of docs/benchmarks.md. Nothing is timed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any

from sqlalchemy import Connection, select

from drsr.offline.catalog.label_tables import Interaction, Label, StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.settings import load_settings


def by_source(connection: Connection) -> list[list[str]]:
    """Return one row per source: how many states and sets, how long, how unsafe."""
    query = (
        select(
            Source.name,
            Trajectory.task,
            Trajectory.domain,
            StateMeasurement.state_id,
            StateMeasurement.context_tokens,
            StateMeasurement.target_tokens,
        )
        .join(DecisionState, DecisionState.id == StateMeasurement.state_id)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(StateMeasurement.outcome == "labelled", Trajectory.is_current())
    )
    states = connection.execute(query).all()
    unsafe: dict[int, list[bool]] = {}
    for state, is_unsafe in connection.execute(select(Label.state_id, Label.unsafe)):
        unsafe.setdefault(state, []).append(is_unsafe)
    names = sorted({row[0] for row in states})
    parts = [(name, [row for row in states if row[0] == name]) for name in names] + [("all", list(states))]
    return [[name, *_row(rows, unsafe)] for name, rows in parts]


def _row(rows: Sequence[Any], unsafe: dict[int, list[bool]]) -> list[str]:
    verdicts = [verdict for row in rows for verdict in unsafe[row[3]]]
    return [
        f"{len(rows):,}",
        f"{len({row[1] for row in rows}):,}",
        f"{len(verdicts):,}",
        f"{mean(verdicts):.0%}",
        f"{median(row[4] for row in rows):,.0f}",
        f"{median(row[5] for row in rows):,.0f}",
    ]


def by_cardinality(connection: Connection) -> list[list[str]]:
    """Return one row per number of Blocks: unsafe share, median harm, mean size of the interaction."""
    harms: dict[int, list[tuple[float, bool]]] = {}
    for cardinality, harm, is_unsafe in connection.execute(select(Label.cardinality, Label.harm, Label.unsafe)):
        harms.setdefault(cardinality, []).append((harm, is_unsafe))
    residuals: dict[int, list[float]] = {}
    for mask, residual in connection.execute(select(Interaction.mask, Interaction.residual)):
        residuals.setdefault(mask.bit_count(), []).append(abs(residual))
    return [
        [
            str(cardinality),
            f"{len(found):,}",
            f"{mean(is_unsafe for _, is_unsafe in found):.0%}",
            f"{median(harm for harm, _ in found):.4f}",
            f"{mean(residuals[cardinality]):.3f}" if cardinality in residuals else "-",
        ]
        for cardinality, found in sorted(harms.items())
    ]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    with open_catalog(load_settings().catalog_url) as catalog, catalog.reading() as connection:
        print(markdown(["source", "states", "tasks", "sets", "unsafe", "context", "target"], by_source(connection)))
        print()
        print(markdown(["Blocks", "sets", "unsafe", "median harm", "mean of abs. I"], by_cardinality(connection)))


if __name__ == "__main__":
    main()
