"""OpenLineage events of a stage: START, then COMPLETE or FAIL, with the datasets that it reads and makes.

The public specification, version 2-0-2. A dataset is what a stage makes in one catalog: its namespace is the catalog's
address without secrets, its name that of the stage's export. What `ingest` reads are the locations it was given.
"""

from __future__ import annotations

import datetime
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drsr
from drsr.errors import DrsrError
from drsr.offline.notices.delivery import NotDelivered, append_line, is_url, post, without_secrets
from drsr.offline.stages import STAGES, Stage
from drsr.settings import load_settings, redacted

PRODUCER = f"urn:drsr:{drsr.__version__}"
SPEC = "https://openlineage.io/spec"
SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_STAGES = {stage.name: stage for stage in STAGES}

Event = dict[str, Any]


@dataclass(slots=True)
class Ending:
    """The ways in which a stage ends that raises nothing."""

    failed: str | None = None
    """Reason of the failure, if it failed."""


@contextmanager
def emitting(stage: str, locations: Sequence[str] = ()) -> Iterator[Ending]:
    """Emit a stage's START, and its COMPLETE or FAIL at the end of the block, if `lineage` is set."""
    ending = Ending()
    settings = load_settings()
    target, catalog = settings.lineage, redacted(settings.catalog_url)
    if not target:
        yield ending
        return
    run_id = str(uuid.uuid4())

    def send(kind: str, why: str | None = None) -> None:
        now = datetime.datetime.now(datetime.UTC)
        _deliver(target, event(kind, _STAGES[stage], run_id, catalog, locations, now, why))

    send("START")
    try:
        yield ending
    except BaseException as error:
        send("FAIL", error.what if isinstance(error, DrsrError) else str(error) or type(error).__name__)
        raise
    send("COMPLETE" if ending.failed is None else "FAIL", ending.failed)


def event(
    kind: str,
    stage: Stage,
    run_id: str,
    catalog: str,
    locations: Sequence[str],
    now: datetime.datetime,
    why: str | None = None,
) -> Event:
    """Return one event. A failed stage keeps its outputs: what it recorded before stays."""
    run: Event = {"runId": run_id}
    if why is not None:
        details = {"message": without_secrets(why), "programmingLanguage": "Python"}
        run["facets"] = {"errorMessage": _facet("1-0-1/ErrorMessageRunFacet", **details)}
    kinds = {"processingType": "BATCH", "integration": "DRSR", "jobType": "STAGE"}
    return {
        "eventType": kind,
        "eventTime": now.isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
        "run": run,
        "job": {
            "namespace": "drsr",
            "name": stage.name,
            "facets": {
                "jobType": _facet("2-0-3/JobTypeJobFacet", **kinds),
                "documentation": _facet("1-1-0/DocumentationJobFacet", description=stage.makes),
            },
        },
        "inputs": [
            *(_location(uri) for uri in locations),
            *({"namespace": catalog, "name": _STAGES[name].folder} for name in stage.reads),
        ],
        "outputs": [{"namespace": catalog, "name": stage.folder}],
    }


def _location(uri: str) -> Event:
    """Return a location as a dataset: `s3://bucket` and the path in it, or `file` and an absolute path."""
    shown = redacted(uri)
    scheme, found, rest = shown.partition("://")
    if not found:
        return {"namespace": "file", "name": str(Path(shown).absolute())}
    host, _, path = rest.partition("/")
    return {"namespace": f"{scheme}://{host}", "name": path or "/"}


def _facet(schema: str, **values: str) -> Event:
    version, _, name = schema.partition("/")
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{version}/{name}.json#/$defs/{name}", **values}


def _deliver(target: str, notice: Event) -> None:
    try:
        if is_url(target):
            post(target, notice)
        else:
            append_line(Path(target), notice)
    except NotDelivered as error:
        print(f"drsr: an OpenLineage event was not delivered: {error}", file=sys.stderr)
