"""The double of a scorer: deterministic, spread out, and different for whatever it is asked."""

from __future__ import annotations

import numpy as np

from drsr.scorer.scripted import ScriptedScorer

MASKS = list(range(1, 16))


def asked(scorer: ScriptedScorer, features: float = 0.0, masks: list[int] | None = None) -> np.ndarray:
    masks = masks or MASKS
    rows = np.full((4, 3), features, dtype=np.float32)
    return np.stack(scorer.score(rows, [5, 6, 7, 8], masks, [10 * mask for mask in masks]))


def test_the_same_question_has_the_same_answer_on_every_machine() -> None:
    scores = asked(ScriptedScorer("layout", seed=7))
    assert np.array_equal(scores, asked(ScriptedScorer("other layout", seed=7)))
    assert scores[1][:2].tolist() == [0.05440487987810383, 0.9236480677829062]


def test_a_set_has_its_score_whichever_others_are_asked_for() -> None:
    scorer = ScriptedScorer("layout")
    together = asked(scorer)
    for row, mask in enumerate(MASKS):
        assert np.array_equal(asked(scorer, masks=[mask])[:, 0], together[:, row])


def test_seed_features_and_set_all_matter() -> None:
    one = asked(ScriptedScorer("layout"))
    assert not np.any(one == asked(ScriptedScorer("layout", seed=1)))
    assert not np.any(one == asked(ScriptedScorer("layout"), features=1.0))
    assert len(np.unique(one[1])) == len(MASKS)


def test_scores_lie_where_scores_lie_and_steps_make_ties() -> None:
    harm, mean, deviation = np.concatenate([asked(ScriptedScorer("layout", seed)) for seed in range(50)], axis=1)
    assert -0.5 <= harm.min() < -0.4 < 0.4 < harm.max() < 0.5
    assert 0 <= mean.min() < 0.05 < 0.95 < mean.max() < 1
    assert 0 <= deviation.min() < deviation.max() < 0.5
    assert set(asked(ScriptedScorer("layout", steps=2))[1]) == {0.0, 0.5}
