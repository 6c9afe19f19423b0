"""Expectations of a released policy: it freezes its calibration's numbers, and was made of train and validation."""

from __future__ import annotations

from drsr.expectations.custom.splits import ExpectNoEvaluationTaskInSupervision
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite
from drsr.expectations.suites.splits import SUPERVISION

_AGAIN = "do not use this release; publish again from a catalog that was restored from a copy: drsr publish"

SUITE = Suite(
    "policy",
    "Published policies: what consumers install.",
    (
        Part(
            "releases",
            "One row per published version.",
            ("version",),
            (
                Rule(
                    "there is a release",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "publish one: drsr publish",
                ),
                Rule("a version is released once", gxe.ExpectColumnValuesToBeUnique(column="version"), _AGAIN),
                Rule(
                    "it abstains always exactly when its calibration does",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="abstains_always", column_B="calibration_abstains"),
                    _AGAIN,
                ),
                Rule(
                    "it passed checks that are recorded",
                    gxe.ExpectColumnValuesToBeBetween(column="gates", min_value=1),
                    _AGAIN,
                ),
                Rule(
                    "it has golden requests",
                    gxe.ExpectColumnValuesToBeBetween(column="golden_requests", min_value=1),
                    _AGAIN,
                ),
                Rule(
                    "calibrating is earlier than publishing",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="published_at", column_B="calibrated_at"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "numbers",
            "One row per frozen number or hash in the newest release's wheel.",
            ("version", "number"),
            (
                Rule(
                    "the policy's numbers are those of its calibration",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="in_policy", column_B="in_catalog"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "states",
            "One row per state that the newest release was made from.",
            ("state_key",),
            (
                Rule(
                    "a policy is made of train and validation only",
                    gxe.ExpectColumnValuesToBeInSet(column="split", value_set=SUPERVISION),
                    _AGAIN,
                ),
                Rule(
                    "a policy is made of no evaluation task",
                    ExpectNoEvaluationTaskInSupervision(
                        names=["task", "trajectory"], split="split", supervision=SUPERVISION
                    ),
                    _AGAIN,
                ),
            ),
        ),
    ),
)
