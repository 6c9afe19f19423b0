"""The columns of the view `light` as data: the 58 structural ones, then these, each with its unit and its meaning.

Every one is known before the decision (information class `online`). B is the candidate Block; an *entity* is an
identifier, a number of two digits or more, or a path; a *shingle* is three words in a row inside one part; the *agent*
is the author of the Steps' assistant messages; *recent* is everything from the first message of Recent2 on; what
*stays* is all that stays whichever candidates are deleted. A share of nothing is 0, and columns about calls are 0 for
an assistant_state.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import NamedTuple

from drsr.features.layout import FEATURES_VERSION, STRUCTURAL, Column, ColumnGroup, Unit, ViewLayout

LIGHT_VIEW = "light"
"""The name of the feature view, and of the reader of a policy that was trained on it."""
LIGHT_VERSION = "light/1"
"""Changes whenever the same state would give other numbers under the same column names. Part of the layout's hash."""

SHINGLE = 3
"""Words of a shingle."""
BM25_K1, BM25_B = 1.5, 0.75


class TextColumn(NamedTuple):
    name: str
    unit: Unit
    meaning: str


TEXT: tuple[TextColumn, ...] = (
    # content superseded by a later call of the same tool on the same object
    TextColumn("same_object_before", Unit.LOG_COUNT, "earlier calls of the same tool on the same object"),
    TextColumn("same_object_after", Unit.LOG_COUNT, "later calls of the same tool on the same object"),
    TextColumn("superseded_after", Unit.LOG_COUNT, "calls up to and with the first of these; 0 where there is none"),
    TextColumn("superseded_share", Unit.SHARE, "distinct lines of the result that the last of these results has too"),
    TextColumn("object_touched_after", Unit.LOG_COUNT, "later calls of any tool on the same object"),
    TextColumn("object_written_after", Unit.INDICATOR, "a later call that writes is on the same object"),
    TextColumn("object_recent", Unit.INDICATOR, "a recent call is on the same object"),
    TextColumn("same_tool_stays", Unit.LOG_COUNT, "calls of the same tool that stay"),
    # entities that later Steps used, and those that nothing else holds
    TextColumn("identifiers", Unit.LOG_COUNT, "distinct identifiers"),
    TextColumn("numbers", Unit.LOG_COUNT, "distinct numbers"),
    TextColumn("paths", Unit.LOG_COUNT, "distinct paths"),
    TextColumn("identifiers_used", Unit.SHARE, "identifiers that the agent used in later Steps"),
    TextColumn("numbers_used", Unit.SHARE, "numbers that the agent used in later Steps"),
    TextColumn("paths_used", Unit.SHARE, "paths that the agent used in later Steps"),
    TextColumn("identifiers_unique", Unit.SHARE, "identifiers that nothing else in the request holds"),
    TextColumn("numbers_unique", Unit.SHARE, "numbers that nothing else in the request holds"),
    TextColumn("paths_unique", Unit.SHARE, "paths that nothing else in the request holds"),
    TextColumn("entities_unique", Unit.LOG_COUNT, "entities that nothing else in the request holds"),
    TextColumn("entities_lost", Unit.LOG_COUNT, "entities that nothing that stays holds"),
    TextColumn("entities_used_recently", Unit.SHARE, "entities that the agent used in Recent2"),
    TextColumn("source_of_used", Unit.LOG_COUNT, "entities used in later Steps that only B and the agent say"),
    TextColumn("introduced_used", Unit.LOG_COUNT, "entities said first in B that the agent used in later Steps"),
    TextColumn("last_use_age", Unit.LOG_COUNT, "Steps behind the last that used one of these; behind B where none did"),
    # shingles covered by what stays
    TextColumn("shingles_stay", Unit.SHARE, "shingles that what stays has too"),
    TextColumn("shingles_after", Unit.SHARE, "shingles that something behind B has too"),
    TextColumn("shingles_recent", Unit.SHARE, "shingles that recent parts have too"),
    TextColumn("shingles_candidates", Unit.SHARE, "shingles that other candidates have too"),
    TextColumn("recent_shingles_here", Unit.SHARE, "shingles of the agent's last Step that B has"),
    TextColumn("recent_shingles_lost", Unit.SHARE, "shingles of the agent's last Step that B has and no earlier part"),
    # age
    TextColumn("calls_before", Unit.LOG_COUNT, "calls of earlier Steps"),
    TextColumn("calls_after", Unit.LOG_COUNT, "calls of later Steps"),
    TextColumn("words_after", Unit.LOG_COUNT, "words that the agent wrote in later Steps"),
    TextColumn("tokens_after_share", Unit.SHARE, "tokens behind B, of the request's"),
    # the error it reports
    TextColumn("reports_error", Unit.INDICATOR, "its result speaks of an error among its first words"),
    TextColumn("error_before", Unit.LOG_COUNT, "earlier results that report the same error"),
    TextColumn("error_after", Unit.LOG_COUNT, "later results that report the same error"),
    TextColumn("error_overcome", Unit.INDICATOR, "it reports an error, and a later result of the same tool none"),
    TextColumn("last_result_error", Unit.INDICATOR, "the request's last result reports an error"),
    # how it was followed up
    TextColumn("next_call_same_tool", Unit.INDICATOR, "the next call is of the same tool"),
    TextColumn("next_call_same_object", Unit.INDICATOR, "the next call is of the same tool on the same object"),
    TextColumn("next_step_from_it", Unit.SHARE, "distinct words of the agent's next Step that B has"),
    TextColumn("next_step_from_it_alone", Unit.SHARE, "the same, without words that stood before B"),
    TextColumn("last_call_from_it", Unit.SHARE, "distinct words of the last Step's calls that B has"),
    TextColumn("last_call_from_it_alone", Unit.SHARE, "the same, without words that another part outside says"),
    # relevance: BM25 of B as one of the request's own Blocks
    TextColumn("bm25_task", Unit.RELEVANCE, "for the user's messages of the prefix"),
    TextColumn("bm25_last_user", Unit.RELEVANCE, "for the last user message"),
    TextColumn("bm25_recent", Unit.RELEVANCE, "for the last two Steps and what follows them"),
    TextColumn("bm25_last_step", Unit.RELEVANCE, "for what the agent said in its last Step"),
    TextColumn("bm25_last_result", Unit.RELEVANCE, "for the last result"),
    TextColumn("bm25_recent_rank", Unit.SHARE, "Blocks older than Recent2 that bm25_recent rates below B"),
    TextColumn("bm25_last_step_rank", Unit.SHARE, "Blocks older than Recent2 that bm25_last_step rates below B"),
    TextColumn("rarity", Unit.RARITY, "mean over its distinct words"),
    TextColumn("rarity_recent", Unit.SHARE, "of the summed rarity of its words, those that are recent"),
    TextColumn("rarity_stays", Unit.SHARE, "of the summed rarity of its words, those that stay"),
    # what kind of call, and what its result looks like
    TextColumn("is_read", Unit.INDICATOR, "the call reads one thing (get, open, cat, ...)"),
    TextColumn("is_search", Unit.INDICATOR, "the call searches or lists (find, grep, ls, ...)"),
    TextColumn("is_write", Unit.INDICATOR, "the call changes something (write, edit, cancel, ...)"),
    TextColumn("is_run", Unit.INDICATOR, "the call runs a program (bash, python, test, ...)"),
    TextColumn("result_words", Unit.LOG_COUNT, "words of the result"),
    TextColumn("repeated_lines", Unit.SHARE, "lines of B that it has said before"),
)
"""The text columns; what each one is computed from is written next to its computation, in the room's other files."""


@cache
def light_layout() -> ViewLayout:
    """Return the one layout of this version: it depends on no language model."""
    structural = (Column(f"structural_{name}", ColumnGroup.STRUCTURAL, unit) for name, unit in STRUCTURAL)
    columns = (*structural, *(Column(f"text_{column.name}", ColumnGroup.TEXT, column.unit) for column in TEXT))
    described = {
        "version": LIGHT_VERSION,
        "features_version": FEATURES_VERSION,
        "shingle": SHINGLE,
        "bm25": [BM25_K1, BM25_B],
        "columns": columns,
    }
    written = json.dumps(described, separators=(",", ":")).encode("ascii")
    return ViewLayout(columns, hashlib.sha256(written).hexdigest())
