"""A made-up run that gives every comparator something to do, in both wire forms."""

from __future__ import annotations

from drsr.request.request import Protocol, Request, read_request
from tests.conversations import Conversation, Exchange, Turn

TASK = "Find out why order #W100 was charged twice, and refund the second charge of 42.50 to card_7."


def long_run(protocol: Protocol, turns: int = 23) -> Request:
    """Narration, outputs of many lines, and ids that come up again many turns later; no word of the user's behind the
    task."""
    body = Conversation("You work for a shop.", TASK, tuple(_turn(number) for number in range(turns)))
    return read_request(body.to_openai() if protocol == "openai" else body.to_anthropic(), protocol=protocol)


def _turn(number: int) -> Turn:
    # Every fifth turn looks at something from three turns ago again.
    wanted = f"order_{number - 3}_a" if number % 5 == 4 else f"order_{number}_a"
    lines = [
        f"order_{number}_{letter}: charge {number}{place} EUR, card_7, settled"
        for place, letter in enumerate("abcdefgh")
    ]
    lines[3] = f"order_{number}_d: charged twice, second charge ch_{number}99 open"
    lines += ["padding of a log that nobody needs, line after line, to make it long"] * 6
    text = ("Let me have a look at the next page.", "I look for the charge that was made twice.", "")[number % 3]
    return Turn("", text, (Exchange(f"call_{number}", "list_charges", {"order": wanted}, "\n".join(lines)),), "")
