"""Frames that keep every rule, for every suite."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd

EARLY, LATE = datetime.datetime(2026, 11, 1, 3), datetime.datetime(2026, 11, 1, 4)
HASH = "0123456789abcdef" * 4
OTHER_HASH = HASH[::-1]


def good() -> dict[str, dict[str, pd.DataFrame]]:
    """Frames that keep every rule, by dataset and part."""
    return {
        "trajectories": {
            "trajectories": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/b", "runs/c"],
                    "content_hash": [HASH, OTHER_HASH, HASH],
                    "protocol": ["openai", "anthropic", "openai"],
                    "split": ["train", "validation", "test"],
                    "messages": [12, 3, 40],
                    "assistant_messages": [5, 3, 19],
                }
            ),
            "unsettled_feeds": pd.DataFrame(columns=["source", "share", "largest_share", "runs", "expected_runs"]),
            "near_duplicates": pd.DataFrame(columns=["first", "first_split", "second", "second_split", "jaccard"]),
            "disguised_copies": pd.DataFrame(columns=["first", "first_split", "second", "second_split", "told"]),
        },
        "states": {
            "states": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/a", "runs/b"],
                    "decision": [8, 10, 12],
                    "state_key": ["k1", "k2", "k3"],
                    "candidates": [3, 4, 3],
                    "candidate_rows": [3, 4, 3],
                    "positions": [3, 4, 3],
                    "states_of_trajectory": [2, 2, 1],
                    "messages": [12, 12, 13],
                    "status": ["frozen"] * 3,
                    "is_decision": [True, True, True],
                    "freezing_complete": [True, True, True],
                    "frozen_at": [LATE] * 3,
                    "ingested_at": [EARLY] * 3,
                }
            ),
            "candidates": pd.DataFrame(
                {
                    "trajectory": ["runs/a"] * 3,
                    "decision": [8] * 3,
                    "candidate": [0, 1, 2],
                    "step": [0, 1, 4],
                    "step_before": [-1, 0, 1],
                    "recent_step": [5, 5, 5],
                    "direct_saving": [30, 1, 7],
                }
            ),
            "repeated_outputs": pd.DataFrame(columns=["source", "words", "tasks", "states", "of_states"]),
        },
        "labels": {
            "states": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/a", "runs/b", "runs/c", "runs/a"],
                    "decision": [8, 10, 12, 9, 8],
                    "labeler": ["default", "default", "default", "default", "other"],
                    "state_key": ["k1", "k2", "k3", "k4", "k1"],
                    "candidates": [3, 4, 4, 3, 3],
                    "outcome": ["labelled", "labelled", "labelled", "excluded", "labelled"],
                    "reason": [None, None, None, "target_too_long", None],
                    "target_tokens": [40, 30, 12, 600, 40],
                    "target_hash": [HASH, OTHER_HASH, "a" * 64, "b" * 64, HASH],
                    "target_cap": [512] * 5,
                    "labelled_sets": [7, 15, 13, 0, 7],
                    "excluded_sets": [0, 0, 2, 0, 0],
                    "in_both": [0] * 5,
                    "unexplained": [0] * 5,
                    "other_savings": [0] * 5,
                    "frozen_at": [EARLY] * 5,
                    "measured_at": [LATE] * 5,
                }
            ),
            "sets": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/a", "runs/b"],
                    "decision": [8, 8, 12],
                    "labeler": ["default"] * 3,
                    "state_key": ["k1", "k1", "k3"],
                    "mask": [1, 7, 5],
                    "cardinality": [1, 3, 2],
                    "members": [1, 3, 2],
                    "first_other_mask": [8, 8, 16],
                    "intact_nll": [2.0, 2.0, 1.5],
                    "deleted_nll": [2.5, 1.9, 1.52],
                    "harm": [0.5, 1.9 - 2.0, 1.52 - 1.5],
                    "harm_tolerance": [0.02] * 3,
                    "unsafe": [True, False, 1.52 - 1.5 > 0.02],
                    "target_tokens": [40, 40, 12],
                    "target_cap": [512] * 3,
                }
            ),
            "strays": pd.DataFrame(columns=["trajectory", "decision", "labeler_id", "mask"]),
        },
        "features": {
            "views": pd.DataFrame({"view": ["default 1"], "layout_hash": [HASH], "layout_hash_of_columns": [HASH]}),
            "columns": pd.DataFrame(
                {
                    "view": ["default 1"] * 2,
                    "column": ["structural_tokens", "hidden_l01_distance"],
                    "layout_column": ["structural_tokens", "hidden_l01_distance"],
                    "information": ["online", "online"],
                    "non_finite": [0, 0],
                    "agreement": [0.42, 0.0],
                    "label": ["harm alone (default)", ""],
                    "compared_labels": [9, 9],
                    "compared_rows": [42, 42],
                    "labelled_rows": [42, 42],
                }
            ),
            "files": pd.DataFrame(
                {
                    "view": ["default 1"],
                    "file": [OTHER_HASH],
                    "other_columns": [0],
                    "layout_hash": [HASH],
                    "layout_hash_of_view": [HASH],
                }
            ),
            "outcomes": pd.DataFrame(
                {
                    "view": ["default 1"] * 3,
                    "trajectory": ["runs/a", "runs/b", "runs/c"],
                    "decision": [8, 12, 9],
                    "outcome": ["stored", "stored", "excluded"],
                    "reason": [None, None, "outside_view"],
                }
            ),
            "states": pd.DataFrame(
                {
                    "view": ["default 1"] * 2,
                    "trajectory": ["runs/a", "runs/b"],
                    "decision": [8, 12],
                    "state_key": ["k1", "k3"],
                    "candidates": [3, 4],
                    "rows": [3, 4],
                    "other_candidates": [0, 0],
                    "prefix_hash": [HASH, OTHER_HASH],
                    "stored_prefix_hash": [HASH, OTHER_HASH],
                }
            ),
        },
        "splits": {
            "trajectories": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/a", "runs/b", "runs/c", "runs/d"],
                    "version": [1, 2, 1, 1, 1],
                    "task": ["t1", "t1", "t1", None, "chart-generation-L2-025"],
                    "split": ["train", "train", "train", "validation", "test"],
                    "group_split": ["train", "train", "train", "validation", "test"],
                }
            ),
            "subjects": pd.DataFrame(columns=["first", "first_split", "second", "second_split", "shared"]),
            "shares": pd.DataFrame(
                {
                    "split": ["train", "validation", "test"],
                    "groups": [76, 14, 10],
                    "all_groups": [100] * 3,
                    "asked_share": [0.8, 0.1, 0.1],
                }
            ),
            "places": pd.DataFrame(
                {
                    "trajectory": ["runs/a", "runs/a", "runs/a", "runs/c"],
                    "decision": [8, 8, 8, 9],
                    "place": ["state", "sets", "features", "state"],
                    "split": ["train", "train", "train", "validation"],
                }
            ),
            "reads": pd.DataFrame(
                {
                    "read": [1, 2, 3, 4, 5],
                    "purpose": ["train", "train", "calibrate", "evaluate", "describe"],
                    "split": ["train", "validation", "validation", "test", "test"],
                }
            ),
            "fits": pd.DataFrame({"fitted": ["scorer", "calibration"], "key": [HASH, OTHER_HASH], "reads": [1, 3]}),
        },
        "calibration": {
            "calibrations": pd.DataFrame(
                {
                    "calibration": ["c1", "c2", "c3"],
                    "mode": ["plain", "certified", "plain"],
                    "abstains_always": [False, False, True],
                    "nothing_admissible": [False, False, True],
                    "no_bound_needed": [True, False, True],
                    "unsafe_rate": [0.1, 0.04, np.nan],
                    "max_unsafe_rate": [0.1] * 3,
                    "mean_harm": [-0.3, 0.02, np.nan],
                    "max_mean_harm": [0.02] * 3,
                    "unsafe_bound": [np.nan, 0.09, np.nan],
                    "max_unsafe_bound": [0.1] * 3,
                    "removal_cap": [0.2] * 3,
                    "asked_removal_cap": [0.2] * 3,
                    "mean_removal": [0.11, 0.2, 0.0],
                    "max_cardinality": [2, 3, 3],
                    "cardinalities": [[2, 3], [3], [2, 3]],
                    "uncertainty_coefficient": [0.5, 0.0, 0.0],
                    "coefficients": [[0.0, 0.5], [0.0], [0.25, 0.5]],
                    "states": [10] * 3,
                    "selected": [10, 4, 0],
                    "validation_hash": [HASH] * 3,
                    "scorer_validation_hash": [HASH] * 3,
                }
            ),
            "search_tables": pd.DataFrame(
                {
                    "calibration": ["c1", "c2"],
                    "mode": ["plain", "certified"],
                    "tried": [200, 9],
                    "rows": [200, 9],
                    "admissible": [17, 0],
                    "admissible_rows": [17, 0],
                    "chosen_rows": [1, 0],
                    "wanted_rows": [1, 0],
                    "mean_removal": [0.11, 0.0],
                    "largest_removal": [0.11, 0.0],
                }
            ),
        },
        "policy": {
            "releases": pd.DataFrame(
                {
                    "version": ["2026.11.1", "2026.11.2"],
                    "abstains_always": [False, True],
                    "calibration_abstains": [False, True],
                    "gates": [6, 6],
                    "golden_requests": [8, 8],
                    "published_at": [LATE] * 2,
                    "calibrated_at": [EARLY] * 2,
                }
            ),
            "numbers": pd.DataFrame(
                {
                    "version": ["2026.11.2"] * 2,
                    "number": ["risk_threshold", "max_cardinality"],
                    "in_policy": ["None", "3"],
                    "in_catalog": ["None", "3"],
                }
            ),
            "states": pd.DataFrame(
                {
                    "state_key": ["k1", "k3"],
                    "trajectory": ["runs/a", "runs/c"],
                    "task": ["t1", None],
                    "split": ["train", "validation"],
                }
            ),
        },
    }
