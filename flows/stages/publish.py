"""The flow `publish`: a package in an index, if the policy is admissible and not worse than the released one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, task

from drsr.errors import ReleaseRefused
from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Name
from drsr.flows.places import opened
from drsr.flows.stage_tasks import GPU, TIMEOUTS, run_name
from drsr.policy.location import install_line

HELD_BACK = frozenset({"admissible", "not worse than the released policy"})
"""Checks whose failure is an outcome: the released policy stays. Any other failure is a fault, and fails the run."""


@task(name="publish-policy", tags=[GPU], **RETRIES)
def publish_calibrated(index: str, calibration: str | None, certified: bool) -> dict[str, Any]:
    """Publish, or say why the released policy stays."""
    from drsr.offline.audit.release import gated_order
    from drsr.offline.params import load_params
    from drsr.offline.publish.records import latest_releases
    from drsr.offline.publish.stage import find_calibration, publish
    from drsr.offline.publish.succession import NOT_WORSE
    from drsr.offline.store.kept import kept_here

    with opened() as place:
        order = gated_order(index=Path(index), device=place.settings.device, more_checks=(NOT_WORSE,), kept=kept_here())
        record = find_calibration(place.catalog, calibration, certified=certified, source=load_params().train.source)
        try:
            published = publish(place.catalog, place.artifacts, record, order)
        except ReleaseRefused as refusal:
            return held_back(refusal)
        with place.catalog.reading() as connection:
            (newest,) = latest_releases(connection, 1)
    if newest.version != published.record.version:
        return superseded(published.record.version, newest.version)
    return {
        "published": True,
        "is_new": published.is_new,
        "version": published.record.version,
        "abstains_always": published.record.abstains_always,
        "wheel": str(published.wheel.absolute()),
        "index": str(Path(index).absolute()),
        "lineage": published.record.lineage,
        "gates": [gate.row for gate in published.gates],
    }


@flow(name="publish", flow_run_name=run_name, timeout_seconds=TIMEOUTS["publish"])
def publish(index: Name = "var/index", calibration: Name | None = None, certified: bool = False) -> dict[str, Any]:
    """Publish the calibration whose key begins so; without one the latest plain one, or the latest certified one."""
    return publish_calibrated(index, calibration, certified)


def held_back(refusal: ReleaseRefused) -> dict[str, Any]:
    """Return the outcome of a policy that is held back; raise the refusal if something is wrong with it."""
    gates = [{"check": check, "passed": passed, "detail": detail} for check, passed, detail in refusal.gates]
    failed = {str(gate["check"]) for gate in gates if not gate["passed"]}
    if not failed or not failed <= HELD_BACK:
        raise refusal
    return {"published": False, "reason": refusal.what, "gates": gates}


def superseded(version: str, newest: str) -> dict[str, Any]:
    """Return the outcome for a policy that was published before a newer one."""
    back = install_line(f"drsr-policy=={version}")
    reason = f"this one was published as {version} and followed by {newest}; {back} goes back"
    return {"published": False, "reason": reason, "gates": []}
