"""Expectations of features: the layout's columns, all online, finite, of the frozen candidates, and none a label."""

from __future__ import annotations

from drsr.expectations.custom.labels import (
    ExpectNoCopyOfALabel,
    ExpectOutcomeWithAKnownReason,
    labels_compared,
    left_out,
)
from drsr.expectations.custom.values import ExpectOneValuePerKey
from drsr.expectations.label_copies import MINIMUM
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite
from drsr.features.layout import Information
from drsr.offline.featurize.exclusions import ExclusionReason
from drsr.offline.featurize.records import REASONS

_AGAIN = "compute them again in a new view: drsr featurize --view NAME"
LARGEST_AGREEMENT = 0.999
"""Absolute rank correlation with a label column, above which a feature column is taken for a copy of it."""
WITHOUT_FEATURES = sorted({*REASONS.values(), ExclusionReason.OUT_OF_MEMORY.value})
"""Reasons for which a state may have no features."""
_ONE_CALL = (
    "in the file as in the catalog: both are written together, so this sees what was changed or mixed up since; the "
    "audit's sample takes the tokens from the run's bytes again"
)

SUITE = Suite(
    "features",
    "Numbers that are known before the decision, one row per candidate: what the scorer reads.",
    (
        Part(
            "views",
            "One row per feature view, in its latest version.",
            ("view",),
            (
                Rule(
                    "there is a feature view",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "compute some: drsr featurize",
                ),
                Rule(
                    "the view's hash is that of its layout",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="layout_hash", column_B="layout_hash_of_columns"),
                    f"the columns were changed after the view was registered; {_AGAIN}",
                ),
            ),
        ),
        Part(
            "columns",
            "One row per column of these views, in order.",
            ("view", "column"),
            (
                Rule(
                    "feature columns = layout",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="column", column_B="layout_column"),
                    _AGAIN,
                ),
                Rule(
                    "every column is tagged online",
                    gxe.ExpectColumnValuesToBeInSet(column="information", value_set=[Information.ONLINE.value]),
                    "a column that is not known before the decision may not be a feature; take it out of the layout",
                ),
                Rule(
                    "features are finite",
                    gxe.ExpectColumnValuesToBeInSet(column="non_finite", value_set=[0]),
                    _AGAIN,
                ),
                Rule(
                    "no column equals a label or is a monotone copy of one",
                    ExpectNoCopyOfALabel(
                        agreement="agreement",
                        compared="compared_labels",
                        labelled_rows="labelled_rows",
                        maximum=LARGEST_AGREEMENT,
                        minimum=MINIMUM,
                    ),
                    "the column sees the future: find what computes it and take it out of the layout; where nothing "
                    "was compared although there are labels, the files do not hold the labelled states",
                    labels_compared,
                ),
            ),
        ),
        Part(
            "files",
            "One row per Parquet file that these views refer to.",
            ("view", "file"),
            (
                Rule(
                    "a file holds the view's columns and no other",
                    gxe.ExpectColumnValuesToBeInSet(column="other_columns", value_set=[0]),
                    _AGAIN,
                ),
                Rule(
                    "a file was written for its view's layout",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="layout_hash", column_B="layout_hash_of_view"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "outcomes",
            "One row per state of a current trajectory that these views have looked at, with features or without.",
            ("view", "trajectory", "decision"),
            (
                Rule(
                    "a state has features or a known reason for none",
                    ExpectOutcomeWithAKnownReason(
                        outcome="outcome", reason="reason", done="stored", reasons=WITHOUT_FEATURES
                    ),
                    f"states do not vanish: the row was changed by hand; {_AGAIN}",
                    left_out,
                ),
            ),
        ),
        Part(
            "states",
            "One row per state of a current trajectory whose features these views hold.",
            ("view", "trajectory", "decision"),
            (
                Rule(
                    "there are features",
                    gxe.ExpectTableRowCountToBeBetween(min_value=1),
                    "compute some: drsr featurize",
                ),
                Rule(
                    "prefix hash of features = that of the state",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="stored_prefix_hash", column_B="prefix_hash"),
                    f"the file holds features of other tokens; {_AGAIN}",
                    lambda frame: _ONE_CALL,
                ),
                Rule(
                    "features are of the candidates that were frozen",
                    gxe.ExpectColumnValuesToBeInSet(column="other_candidates", value_set=[0]),
                    f"place, size or saving of a candidate is not what was frozen: these are others' rows; {_AGAIN}",
                ),
                Rule(
                    "one row of features per candidate",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="rows", column_B="candidates"),
                    _AGAIN,
                ),
                Rule(
                    "the same tokens in every view",
                    ExpectOneValuePerKey(key="state_key", value="prefix_hash"),
                    _AGAIN,
                ),
            ),
        ),
    ),
)
