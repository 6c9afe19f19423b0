"""For every rule ways to spoil a good frame that the rule must see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tests.expectations.good_frames import EARLY, LATE, OTHER_HASH

Spoil = Callable[[pd.DataFrame], pd.DataFrame]
"""A good frame -> a bad one."""


def at(column: str, value: Any, row: int = 0) -> Spoil:
    """Another value in one cell."""

    def spoil(frame: pd.DataFrame) -> pd.DataFrame:
        values = frame[column].tolist()
        values[row] = value
        return frame.assign(**{column: pd.Series(values, index=frame.index)})

    return spoil


def nothing(frame: pd.DataFrame) -> pd.DataFrame:
    """No row left."""
    return frame.iloc[:0]


def first_twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[:1]], ignore_index=True)


def only(column: str, value: Any) -> Spoil:
    """The same value everywhere."""
    return lambda frame: frame.assign(**{column: value})


def _unsettled(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"source": "agents", "share": 1.0, "largest_share": 0.5, "runs": 0, "expected_runs": 0}
    return pd.DataFrame([row], columns=frame.columns)


def _pair(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"first": "runs/a", "first_split": "train", "second": "runs/b", "second_split": "test", "jaccard": 0.93}
    return pd.DataFrame([row], columns=frame.columns)


def _disguised(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"first": "runs/a", "first_split": "train", "second": "runs/b", "second_split": "test", "told": "all of it"}
    return pd.DataFrame([row], columns=frame.columns)


def _repeated(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"source": "agents", "words": '"Budget used up"', "tasks": 9, "states": 9, "of_states": 300}
    return pd.DataFrame([row], columns=frame.columns)


def _subject(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"first": "a/1", "first_split": "train", "second": "b/2", "second_split": "test", "shared": "#W1234567"}
    return pd.DataFrame([row], columns=frame.columns)


def _stray(frame: pd.DataFrame) -> pd.DataFrame:
    row = {"trajectory": "runs/a", "decision": 8, "labeler_id": 1, "mask": 3}
    return pd.DataFrame([row], columns=frame.columns)


def _renamed_task(name: str) -> Spoil:
    return at("task", name)


BAD: dict[str, dict[str, list[Spoil]]] = {
    "trajectories": {
        "there are trajectories": [nothing],
        "a run is current once": [first_twice],
        "a run is of a known protocol": [at("protocol", "grpc"), at("protocol", None)],
        "a run is in one of the three splits": [at("split", "dev"), at("split", None)],
        "content is named by its hash": [at("content_hash", "abc"), at("content_hash", None)],
        "the agent's messages are among the run's messages": [at("assistant_messages", 13)],
        "deliveries are readable and sources have their runs": [_unsettled],
        "no near-duplicates across splits": [_pair],
        "no copy in disguise across splits": [_disguised],
    },
    "states": {
        "there are states": [nothing],
        "a state is frozen once": [at("state_key", "k2"), at("state_key", None)],
        "a state has 3 or 4 candidates": [at("candidates", 2), at("candidates", 5), at("candidates", None)],
        "every candidate of a state is recorded": [at("candidate_rows", 2), at("candidate_rows", 0)],
        "candidates are numbered from 0 without a gap": [at("positions", 4)],
        "a trajectory gives at most three states": [at("states_of_trajectory", 4)],
        "a decision lies inside its trajectory": [at("decision", 12)],
        "a state is a decision that a model made behind its request": [at("is_decision", False)],
        "freezing of the whole trajectory is recorded": [at("freezing_complete", False)],
        "a state stays frozen": [at("status", "excluded"), at("status", None)],
        "ingesting is earlier than freezing": [at("frozen_at", EARLY), at("frozen_at", EARLY - (LATE - EARLY))],
        "Recent2 is never a candidate": [
            at("step", 5, row=2),
            at("step", 6, row=2),
            at("recent_step", -1),
            at("recent_step", None),  # of a state that is not there
        ],
        "candidates are chronological, each of a Step of its own": [at("step", 0, row=1), at("step", 1, row=2)],
        "deleting a candidate saves tokens": [at("direct_saving", 0), at("direct_saving", None)],
        "no sentence is the next output of several tasks": [_repeated],
    },
    "labels": {
        "7 or 15 sets per state less recorded exclusions": [
            at("labelled_sets", 6),
            at("labelled_sets", 8),
            at("excluded_sets", 1),
            at("labelled_sets", 15, row=2),
            at("labelled_sets", 1, row=3),
            only("labelled_sets", 0),
        ],
        "no set is both measured and excluded": [at("in_both", 1)],
        "every exclusion has a reason": [at("unexplained", 1)],
        "a state is labelled or excluded for a known reason": [
            at("outcome", "excluded"),
            at("outcome", "lost"),
            at("reason", "out_of_memory"),
            at("reason", "", row=3),
            at("reason", "garbage", row=3),
            at("reason", None, row=3),
        ],
        "the reason for an exclusion fits the next output": [
            at("target_tokens", 512, row=3),
            at("reason", "empty_target", row=3),
        ],
        "a set of one saves what was frozen with its candidate": [at("other_savings", 1)],
        "one and the same next output over all sets of a state": [
            at("target_hash", OTHER_HASH),
            at("target_hash", OTHER_HASH, row=4),
            at("target_hash", None),
        ],
        "target token count equal over all sets of a state": [
            at("target_tokens", 41),
            at("target_tokens", 41, row=4),
            at("target_tokens", None),
            at("target_hash", OTHER_HASH),  # the output of another decision, which has 30 tokens
        ],
        "freezing is earlier than labelling": [at("measured_at", EARLY), at("frozen_at", LATE + (LATE - EARLY))],
        "there are labels": [nothing],
        "a set is measured once": [first_twice],
        "a set deletes something": [at("mask", 0)],
        "a set is made of its state's candidates": [at("mask", 8), at("mask", 15)],
        "cardinality counts the set's members": [at("cardinality", 2)],
        "harm is finite": [at("harm", np.nan), at("harm", np.inf), at("harm", -np.inf), at("harm", None)],
        "NLL without the set is finite": [at("deleted_nll", np.nan), at("deleted_nll", np.inf)],
        "NLL with everything is finite": [at("intact_nll", np.nan)],
        "H(empty) = 0: harm is measured against the intact history": [
            at("harm", 0.51),
            at("harm", np.nan),
            at("intact_nll", 2.1),
            at("mask", 0),  # deleting nothing, and harm all the same
        ],
        "the harm tolerance is 0.020": [at("harm_tolerance", 0.05)],
        "unsafe = 1[H > 0.020]": [at("unsafe", False), at("unsafe", True, row=1), at("unsafe", None)],
        "the next output is not longer than the labeler's cap": [at("target_tokens", 513)],
        "a set belongs to a state that was measured": [_stray],
    },
    "features": {
        "there is a feature view": [nothing],
        "the view's hash is that of its layout": [
            at("layout_hash_of_columns", OTHER_HASH),
            at("layout_hash_of_columns", None),
        ],
        "feature columns = layout": [
            at("column", "reward"),
            at("layout_column", None),
            at("column", None),
            lambda frame: frame.assign(column=frame["column"].tolist()[::-1]),
        ],
        "every column is tagged online": [at("information", "label_only"), at("information", None)],
        "features are finite": [at("non_finite", 1)],
        "no column equals a label or is a monotone copy of one": [
            at("agreement", 1.0),
            at("agreement", np.nan),
            only("compared_labels", 0),
        ],
        "a file holds the view's columns and no other": [at("other_columns", 1)],
        "a file was written for its view's layout": [at("layout_hash", OTHER_HASH), at("layout_hash", "")],
        "a state has features or a known reason for none": [
            at("outcome", "excluded"),
            at("reason", "garbage", row=2),
            at("reason", "", row=2),
            at("reason", "outside_view"),
        ],
        "there are features": [nothing],
        "prefix hash of features = that of the state": [
            at("stored_prefix_hash", OTHER_HASH),
            at("stored_prefix_hash", None),
        ],
        "features are of the candidates that were frozen": [at("other_candidates", 1)],
        "one row of features per candidate": [at("rows", 2), at("rows", 0)],
        "the same tokens in every view": [
            lambda frame: pd.concat([frame, frame.assign(view="other 1", prefix_hash="f" * 64)], ignore_index=True)
        ],
    },
    "splits": {
        "there is something to split": [nothing],
        "a trajectory in exactly one split": [at("split", "test"), at("split", None)],
        "a task in exactly one split": [at("split", "test", row=2), at("split", None, row=2)],
        "a trajectory is in its group's split": [at("group_split", "test"), at("group_split", None)],
        "evaluation tasks disjoint from supervision": [
            _renamed_task("bb-bin-dns-parse-010"),
            _renamed_task("security/BB-bin-DNS-parse-010__trial-3"),
            at("trajectory", "runs/chart-generation-L2-025.7", row=3),
            at("split", "train", row=4),
        ],
        "no subject on two sides of a split": [_subject],
        "split shares within tolerance": [at("groups", 50), at("groups", 0), at("asked_share", 0.0, row=2)],
        "all states and sets of a trajectory in its split": [
            at("split", "test", row=2),
            at("split", "validation", row=1),
            at("split", None, row=2),
        ],
        "test split never read by train or calibrate": [
            at("purpose", "train", row=3),
            at("purpose", "calibrate", row=4),
        ],
        "whatever was fitted has read its split on record": [at("reads", 0)],
    },
    "calibration": {
        "there is a calibration": [nothing],
        "unsafe rate within its limit": [at("unsafe_rate", 0.1001), at("unsafe_rate", np.nan)],
        "mean harm within its limit": [at("mean_harm", 0.0201), at("mean_harm", np.nan)],
        "certified bound within its limit": [at("unsafe_bound", 0.11, row=1), at("unsafe_bound", np.nan, row=1)],
        "no more is removed than the cap allows": [at("mean_removal", 0.21)],
        "the removal cap is the one that was asked for": [at("removal_cap", 0.25)],
        "K is one of those tried": [at("max_cardinality", 4), at("max_cardinality", 2, row=1)],
        "beta is one of those tried": [at("uncertainty_coefficient", 0.25)],
        "it abstains always exactly when nothing is admissible": [
            at("nothing_admissible", True),
            at("nothing_admissible", False, row=2),
        ],
        "no more states are pruned than there are": [at("selected", 11)],
        "chosen on the validation split of its scorer": [at("validation_hash", OTHER_HASH)],
        "the search table holds every policy tried": [at("rows", 199)],
        "as many of them are admissible as recorded": [at("admissible_rows", 18)],
        "the chosen policy is an admissible one of them": [at("chosen_rows", 0), at("chosen_rows", 1, row=1)],
        "no admissible policy removes more": [at("largest_removal", 0.12), at("largest_removal", 0.01, row=1)],
    },
    "policy": {
        "there is a release": [nothing],
        "a version is released once": [first_twice],
        "it abstains always exactly when its calibration does": [at("calibration_abstains", True)],
        "it passed checks that are recorded": [at("gates", 0)],
        "it has golden requests": [at("golden_requests", 0)],
        "calibrating is earlier than publishing": [at("published_at", EARLY)],
        "the policy's numbers are those of its calibration": [at("in_policy", "0.07"), at("in_catalog", None)],
        "a policy is made of train and validation only": [at("split", "test"), at("split", None)],
        "a policy is made of no evaluation task": [_renamed_task("bb-bin-dns-parse-010"), at("split", None)],
    },
}
