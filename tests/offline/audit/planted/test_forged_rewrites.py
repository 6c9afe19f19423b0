"""Protocol verdicts, tokens and savings that the runs do not give: unsafe sets hidden, a larger removal shown."""

from __future__ import annotations

import pytest

from drsr.offline.audit.checks import states
from tests.offline.audit.published import ask, asked, by_hand
from tests.offline.small_pipeline import Pipeline


@pytest.mark.parametrize(
    ("forgery", "says"),
    [
        ("UPDATE state_features SET protocol_breaking = protocol_breaking | 8", "protocol_breaking is recorded as 8"),
        ("UPDATE state_features SET request_tokens = request_tokens - 40", "request_tokens is recorded as"),
        ("UPDATE label SET direct_saving = direct_saving + 25 WHERE mask = 3", "the recorded saving is"),
        ("UPDATE candidate SET direct_saving = direct_saving + 25", "candidate_savings are not those"),
        ("UPDATE frozen_trajectory SET eligible_decisions = eligible_decisions + 1", "eligible decisions, the catalog"),
        ("UPDATE decision_state SET quantile = 0.5 WHERE id = 1", " chose it, the catalog says 0.5"),
    ],
)
def test_what_the_runs_do_not_give(pipeline: Pipeline, forgery: str, says: str) -> None:
    by_hand(pipeline, forgery)
    assert says in asked(pipeline, states.CHECK)["states frozen again"]


def test_an_honest_catalog_passes(pipeline: Pipeline) -> None:
    assert asked(pipeline, states.CHECK) == {}


def test_a_label_in_the_last_bit_of_a_column_from_text(pipeline: Pipeline) -> None:
    """One bit of one state of the test split, in a file of its own: nothing is fitted on it, and it is seen."""
    import numpy as np

    from drsr.offline.featurize.files import FeatureBlock, read_file, write_file
    from drsr.offline.featurize.views import get_view

    with pipeline.catalog.reading() as connection:
        view = get_view(connection, "default")
    ((blob,),) = ask(pipeline, "SELECT blob FROM feature_file WHERE split = 'test'")
    rows = read_file(pipeline.artifacts, view, blob)
    blocks = []
    for key in dict.fromkeys(rows.state_keys):
        mine = [number for number, found in enumerate(rows.state_keys) if found == key]
        matrix = rows.matrix[mine]
        matrix[:, 3] = np.nextafter(matrix[:, 3], np.float32(np.inf))
        blocks.append(FeatureBlock(key, rows.prefix_hashes[mine[0]], view.identity.layout_hash, matrix))
    by_hand(
        pipeline, "UPDATE feature_file SET blob = ? WHERE blob = ?", write_file(pipeline.artifacts, view, blocks), blob
    )
    caught = asked(pipeline, states.CHECK)["states frozen again"]
    assert "stored columns from text are not what the text gives, to the bit" in caught
