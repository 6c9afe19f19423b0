"""Observation masking: only the last N tool outputs stay, older ones are replaced by a line saying so.

Not in the paper, and worth a row because coding agents do it by default.

Assumptions. N = 10; results that hold an image or a file stay; nothing is replaced by something longer.
"""

from __future__ import annotations

from drsr.offline.bench.comparators.contract import Keep, PlainMethod, Rewrite
from drsr.offline.bench.comparators.edits import with_texts
from drsr.offline.bench.summarisers.summariser import Summariser
from drsr.request.parts import PartRef, Result
from drsr.request.request import Request


class ObservationMasking(PlainMethod):
    """Keeps the last `outputs` tool outputs."""

    assumptions = (
        "Ten outputs stay.",
        "Results with an image or a file stay, and so does what is not longer than the line that would replace it.",
    )
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.USER})

    def __init__(self, outputs: int = 10) -> None:
        self.outputs = outputs
        self.name = f"observation_masking_{outputs}"
        self.title = f"Observation masking (last {outputs})"

    def rewrite(self, request: Request, state: None, summariser: Summariser) -> Rewrite:
        results = [
            (PartRef(index, number), part)
            for index, message in enumerate(request.messages)
            for number, part in enumerate(message.parts)
            if isinstance(part, Result) and not message.demonstration
        ]
        old = results[: max(0, len(results) - self.outputs)]
        masked = {ref: _mask(part) for ref, part in old if not part.opaque and len(_mask(part)) < len(part.text)}
        return Rewrite(with_texts(request, masked))


def _mask(result: Result) -> str:
    return f"[Old tool output: {len(result.text.splitlines())} lines omitted.]"
