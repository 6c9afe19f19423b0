"""The flow `backfill`: catch up on a range of days, of one source or of all.

With a location that has `{date}` in it, what lies there for each of the days is read first, and everything that waits
of the source is then frozen, labelled and featurized. A day may have nothing there, but not every day.

Without a location nothing is read: what came into the catalog on those days is labelled and featurized, for instance
under a new labeler, and the rest is left to the next night. Freezing costs little and knows no days: all of the source
is frozen.
"""

from __future__ import annotations

from typing import Any

from prefect import flow

from drsr.flows.parameters import HERE, Days, FanOut, Location, Name, Part, of_day
from drsr.flows.stage_tasks import in_time, run_name
from drsr.flows.stages.featurize import featurize
from drsr.flows.stages.freeze import freeze
from drsr.flows.stages.ingest import ingest
from drsr.flows.stages.label import label


@flow(name="backfill", flow_run_name=run_name)
def backfill(
    days: Days,
    location: Location | None = None,
    source: Name | None = None,
    fan_out: FanOut = HERE,
    view: Name = "default",
    labeler: Name = "default",
) -> dict[str, Any]:
    """Catch up. `source` is the name of an origin, as `drsr status` shows it."""
    done: dict[str, Any] = {}
    if location is not None:
        named = location if source is None else location.model_copy(update={"source": source})
        places = [of_day(named, day) for day in days.each()]
        done["ingest"] = in_time("ingest", lambda: ingest(places, gaps=True))
        part = Part(source=named.source)
    else:
        part = Part(source=source, days=days)
    done["freeze"] = in_time("freeze", lambda: freeze(part.source))
    done["label"] = in_time("label", lambda: label(part, fan_out, labeler))
    done["featurize"] = in_time("featurize", lambda: featurize(part, fan_out, view))
    return done
