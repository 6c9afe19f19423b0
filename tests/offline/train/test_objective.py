"""The four terms of the loss against their definitions, and that batches add up to the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from drsr.offline.train.batches import make_batches, predict, with_targets
from drsr.offline.train.objective import Objective, positive_weight
from drsr.scorer.ensemble import fit_harm_scale, fit_normaliser
from drsr.scorer.network import Outputs, initial_parameters
from drsr.scorer.set_representation import ALL_PARTS
from tests.offline.frames import make_frame, params


def test_harm_is_standardised_by_training_labels_with_a_floor() -> None:
    harm = np.array([0.1, 0.3, 0.2, 0.6])
    assert fit_harm_scale(harm, 0.02) == pytest.approx((0.3, np.std(harm)))
    assert fit_harm_scale(harm / 100, 0.02) == pytest.approx((0.003, 0.02))


def test_the_positive_weight_is_limited() -> None:
    assert positive_weight(np.array([True, False, False]), 4.0) == 2.0
    assert positive_weight(np.array([True] + [False] * 9), 4.0) == 4.0
    assert positive_weight(np.array([True, True, True, False]), 4.0) == pytest.approx(1 / 3)


def test_each_term_is_its_definition() -> None:
    train = params().train
    frame = make_frame("train", 4)
    scale = fit_harm_scale(frame.harm, train.harm_scale_floor)
    normaliser = fit_normaliser(frame.features[frame.present])
    (part,) = with_targets(make_batches(frame, normaliser), frame, scale, train)
    rows = part.batch.rows
    weight = positive_weight(frame.unsafe, 4.0)
    generator = np.random.default_rng(0)
    harm, logit = generator.normal(size=(2, 2, len(frame)))
    objective = Objective(train, len(frame), len(part.targets.first), weight)
    outputs = Outputs(torch.tensor(harm, dtype=torch.float32), torch.tensor(logit, dtype=torch.float32))
    found = objective.losses(outputs, part.targets)

    for member in range(2):
        h, z = harm[member], logit[member]
        target, unsafe = (frame.harm[rows] - scale.mean) / scale.scale, frame.unsafe[rows]
        error = np.abs(h - target)
        assert found.regression[member].item() == pytest.approx(
            np.mean(np.where(error < 1, 0.5 * error**2, error - 0.5)), rel=1e-5
        )
        p = 1 / (1 + np.exp(-z))
        assert found.classification[member].item() == pytest.approx(
            np.mean(-np.where(unsafe, weight * np.log(p), np.log(1 - p))), rel=1e-5
        )
        assert found.brier[member].item() == pytest.approx(np.mean((p - unsafe) ** 2), rel=1e-5)
        total, number = 0.0, 0
        for i in range(len(rows)):
            for j in range(i):
                a, b = rows[i], rows[j]
                same = frame.trajectory[a] == frame.trajectory[b] and frame.cardinality[a] == frame.cardinality[b]
                gap = frame.harm[a] - frame.harm[b]
                if same and abs(gap) >= 1e-5:
                    omega = 0.1 + 0.9 * min(abs(gap) / 0.02, 1)
                    total += omega * np.log1p(np.exp(-np.sign(gap) * (h[i] - h[j])))
                    number += 1
        assert found.ranking[member].item() == pytest.approx(total / number, rel=1e-5)
    weighted = found.ranking + 0.30 * found.regression + 0.40 * found.classification + 0.10 * found.brier
    torch.testing.assert_close(objective.total(found), weighted)


def test_batches_of_whole_trajectories_add_up_to_the_frame() -> None:
    train = params().train
    frame = make_frame("train", 9, states=3)
    scale = fit_harm_scale(frame.harm, train.harm_scale_floor)
    normaliser = fit_normaliser(frame.features[frame.present])
    parameters = {name: torch.from_numpy(value) for name, value in initial_parameters(6, 11).items()}
    values = []
    for states in (1_000, 7, 1):
        parts = with_targets(make_batches(frame, normaliser, states), frame, scale, train)
        assert len(parts) == {1_000: 1, 7: 3, 1: 9}[states]
        assert sorted(np.concatenate([part.batch.rows for part in parts]).tolist()) == list(range(len(frame)))
        objective = Objective(train, len(frame), sum(len(part.targets.first) for part in parts), 1.5)
        total = torch.zeros(1)
        for batch, targets in parts:
            total += objective.total(objective.losses(predict(parameters, batch, ALL_PARTS), targets))
        values.append((objective.pairs, total.item()))
    assert values[1] == pytest.approx(values[0], rel=1e-5)
    assert values[2] == pytest.approx(values[0], rel=1e-5)


def test_rows_come_out_in_the_frames_order_whatever_labels_are_missing() -> None:
    """Rows shuffled and some missing: each row's output is the one of its own state and set."""
    frame = make_frame("train", 5)
    normaliser = fit_normaliser(frame.features[frame.present])
    parameters = {name: torch.from_numpy(value) for name, value in initial_parameters(6, 11).items()}
    (batch,) = make_batches(frame, normaliser)
    everything = predict(parameters, batch, ALL_PARTS).harm[0].numpy()
    kept = np.random.default_rng(0).permutation(len(frame))[: len(frame) // 2]
    columns = ("state", "mask", "direct_saving", "protocol_safe", "harm", "unsafe")
    fewer = replace(frame, **{name: getattr(frame, name)[kept] for name in columns})
    (batch_fewer,) = make_batches(fewer, normaliser)
    found = np.empty(len(fewer))
    found[batch_fewer.rows] = predict(parameters, batch_fewer, ALL_PARTS).harm[0].numpy()
    np.testing.assert_allclose(found, everything[np.argsort(batch.rows)][kept], atol=1e-6)


def test_without_a_pair_to_rank_the_term_is_zero() -> None:
    train = params().train
    frame = make_frame("train", 2, noise=0.0, harm=lambda features, members: 0.05 * (len(members) > 1))
    scale = fit_harm_scale(frame.harm, train.harm_scale_floor)
    (part,) = with_targets(make_batches(frame, fit_normaliser(frame.features[frame.present])), frame, scale, train)
    assert len(part.targets.first) == 0
    objective = Objective(train, len(frame), 0, 1.0)
    losses = objective.losses(Outputs(torch.ones(1, len(frame)), torch.ones(1, len(frame))), part.targets)
    assert losses.ranking.tolist() == [0.0]
