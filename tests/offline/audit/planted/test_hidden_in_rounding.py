"""A label hidden in what half precision rounds: too little to be another number, and all that a scorer needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drsr.offline.audit.checks import future
from drsr.offline.audit.checks.states import FROM_TEXT
from drsr.offline.featurize.files import FeatureBlock, read_file, write_file
from drsr.offline.featurize.views import get_view
from drsr.settings import MIXED
from tests.offline.audit.published import ask, asked, by_hand
from tests.offline.small_pipeline import Pipeline, fit, quick_params

HIDDEN, COLUMNS = 0.002, 100
Signs = dict[tuple[str, int], int]
"""By state and candidate: 1 where deleting it alone is unsafe, -1 where it is safe."""


def test_honest_features(pipeline: Pipeline) -> None:
    read_in_half_precision(pipeline, {})
    assert asked(fitted(pipeline), future.CHECK) == {}


def test_a_label_below_the_rounding(pipeline: Pipeline) -> None:
    """Every number is as near as half precision asks for."""
    read_in_half_precision(pipeline, signs(pipeline))
    caught = asked(fitted(pipeline), future.CHECK)["no future in a feature"]
    assert caught.startswith("the shipped scorer tells unsafe sets of validation apart with an AUROC of ")
    assert caught.endswith("the difference is more than rounding")


def fitted(pipeline: Pipeline) -> Pipeline:
    """With a scorer that can use any column."""
    numbers = quick_params()
    linear = replace(numbers.train.linear, inverse_penalty=1.0)
    numbers = replace(numbers, train=replace(numbers.train, scorer="linear", linear=linear))
    return pipeline._replace(calibration=fit(pipeline.catalog, pipeline.artifacts, pipeline.folder, numbers))


def signs(pipeline: Pipeline) -> Signs:
    rows = ask(
        pipeline,
        "SELECT s.state_key, l.mask, l.harm > 0.02 FROM label l JOIN decision_state s ON s.id = l.state_id "
        "WHERE l.mask IN (1, 2, 4, 8)",
    )
    found = {(key, int(mask).bit_length() - 1): 1 if unsafe else -1 for key, mask, unsafe in rows}
    assert {*found.values()} == {1, -1}
    return found


def read_in_half_precision(pipeline: Pipeline, hidden: Signs) -> None:
    """Say so of the stored features, which half precision cannot tell from its own, and move columns of the language
    model by what is hidden: those that vary least."""
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    read = {
        blob: read_file(pipeline.artifacts, view, blob) for (blob,) in ask(pipeline, "SELECT blob FROM feature_file")
    }
    everything = np.concatenate([rows.matrix for rows in read.values()])
    ours = np.array([column.group not in FROM_TEXT for column in view.columns])
    varies = np.where(ours & (abs(everything).max(axis=0) < 1), everything.std(axis=0), np.inf)
    columns = np.argsort(varies)[:COLUMNS]
    assert np.isfinite(varies[columns]).all()
    by_hand(pipeline, "UPDATE feature_view SET dtype = ?", MIXED)
    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    for blob, rows in read.items():
        blocks = []
        for state in dict.fromkeys(rows.state_keys):
            mine = [number for number, found in enumerate(rows.state_keys) if found == state]
            matrix = rows.matrix[mine]
            sign = np.array([[hidden.get((state, candidate), 0)] for candidate in range(len(mine))], dtype=np.float32)
            matrix[:, columns] += np.float32(HIDDEN) * sign
            blocks.append(FeatureBlock(state, rows.prefix_hashes[mine[0]], view.identity.layout_hash, matrix))
        written = write_file(pipeline.artifacts, view, blocks)
        by_hand(pipeline, "UPDATE feature_file SET blob = ? WHERE blob = ?", written, blob)
