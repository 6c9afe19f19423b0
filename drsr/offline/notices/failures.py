"""Failures of runs and nights: noted in the catalog, and sent to a command or a webhook with what to do."""

from __future__ import annotations

import datetime
import sys
from typing import Any, NamedTuple

import drsr
from drsr.errors import DrsrError
from drsr.offline.notices.delivery import NotDelivered, is_url, post, run_command, without_secrets
from drsr.offline.run import stage_of
from drsr.settings import load_settings, redacted

BEFORE_ALL = "before the first stage"
LOOK = "read the log of the run; drsr COMMAND --debug shows where a fault of drsr is"


class Failure(NamedTuple):
    """A stage that failed, as a notice describes it."""

    what: str
    """The run that failed: `drsr run`, or a flow run by its name."""
    stage: str
    reason: str
    to_do: str

    def to_json(self, catalog: str, now: datetime.datetime) -> dict[str, Any]:
        """Return the notice. It names locations without their secrets."""
        return {
            "event": "drsr failure",
            "what": self.what,
            "stage": self.stage,
            "reason": without_secrets(self.reason),
            "what_to_do": without_secrets(self.to_do),
            "catalog": catalog,
            "at": now.isoformat(timespec="seconds"),
            "drsr": drsr.__version__,
        }


def failure_of(what: str, error: BaseException) -> Failure:
    """Describe an error that ended a run; `in_order` noted the stage on it."""
    stage = stage_of(error) or BEFORE_ALL
    if isinstance(error, DrsrError):
        reason = f"{error.where}: {error.what}" if error.where else error.what
        return Failure(what, stage, reason, error.hint or LOOK)
    return Failure(what, stage, f"{type(error).__name__}: {error}", LOOK)


def note_failure(failure: Failure) -> None:
    """Note a failure in the catalog, for the dashboard. Where the catalog cannot be used, that is what failed."""
    from drsr.offline.catalog.migrations import open_catalog
    from drsr.offline.publish.refreshes import note_failed

    try:
        with open_catalog(load_settings().catalog_url) as catalog:
            note_failed(catalog, failure.stage, without_secrets(failure.reason))
    except DrsrError as error:
        print(f"drsr: the failure was not noted in the catalog: {error.what}", file=sys.stderr)


def tell_failure(failure: Failure) -> bool:
    """Notify the configured command or webhook; return whether that worked. Never raise: the failure itself counts."""
    try:
        settings = load_settings()
        target = settings.on_failure
        if not target:
            return False
        notice = failure.to_json(redacted(settings.catalog_url), datetime.datetime.now(datetime.UTC))
        if is_url(target):
            post(target, notice)
        else:
            run_command(target, notice)
    except NotDelivered as error:
        print(f"drsr: the failure hook failed: {error}", file=sys.stderr)
        return False
    except Exception as error:  # whatever it is, it must not stand in for the failure that is to be told
        print(f"drsr: the failure hook failed: {type(error).__name__}", file=sys.stderr)
        return False
    return True
