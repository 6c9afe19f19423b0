"""Expectations of states and candidates: few, complete, older than Recent2, frozen before all measuring."""

from __future__ import annotations

from drsr.expectations.custom.values import ExpectNoRows
from drsr.expectations.library import gxe
from drsr.expectations.rules import Part, Rule, Suite

_AGAIN = "the row was changed by hand; restore the catalog from a copy, or freeze again in a new one"

SUITE = Suite(
    "states",
    "Decisions whose candidates are frozen, and the candidates: outcome-blind, fixed before any harm is measured.",
    (
        Part(
            "states",
            "One row per frozen decision of a current trajectory, rule and tokenizer.",
            ("trajectory", "decision"),
            (
                Rule("there are states", gxe.ExpectTableRowCountToBeBetween(min_value=1), "freeze some: drsr freeze"),
                Rule("a state is frozen once", gxe.ExpectColumnValuesToBeUnique(column="state_key"), _AGAIN),
                Rule(
                    "a state has 3 or 4 candidates",
                    gxe.ExpectColumnValuesToBeInSet(column="candidates", value_set=[3, 4]),
                    _AGAIN,
                ),
                Rule(
                    "every candidate of a state is recorded",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="candidates", column_B="candidate_rows"),
                    _AGAIN,
                ),
                Rule(
                    "candidates are numbered from 0 without a gap",
                    gxe.ExpectColumnPairValuesToBeEqual(column_A="candidates", column_B="positions"),
                    _AGAIN,
                ),
                Rule(
                    "a trajectory gives at most three states",
                    gxe.ExpectColumnValuesToBeBetween(column="states_of_trajectory", min_value=1, max_value=3),
                    _AGAIN,
                ),
                Rule(
                    "a decision lies inside its trajectory",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="messages", column_B="decision"),
                    _AGAIN,
                ),
                Rule(
                    "a state is a decision that a model made behind its request",
                    gxe.ExpectColumnValuesToBeInSet(column="is_decision", value_set=[True]),
                    "its run holds a message that a compaction preserved or a framework said: ingest and freeze it "
                    "again with this version of drsr and this feeds.toml; if its file is gone: drsr withdraw "
                    "{trajectory} --reason 'the output is not of a model'",
                    needs_text=True,
                ),
                Rule(
                    "freezing of the whole trajectory is recorded",
                    gxe.ExpectColumnValuesToBeInSet(column="freezing_complete", value_set=[True]),
                    _AGAIN,
                ),
                Rule(
                    "a state stays frozen",
                    gxe.ExpectColumnValuesToBeInSet(column="status", value_set=["frozen"]),
                    "states do not vanish: no stage takes one back, so the row was changed by hand; restore the "
                    "catalog from a copy",
                ),
                Rule(
                    "ingesting is earlier than freezing",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="frozen_at", column_B="ingested_at"),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "candidates",
            "One row per candidate of these states.",
            ("trajectory", "decision", "candidate"),
            (
                Rule(
                    "Recent2 is never a candidate",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="recent_step", column_B="step"),
                    "the freezing rule is broken or was changed without its version: see drsr/decide/candidates.py",
                    needs_text=True,
                ),
                Rule(
                    "candidates are chronological, each of a Step of its own",
                    gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A="step", column_B="step_before"),
                    _AGAIN,
                ),
                Rule(
                    "deleting a candidate saves tokens",
                    gxe.ExpectColumnValuesToBeBetween(column="direct_saving", min_value=1),
                    _AGAIN,
                ),
            ),
        ),
        Part(
            "repeated_outputs",
            "One row per sentence that is the next output of so many tasks of a source, whatever came before, that no "
            "model must have said it.",
            ("source", "words"),
            (
                Rule(
                    "no sentence is the next output of several tasks",
                    ExpectNoRows(),
                    "say in feeds.toml, under [{=source}], who says it: framework_says = [{=words}] if the framework "
                    "does (these are no decisions then), model_says = [{=words}] if the model does; "
                    "docs/guides/nightly.md",
                    needs_text=True,
                ),
            ),
        ),
    ),
)
