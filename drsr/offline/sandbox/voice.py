"""Word what the scripted agent says: which sentence, how talkative, when it thinks aloud.

All choices follow from the task's text and the move's name; only notes also depend on the output they are taken from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

FETCHING_AGAIN = (
    "I need a detail that I no longer have in front of me, so I am looking it up again.",
    "That value is not in view any more. Fetching it once more.",
    "Before I go on I have to look at this again.",
)
GIVING_UP = (
    "I cannot find the detail I need any more, so I have to stop here without finishing.",
    "I looked again and the information is gone. I am not able to complete this.",
)

OPENERS = (
    "Okay.", "Right.", "Good.", "Got it.", "Thanks.", "Fine.", "Noted.", "Makes sense.", "Moving on.", "Next step.",
    "On to the next part.", "So far so good.", "Let me continue.", "Clear enough.", "That helps.", "Alright.",
    "Good to know.", "I see.", "Continuing.", "One thing at a time.",
)  # fmt: skip

CHATTER = (
    "I will keep the changes small and check each one as I go.",
    "Nothing here looks out of the ordinary, so I am staying with the plan.",
    "This should not take long, and I will say so if something unexpected turns up.",
    "I would rather look twice than guess, since it is cheap to look.",
    "If this turns out to be a dead end I will simply go back one step.",
    "I am deliberately not touching anything else while I am in here.",
    "There is probably a quicker way, but this one is easy to follow afterwards.",
    "Just to be transparent about progress: we are roughly where I expected to be.",
    "I have seen similar set-ups before, and the pieces usually fit together in this order.",
    "For the record, I have not changed anything up to this point that was not asked for.",
    "It is worth being careful at this stage, because mistakes tend to show up only at the end.",
    "Some of this is only for context and may not matter later.",
    "I will come back to the open question once the basics are in place.",
    "As usual the first impression may be wrong, so I prefer to see it with my own eyes.",
    "Please bear with me for a moment while I get an overview.",
    "That was the easy part; what comes now decides whether the rest works.",
    "I am going through this in the order in which it was described.",
    "No surprises yet, which is the best kind of progress.",
    "A short look now saves a long explanation later.",
    "Everything is still reversible at this point, so there is no risk in going ahead.",
    "I do not expect this to be the interesting part, but it belongs to a proper job.",
    "Once this is through, only the routine work remains.",
    "I am keeping an eye on side effects, and there have been none.",
    "The names are a little confusing at first, but they become clear with use.",
    "Small detour, then straight back to the actual question.",
    "We are making steady progress and there is nothing that blocks us.",
    "My working assumption holds, and I will test it again at the end.",
    "I try not to jump to conclusions before the facts are on the table.",
    "This is the kind of detail that is easily overlooked when one is in a hurry.",
    "Let us see whether that matches what people told us.",
)

NOTING = ("For later:", "Worth keeping:", "Note to self:", "I keep in mind:", "This may matter again:", "Writing down:")

MUSINGS = (
    "The user wants a result they can rely on, so I should verify rather than assume.",
    "I should keep track of what is evidence and what is only background.",
    "What is the smallest step that brings me closer? Probably looking at the next source.",
    "There are two ways to go about this; the direct one is enough here.",
    "I must not forget to report the outcome in plain words at the end.",
    "Let me think about what could go wrong before I act on this.",
)


_TALKATIVE, _SPARE, _THINKING, _QUIET = 7, 6, 5, (3, 4)
"""Moves left at which a move may be talkative, has words to spare, may be thought over, and says hardly anything."""


class Voice:
    """The wording of one move of one task."""

    def __init__(self, prompt: str, move: str, moves_left: int = 0) -> None:
        """Only early moves have words to spare for small talk, thoughts and notes.

        What is said late stands behind most deleted Blocks, and is computed again for each set of them.
        """
        self._dice = Random(f"{move}\n{prompt}")
        self._talkative, self._spare = moves_left >= _TALKATIVE, moves_left >= _SPARE
        temper = Random(f"temper\n{prompt}")
        self._silence = temper.uniform(0.1, 0.4) if self._spare else temper.uniform(0.6, 0.95)
        if moves_left in _QUIET:
            self._silence = 0.95
        self._chatter = temper.uniform(0.1, 0.5) if self._talkative else temper.uniform(0.05, 0.2)
        self._notes = temper.choice((0.0, 0.2, 0.5))
        self._thinks = moves_left >= _THINKING
        self._musing = temper.choice((0.0, 0.2, 0.4)) if self._talkative else 0.0

    def choose(self, texts: Sequence[str]) -> str:
        return self._dice.choice(texts)

    def text(self, texts: Sequence[str]) -> str | None:
        """Return the text of a message that has calls: one of these, with or without small talk around it; or none at
        all."""
        dice = self._dice
        text = dice.choice(texts)
        if self._spare and dice.random() < 0.2:
            text = f"{dice.choice(OPENERS)} {text}"
        if self._spare and dice.random() < self._chatter:
            text = " ".join([text, *dice.sample(CHATTER, dice.choice((2, 4, 5)) if self._talkative else 1)])
        return None if dice.random() < self._silence else text

    def thought(self, thinks: Sequence[str]) -> str | None:
        """Return the reasoning of a message, mostly none."""
        dice = self._dice
        if self._thinks and thinks and dice.random() < 0.5:
            return dice.choice(thinks)
        return " ".join(dice.sample(MUSINGS, dice.choice((1, 2)))) if dice.random() < self._musing else None

    def notes(self, output: str, task: str) -> str | None:
        """Return a line of the latest output, repeated for later; mostly none. One with words of the task is
        preferred."""
        dice = self._dice
        intro = dice.choice(NOTING)
        lines = [line for line in output.splitlines() if 8 <= len(line) <= 60]
        if not self._spare or dice.random() >= self._notes or len(lines) < 2:
            return None
        words = set(re.findall(r"\w{4,}", task))
        dice.shuffle(lines)
        best = max(lines, key=lambda line: len(words.intersection(re.findall(r"\w{4,}", line))))
        return f"{intro}\n{best}"
