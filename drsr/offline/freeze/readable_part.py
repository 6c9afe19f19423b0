"""The part of a recorded run that decisions can be frozen in: its messages up to the first that cannot be used.

A request holds nothing of what comes after it. So a message that cannot be read or tokenized exactly costs the
decisions after it, and its own decision, whose output could not be measured; the decisions before it are unaffected.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from drsr.decide.candidates import IneligibleReason
from drsr.errors import AlignmentError, RequestError
from drsr.offline.ingest.trajectories import Trajectory
from drsr.request.contracts import Tokenizer
from drsr.request.rendering import Rendering, render
from drsr.request.request import Request, read_request

UNREADABLE = "unreadable"


class ReadablePart(NamedTuple):
    """The longest beginning of a run that can be read and tokenized."""

    request: Request
    rendering: Rendering
    why_cut: str | None
    """Fault of the message that ends it; None if it is the whole run."""


def readable_part(trajectory: Trajectory, tokenizer: Tokenizer) -> ReadablePart:
    """Return the readable part. Raise RequestError or AlignmentError if the fault lies with no single message, so that
    no part of the run can be used."""
    request, error = read_beginning(trajectory)
    why_cut = None if error is None else why_unusable(error)
    while True:
        try:
            return ReadablePart(request, render(request, tokenizer), why_cut)
        except AlignmentError as failure:
            if failure.message is None:
                raise
            request = request.with_messages(request.messages[: failure.message])
            why_cut = why_unusable(failure)


def read_beginning(trajectory: Trajectory) -> tuple[Request, RequestError | None]:
    """Return the longest beginning of a run that can be read, and what is wrong after it.

    Once a request cannot be read, no longer one can be: bisection finds the end with a few readings.
    """

    def read(body: Any) -> Request:
        return read_request(body, protocol=trajectory.protocol, where=trajectory.external_id)

    def beginning(length: int) -> Request:
        return read({**trajectory.request, "messages": trajectory.request["messages"][:length]})

    def is_unreadable(length: int) -> bool:
        try:
            beginning(length)
        except RequestError:
            return True
        return False

    try:
        return read(trajectory.request), None
    except RequestError as error:
        messages = trajectory.request.get("messages")
        if not isinstance(messages, list) or is_unreadable(0):
            raise
        length = bisect_left(range(1, len(messages)), True, key=is_unreadable)
        return beginning(length), error


def why_unusable(error: RequestError | AlignmentError) -> str:
    """Return a keyword for counting, and what is wrong."""
    word = UNREADABLE if isinstance(error, RequestError) else IneligibleReason.ALIGNMENT_FAILURE
    return f"{word}: {error}"
