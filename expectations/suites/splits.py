"""Expectations of splits: nothing on two sides, shares as asked, and a test split that nothing was fitted on."""

from __future__ import annotations

from drsr.expectations.custom.splits import ExpectNoEvaluationTaskInSupervision, ExpectSplitSharesWithinTolerance
from drsr.expectations.custom.values import ExpectNoRows, ExpectOneValuePerKey
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite
from drsr.offline.catalog.feature_tables import PURPOSES
from drsr.offline.catalog.tables import SPLITS

SUPERVISION = ["train", "validation"]
FITTING = ("train", "calibrate")
_AGAIN = "a split never changes; the row was changed by hand: restore the catalog from a copy"

SUITE = Suite(
    "splits",
    "Which side everything is on, and who has read which side for what.",
    (
        Part(
            "trajectories",
            "One row per version of a trajectory, also of those that were superseded, but not of withdrawn runs.",
            ("trajectory", "version"),
            (
                Rule(
                    "there is something to split",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "read some: drsr ingest URI",
                ),
                Rule(
                    "a trajectory in exactly one split",
                    ExpectOneValuePerKey(key="trajectory", value="split"),
                    _AGAIN,
                ),
                Rule("a task in exactly one split", ExpectOneValuePerKey(key="task", value="split"), _AGAIN),
                Rule(
                    "a trajectory is in its group's split",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="split", column_B="group_split"),
                    _AGAIN,
                ),
                Rule(
                    "evaluation tasks disjoint from supervision",
                    ExpectNoEvaluationTaskInSupervision(
                        names=["task", "trajectory"], split="split", supervision=SUPERVISION
                    ),
                    "runs of Eval40's tasks (drsr/offline/evaluate/eval40.py) belong in a separate catalog; take this "
                    "one out: drsr withdraw {trajectory} --reason 'a task of Eval40'",
                ),
            ),
        ),
        Part(
            "subjects",
            "One row per pair of groups in different splits whose runs look up the same rare identifiers, or open with "
            "the same request.",
            ("first", "second", "shared"),
            (
                Rule(
                    "no subject on two sides of a split",
                    ExpectNoRows(),
                    "both are about the same customer, order or request: give their tasks one group "
                    "(docs/guides/name-your-tasks.md) and ingest into a new catalog, or take one out: "
                    "drsr withdraw {first} --reason 'about the same as the other'",
                    needs_text=True,
                ),
            ),
        ),
        Part(
            "shares",
            "One row per split. Counted are groups that must stay on one side: a task, or a run without one.",
            ("split",),
            (
                Rule(
                    "split shares within tolerance",
                    ExpectSplitSharesWithinTolerance(
                        count="groups", total="all_groups", share="asked_share", probability=1e-6
                    ),
                    "80:10:10 by a stable hash would give this less than once in a million times: look at how groups "
                    "are named (drsr/offline/ingest/splits.py)",
                ),
            ),
        ),
        Part(
            "places",
            "One row per state and place where something of it is kept by split: itself, its sets, its features.",
            ("trajectory", "decision", "place"),
            (
                Rule(
                    "all states and sets of a trajectory in its split",
                    ExpectOneValuePerKey(key="trajectory", value="split"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "reads",
            "One row per read of a split's features, with labels or without.",
            ("read",),
            (
                Rule(
                    "test split never read by train or calibrate",
                    gxe.ExpectColumnPairValuesToBeInSet(
                        column_A="split",
                        column_B="purpose",
                        value_pairs_set=[
                            (split, purpose)
                            for split in SPLITS
                            for purpose in PURPOSES
                            if not (split == "test" and purpose in FITTING)
                        ],
                    ),
                    "whatever was fitted since then has seen the test split: train again from a catalog without it",
                ),
            ),
        ),
        Part(
            "fits",
            "One row per trained scorer and per calibration.",
            ("fitted", "key"),
            (
                Rule(
                    "whatever was fitted has read its split on record",
                    gxe.ExpectColumnValuesToBeBetween(column="reads", min_value=1),
                    "the log of reads is incomplete; train again: drsr train, drsr calibrate",
                ),
            ),
        ),
    ),
)
