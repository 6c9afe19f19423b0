"""A signal that no singleton rule can express is found by the set scorer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drsr.offline.evaluate.singletons import RULES, aggregate, evaluate_rules, singleton_harms
from drsr.offline.train.fitting import train_scorer
from drsr.offline.train.metrics import Bootstrap, auroc
from drsr.offline.train.scored_sets import score_frame
from tests.offline.frames import make_frame, params


def draw(generator: np.random.Generator, candidates: int) -> NDArray[np.float32]:
    """Each candidate carries one of two facts; its first feature says which, the other fifteen say nothing."""
    values = generator.normal(size=(candidates, 16)).astype(np.float32)
    values[:, 0] = generator.choice([-1.0, 1.0], candidates)
    return values


def redundancy(features: NDArray[np.float32], members: tuple[int, ...]) -> float:
    """Deleting is harmful when a fact that two or more candidates carried is gone: one copy alone is always safe."""
    facts = features[:, 0]
    for fact in (-1.0, 1.0):
        carriers = set(np.flatnonzero(facts == fact).tolist())
        if len(carriers) >= 2 and carriers <= set(members):
            return 0.08
    return 0.0


def test_the_set_scorer_sees_what_singletons_cannot() -> None:
    train = make_frame("train", 80, harm=redundancy, draw=draw)
    validation = make_frame("validation", 30, harm=redundancy, draw=draw)
    trained = train_scorer(train, validation, replace(params().train, max_epochs=60))
    scored = score_frame(trained.ensemble, validation)
    joint = validation.cardinality > 1
    assert auroc(scored.unsafe_mean[joint], validation.unsafe[joint]) > 0.95

    for harm in (validation.harm, scored.predicted_harm):  # measured and predicted singletons
        for rule in evaluate_rules(validation, harm, 0.02, Bootstrap(replicates=50)):
            assert rule.metrics.unsafe_auroc.value < 0.75
    assert set(RULES) == {"sum", "mean", "max", "min"}
    guess = aggregate(validation, singleton_harms(validation, validation.harm), "sum")
    assert auroc(guess, validation.unsafe) < 0.75  # with the singletons themselves counted in, too
