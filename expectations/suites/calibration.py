"""Expectations of a calibration: the operating point keeps to its limits, and is the best that does."""

from __future__ import annotations

from drsr.expectations.custom.values import ExpectAmongOwnChoices, ExpectWithinOwnLimit
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite

_AGAIN = "the record was changed by hand; restore the catalog from a copy, or train and calibrate again"

SUITE = Suite(
    "calibration",
    "Operating points (K, beta, tau), chosen on validation: the most removed within the limits.",
    (
        Part(
            "calibrations",
            "One row per calibration of a trained scorer.",
            ("calibration", "mode"),
            (
                Rule(
                    "there is a calibration",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "choose one: drsr calibrate",
                ),
                Rule(
                    "unsafe rate within its limit",
                    ExpectWithinOwnLimit(column="unsafe_rate", limit="max_unsafe_rate", unless="abstains_always"),
                    _AGAIN,
                ),
                Rule(
                    "mean harm within its limit",
                    ExpectWithinOwnLimit(column="mean_harm", limit="max_mean_harm", unless="abstains_always"),
                    _AGAIN,
                ),
                Rule(
                    "certified bound within its limit",
                    ExpectWithinOwnLimit(column="unsafe_bound", limit="max_unsafe_bound", unless="no_bound_needed"),
                    _AGAIN,
                ),
                Rule(
                    "no more is removed than the cap allows",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                        column_A="removal_cap", column_B="mean_removal", or_equal=True
                    ),
                    _AGAIN,
                ),
                Rule(
                    "the removal cap is the one that was asked for",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="removal_cap", column_B="asked_removal_cap"),
                    _AGAIN,
                ),
                Rule(
                    "K is one of those tried",
                    ExpectAmongOwnChoices(column="max_cardinality", choices="cardinalities", unless="abstains_always"),
                    _AGAIN,
                ),
                Rule(
                    "beta is one of those tried",
                    ExpectAmongOwnChoices(
                        column="uncertainty_coefficient", choices="coefficients", unless="abstains_always"
                    ),
                    _AGAIN,
                ),
                Rule(
                    "it abstains always exactly when nothing is admissible",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="abstains_always", column_B="nothing_admissible"),
                    _AGAIN,
                ),
                Rule(
                    "no more states are pruned than there are",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="states", column_B="selected", or_equal=True),
                    _AGAIN,
                ),
                Rule(
                    "chosen on the validation split of its scorer",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="validation_hash", column_B="scorer_validation_hash"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "search_tables",
            "One row per search table of the newest calibration of each mode.",
            ("calibration", "mode"),
            (
                Rule(
                    "the search table holds every policy tried",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="rows", column_B="tried"),
                    _AGAIN,
                ),
                Rule(
                    "as many of them are admissible as recorded",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="admissible_rows", column_B="admissible"),
                    _AGAIN,
                ),
                Rule(
                    "the chosen policy is an admissible one of them",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="chosen_rows", column_B="wanted_rows"),
                    _AGAIN,
                ),
                Rule(
                    "no admissible policy removes more",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                        column_A="mean_removal", column_B="largest_removal", or_equal=True
                    ),
                    _AGAIN,
                ),
            ),
        ),
    ),
)
