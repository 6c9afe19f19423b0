"""The flow `calibrate`: choose the operating point of the trained scorer on validation, and show its curve."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from prefect import flow, task

from drsr.flows.faults import RETRIES
from drsr.flows.parameters import Name
from drsr.flows.places import opened
from drsr.flows.stage_tasks import TIMEOUTS, run_name
from drsr.flows.summaries import show_plot


@task(name="choose-operating-point", **RETRIES)
def choose_operating_point(view: str, labeler: str, certified: bool) -> dict[str, Any]:
    """Calibrate, and leave the operating curve as an artifact of the run."""
    from drsr.offline.calibrate.files import write_files
    from drsr.offline.calibrate.stage import calibrate, operating_point, plain_search
    from drsr.offline.params import load_params
    from drsr.offline.train.stage import read_inputs

    params = load_params()
    with opened() as place, tempfile.TemporaryDirectory() as folder:
        inputs = read_inputs(place.catalog, place.artifacts, view, labeler, "calibrate", params.train.source)
        calibrated = calibrate(place.catalog, place.artifacts, inputs, params, certified=certified)
        searched = plain_search(place.artifacts, inputs, calibrated, params.calibrate)
        files = write_files(Path(folder), searched, operating_point(calibrated.record), params.calibrate)
        plot = next(path for path in files if path.name == "operating_curve.png")
        show_plot("operating-curve", plot.read_bytes(), "What is removed, and at what risk, at every threshold.")
    return calibrated.record.to_json() | {"is_new": calibrated.is_new}


@flow(name="calibrate", flow_run_name=run_name, timeout_seconds=TIMEOUTS["calibrate"])
def calibrate(view: Name = "default", labeler: Name = "default", certified: bool = False) -> dict[str, Any]:
    """Choose K, beta and tau."""
    return choose_operating_point(view, labeler, certified)
