"""Expectations of trajectories: read once, whole, and no two of different splits that say nearly the same."""

from __future__ import annotations

from drsr.expectations.custom.values import ExpectNoRows
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite
from drsr.offline.catalog.tables import PROTOCOLS, SPLITS

_AGAIN = "the row was changed by hand; restore the catalog from a copy, or ingest into a new one"

SUITE = Suite(
    "trajectories",
    "Recorded agent runs, as ingested: the raw material of everything else.",
    (
        Part(
            "trajectories",
            "One row per current trajectory.",
            ("trajectory",),
            (
                Rule(
                    "there are trajectories",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "read some: drsr ingest URI",
                ),
                Rule("a run is current once", gxe.ExpectColumnValuesToBeUnique(column="trajectory"), _AGAIN),
                Rule(
                    "a run is of a known protocol",
                    gxe.ExpectColumnValuesToBeInSet(column="protocol", value_set=list(PROTOCOLS)),
                    _AGAIN,
                ),
                Rule(
                    "a run is in one of the three splits",
                    gxe.ExpectColumnValuesToBeInSet(column="split", value_set=list(SPLITS)),
                    _AGAIN,
                ),
                Rule(
                    "content is named by its hash",
                    gxe.ExpectColumnValuesToMatchRegex(column="content_hash", regex="^[0-9a-f]{64}$"),
                    _AGAIN,
                ),
                Rule(
                    "the agent's messages are among the run's messages",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                        column_A="messages", column_B="assistant_messages", or_equal=True
                    ),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "unsettled_feeds",
            "One row per source whose latest delivery is unreadable, or that has too few runs (limits: feeds.toml).",
            ("source",),
            (
                Rule(
                    "deliveries are readable and sources have their runs",
                    ExpectNoRows(),
                    "drsr status --quarantined says what is wrong with each item: mend the files, or put a limit for "
                    "{source} into feeds.toml (docs/guides/nightly.md)",
                ),
            ),
        ),
        Part(
            "near_duplicates",
            "One row per pair of current trajectories of different splits whose texts have a Jaccard index of 0.8 or "
            "more.",
            ("first", "second"),
            (
                Rule(
                    "no near-duplicates across splits",
                    ExpectNoRows(),
                    "take one of each pair out: drsr withdraw --duplicates; or one: drsr withdraw {first} "
                    "--reason 'nearly the same as the other', or {second}; "
                    "or give both runs the same task in the source's files, so that they stay on one side, and ingest "
                    "into a new catalog",
                    needs_text=True,
                ),
            ),
        ),
        Part(
            "disguised_copies",
            "One row per pair of current trajectories of different splits of which one holds what the agent says in "
            "the other, case and numbers aside.",
            ("first", "second"),
            (
                Rule(
                    "no copy in disguise across splits",
                    ExpectNoRows(),
                    "look at both, {told}; take one out: drsr withdraw --duplicates, or drsr withdraw {first} --reason "
                    "'a copy of the other'; or give both runs the same task and ingest into a new catalog",
                    needs_text=True,
                ),
            ),
        ),
    ),
)
