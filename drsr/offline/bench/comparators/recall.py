"""When a stored page is read again: the rule that stands for an agent's own decision to call a recall tool.

A recorded run was not offered such a tool, so nobody knows when its model would have called it. The rule: where the
newest turn names something (an id, a path, a number) that is nowhere in the visible context and is in a stored page,
that page is read again.
"""

from __future__ import annotations

from collections.abc import Sequence

from drsr.offline.bench.comparators.identifiers import identifiers
from drsr.offline.bench.comparators.transcript import conversation, transcript
from drsr.request.history import History
from drsr.request.request import Request

SCRIPTED_RECALL = (
    "When the model would call for a stored page is not recorded; a rule stands for it: the newest turn names "
    "something that is in a page and nowhere in the visible context."
)


def newest_turn(history: History) -> str:
    """The last Step and what followed it: what an agent would state as its intent."""
    first = history.steps[-1].message if history.steps else 0
    return transcript(history.request.messages[first:])


def visible_before(shown: Request, history: History, until: int) -> str:
    """All that the agent still sees when it comes to its newest turn. `shown` is the request without the messages that
    were put away, those before `until`."""
    newest = history.steps[-1].message if history.steps else 0
    behind = len(history.request.messages) - max(newest, until)
    return conversation(shown.with_messages(shown.messages[: len(shown.messages) - behind]))


def wanted_page(intent: str, visible: str, pages: Sequence[str]) -> tuple[int, frozenset[str]] | None:
    """The page that holds most of what the intent names and the visible context before it does not; and those names."""
    missing = identifiers(intent) - identifiers(visible)
    found = [(len(missing & identifiers(page)), -number) for number, page in enumerate(pages)]
    best = max(found, default=(0, 0))
    return (-best[1], missing & identifiers(pages[-best[1]])) if best[0] else None
