"""The frames of `policy`: one row per release; of the newest its numbers, and the states that it was made from.

Releases are few whatever the data. The wheel and the list of states are read of the newest release only: older ones
were judged when they were the newest, and a published version never changes. The list is linear in the states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pandas as pd
from sqlalchemy import select

from drsr.expectations.frames.reading import TRAJECTORY, read_frame, with_trajectory
from drsr.expectations.rules import Frames
from drsr.offline.catalog.label_tables import Labeler
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.catalog.scorer_tables import CalibrationRun, TrainingRun
from drsr.offline.catalog.statements import among
from drsr.offline.catalog.tables import DecisionState, Source, Trajectory
from drsr.offline.publish.records import ReleaseRecord, latest_releases
from drsr.policy.location import read_wheel_policy

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from drsr.offline.catalog.engine import Catalog
    from drsr.offline.store.artifacts import ArtifactStore

_OF_CALIBRATION = ("max_cardinality", "uncertainty_coefficient", "risk_threshold", "removal_cap")


def policy_frames(catalog: Catalog, artifacts: ArtifactStore) -> Frames:
    with catalog.reading() as connection:
        releases = _releases(connection)
        newest = latest_releases(connection, 1)
        numbers = [row for release in newest for row in _numbers(connection, artifacts, release)]
        states = [_states(connection, artifacts, release) for release in newest]
    return {
        "releases": releases,
        "numbers": pd.DataFrame(numbers, columns=["version", "number", "in_policy", "in_catalog"]),
        "states": pd.concat(states) if states else pd.DataFrame(columns=["state_key", "trajectory", "task", "split"]),
    }


def _releases(connection: Connection) -> pd.DataFrame:
    query = (
        select(
            PolicyRelease.version,
            PolicyRelease.abstains_always,
            CalibrationRun.abstains_always.label("calibration_abstains"),
            PolicyRelease.golden_requests,
            PolicyRelease.gates,
            PolicyRelease.published_at,
            CalibrationRun.calibrated_at,
        )
        .join(CalibrationRun, CalibrationRun.id == PolicyRelease.calibration_run_id)
        .order_by(PolicyRelease.id)
    )
    frame = read_frame(connection, query)
    frame["gates"] = [len(gates) for gates in frame["gates"]]
    return frame


def _numbers(connection: Connection, artifacts: ArtifactStore, release: ReleaseRecord) -> list[dict[str, Any]]:
    """Read the wheel itself, next to the catalog's record. As text, since tau is null if the policy abstains."""
    chosen = (getattr(CalibrationRun, name) for name in _OF_CALIBRATION)
    query = (
        select(*chosen, TrainingRun.layout_hash, TrainingRun.seeds, Labeler.harm_tolerance, Labeler.backbone_identity)
        .join(TrainingRun, TrainingRun.id == CalibrationRun.training_run_id)
        .join(Labeler, Labeler.id == TrainingRun.labeler_id)
        .where(CalibrationRun.id == release.calibration_run_id)
    )
    catalog = connection.execute(query).mappings().one()
    policy = read_wheel_policy(artifacts.get(release.wheel), release.file_name)
    numbers = policy.numbers
    pairs = {name: (getattr(numbers, name), catalog[name]) for name in _OF_CALIBRATION}
    pairs |= {
        "version": (numbers.version, release.version),
        "layout_hash": (numbers.layout_hash, catalog["layout_hash"]),
        "harm_tolerance": (numbers.harm_tolerance, catalog["harm_tolerance"]),
        "backbone": (numbers.backbone.identity, catalog["backbone_identity"]),
        "seeds": (list(numbers.seeds), list(catalog["seeds"])),
        "identity": (policy.identity, release.identity),
    }
    return [
        {"version": release.version, "number": name, "in_policy": repr(here), "in_catalog": repr(there)}
        for name, (here, there) in pairs.items()
    ]


def _states(connection: Connection, artifacts: ArtifactStore, release: ReleaseRecord) -> pd.DataFrame:
    """One row per state that it was made from; without a split where the catalog does not know it."""
    keys: list[str] = orjson.loads(artifacts.get(release.states))
    query = (
        select(*TRAJECTORY, DecisionState.state_key, Trajectory.task, Trajectory.split)
        .join(Trajectory, Trajectory.id == DecisionState.trajectory_id)
        .join(Source, Source.id == Trajectory.source_id)
        .where(among(connection, DecisionState.state_key, keys))
    )
    known = with_trajectory(read_frame(connection, query))
    return pd.DataFrame({"state_key": keys}).merge(known, on="state_key", how="left")
