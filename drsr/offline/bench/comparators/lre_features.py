"""LRE's ten causal features of a Step: all of them known once the Step is complete."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.comparators.identifiers import identifiers
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.comparators.transcript import step_messages, transcript
from drsr.request.history import History

FEATURES = (
    "relative_position",
    "token_count",
    "log_length",
    "digit_count",
    "error_flag",
    "code_flag",
    "rare_word_density",
    "capitalised_words",
    "jaccard_with_previous",
    "url_or_id_flag",
)
RECURRENCES = 3
"""Number of later Steps in which something a Step introduced must recur for the Step to matter."""
_WORD = re.compile(r"\w+")
_ERROR = re.compile(r"error|exception|traceback|failed|not found|denied|invalid", re.IGNORECASE)
_CODE = re.compile(r"```|\bdef |\bclass |\bimport |\bfunction\b|[{};]\s*$|=>|</\w+>", re.MULTILINE)
_CAPITALISED = re.compile(r"\b[A-Z]\w+")
_URL = re.compile(r"https?://|\b[0-9a-f]{8,}\b|#\w*\d|\b\w+_\d+\b")


class LabelledSteps(NamedTuple):
    """The Steps of one run."""

    features: NDArray[np.float64]
    """[Steps, 10]."""
    matters: NDArray[np.bool_]
    """True if an identifier that the Step introduced recurs in three or more later Steps."""


def step_texts(history: History) -> list[str]:
    """Action and observation of every Step."""
    return [transcript(step_messages(history, step)) for step in history.steps]


def step_features(texts: list[str], counts: TokenCounts) -> NDArray[np.float64]:
    """Return one row per Step. Position is relative to the Steps up to its own, so that it is the same in a finished
    run, on which the regression is fitted, as when a decision is made; a word is rare that no earlier Step had."""
    rows = []
    seen: set[str] = set()
    previous: set[str] = set()
    for number, text in enumerate(texts):
        words = [word.lower() for word in _WORD.findall(text)]
        own = set(words)
        union = own | previous
        rows.append(
            [
                number / (number + 1),
                counts.text(text),
                math.log1p(len(text)),
                sum(character.isdigit() for character in text),
                bool(_ERROR.search(text)),
                bool(_CODE.search(text)),
                len(own - seen) / len(own) if own else 0.0,
                len(_CAPITALISED.findall(text)),
                len(own & previous) / len(union) if union else 0.0,
                bool(_URL.search(text)),
            ]
        )
        seen |= own
        previous = own
    return np.array(rows, dtype=np.float64).reshape(len(texts), len(FEATURES))


def label_steps(history: History, counts: TokenCounts) -> LabelledSteps:
    """Return features and labels of a finished run: labels look at later Steps, features never do."""
    texts = step_texts(history)
    named = [identifiers(text) for text in texts]
    known: set[str] = set(identifiers(transcript(history.request.messages[: history.prefix_length])))
    matters = []
    for number, names in enumerate(named):
        introduced = names - known
        known |= names
        later = named[number + 1 :]
        matters.append(any(sum(name in others for others in later) >= RECURRENCES for name in introduced))
    return LabelledSteps(step_features(texts, counts), np.array(matters, dtype=bool))
