"""Expectations of labels: every set of a state measured or excluded, on one next output, after it was frozen."""

from __future__ import annotations

from drsr.expectations.custom.labels import (
    ExpectEverySetToBeAccountedFor,
    ExpectHarmAgainstIntactHistory,
    ExpectOutcomeWithAKnownReason,
    ExpectReasonToFitTheOutput,
    ExpectUnsafeToFollowFromHarm,
    left_out,
)
from drsr.expectations.custom.values import ExpectColumnValuesToBeFinite, ExpectNoRows, ExpectOneValuePerKey, compared
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite
from drsr.offline.featurize.exclusions import ExclusionReason
from drsr.offline.label.harm import HARM_TOLERANCE

_AGAIN = "the label was changed by hand; label again under a new name: drsr label --labeler NAME"
_ONCE = (
    "a labeler writes it down once for all sets of a state, so only states that several labelers measured can differ; "
    "the audit's sample takes it from the run's bytes again"
)
_AGAIN_ELSEWHERE = (
    "a labeler writes it down once for all sets of a state, so it is compared where the same output was measured again"
)

SUITE = Suite(
    "labels",
    "Exact joint deletion harm of every deletion set, in nats per token of the next output that was really recorded.",
    (
        Part(
            "states",
            "One row per state of a current trajectory and labeler whose measuring is complete.",
            ("trajectory", "decision", "labeler"),
            (
                Rule(
                    "7 or 15 sets per state less recorded exclusions",
                    ExpectEverySetToBeAccountedFor(
                        candidates="candidates", labelled="labelled_sets", excluded="excluded_sets", outcome="outcome"
                    ),
                    _AGAIN,
                ),
                Rule(
                    "no set is both measured and excluded",
                    gxe.ExpectColumnValuesToBeInSet(column="in_both", value_set=[0]),
                    _AGAIN,
                ),
                Rule(
                    "every exclusion has a reason",
                    gxe.ExpectColumnValuesToBeInSet(column="unexplained", value_set=[0]),
                    _AGAIN,
                ),
                Rule(
                    "a state is labelled or excluded for a known reason",
                    ExpectOutcomeWithAKnownReason(
                        outcome="outcome",
                        reason="reason",
                        done="labelled",
                        reasons=[reason.value for reason in ExclusionReason],
                    ),
                    f"states do not vanish: {_AGAIN}",
                    left_out,
                ),
                Rule(
                    "the reason for an exclusion fits the next output",
                    ExpectReasonToFitTheOutput(reason="reason", target_tokens="target_tokens", target_cap="target_cap"),
                    f"states do not vanish: {_AGAIN}",
                ),
                Rule(
                    "a set of one saves what was frozen with its candidate",
                    gxe.ExpectColumnValuesToBeInSet(column="other_savings", value_set=[0]),
                    "other candidates were measured than were frozen; label again under a new name: "
                    "drsr label --labeler NAME",
                ),
                Rule(
                    "one and the same next output over all sets of a state",
                    ExpectOneValuePerKey(key="state_key", value="target_hash"),
                    f"two labelers measured different outputs of one decision; {_AGAIN}",
                    compared("state_key", _ONCE),
                ),
                Rule(
                    "target token count equal over all sets of a state",
                    ExpectOneValuePerKey(key="target_hash", value="target_tokens"),
                    f"the same output was counted twice with different results; {_AGAIN}",
                    compared("target_hash", _AGAIN_ELSEWHERE),
                ),
                Rule(
                    "freezing is earlier than labelling",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="measured_at", column_B="frozen_at"),
                    "candidates may not be chosen once their harm is known; label again under a new name: "
                    "drsr label --labeler NAME",
                ),
            ),
        ),
        Part(
            "sets",
            "One row per measured deletion set of these states.",
            ("trajectory", "decision", "labeler", "mask"),
            (
                Rule("there are labels", gxe.ExpectTableRowCountToBeBetween(min_value=1), "measure some: drsr label"),
                Rule(
                    "a set is measured once",
                    gxe.ExpectCompoundColumnsToBeUnique(column_list=["state_key", "labeler", "mask"]),
                    _AGAIN,
                ),
                Rule(
                    "a set deletes something",
                    gxe.ExpectColumnValuesToBeBetween(column="mask", min_value=1),
                    _AGAIN,
                ),
                Rule(
                    "a set is made of its state's candidates",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="first_other_mask", column_B="mask"),
                    _AGAIN,
                ),
                Rule(
                    "cardinality counts the set's members",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="cardinality", column_B="members"),
                    _AGAIN,
                ),
                Rule("harm is finite", ExpectColumnValuesToBeFinite(column="harm"), _AGAIN),
                Rule("NLL without the set is finite", ExpectColumnValuesToBeFinite(column="deleted_nll"), _AGAIN),
                Rule("NLL with everything is finite", ExpectColumnValuesToBeFinite(column="intact_nll"), _AGAIN),
                Rule(
                    "H(empty) = 0: harm is measured against the intact history",
                    ExpectHarmAgainstIntactHistory(
                        harm="harm", deleted_nll="deleted_nll", intact_nll="intact_nll", mask="mask"
                    ),
                    _AGAIN,
                ),
                Rule(
                    "the harm tolerance is 0.020",
                    gxe.ExpectColumnValuesToBeInSet(column="harm_tolerance", value_set=[HARM_TOLERANCE]),
                    _AGAIN,
                ),
                Rule(
                    "unsafe = 1[H > 0.020]",
                    ExpectUnsafeToFollowFromHarm(harm="harm", unsafe="unsafe", tolerance=HARM_TOLERANCE),
                    _AGAIN,
                ),
                Rule(
                    "the next output is not longer than the labeler's cap",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(
                        column_A="target_cap", column_B="target_tokens", or_equal=True
                    ),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "strays",
            "One row per deletion set, measured or excluded, of a state and labeler of which no measuring is recorded.",
            ("trajectory", "decision", "labeler_id", "mask"),
            (
                Rule(
                    "a set belongs to a state that was measured",
                    ExpectNoRows(),
                    "rows were deleted by hand, and nobody can tell what the set was measured against; restore the "
                    "catalog from a copy, or label again under a new name: drsr label --labeler NAME",
                ),
            ),
        ),
    ),
)
