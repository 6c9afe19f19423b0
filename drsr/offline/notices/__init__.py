"""Notices: a failure to the catalog and to a command or webhook, and every stage as OpenLineage events.

    on_failure = "notify-team --now"               # drsr.toml, or DRSR_ON_FAILURE: a command, or an https URL
    lineage = "https://marquez.example/api/v1/lineage"     # or DRSR_LINEAGE: a URL, or a file

A notice that cannot be delivered is said on standard error and changes nothing else.
"""

from drsr.offline.notices.failures import Failure, failure_of, note_failure, tell_failure
from drsr.offline.notices.lineage import emitting

__all__ = ["Failure", "emitting", "failure_of", "note_failure", "tell_failure"]
