"""Training: it learns, it chooses checkpoints by the stated order, and it gives the same bits again."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drsr.errors import InputError, LabelersMixed, LayoutMismatch, SplitRefused
from drsr.offline.train.batches import STATES_PER_BATCH
from drsr.offline.train.evaluations import Evaluation, Quality
from drsr.offline.train.examples import TrainingFrame
from drsr.offline.train.fitting import clip_by_member, train_scorer
from drsr.offline.train.metrics import auroc
from drsr.offline.train.scored_sets import score_frame
from drsr.scorer.weights import scorer_bytes
from tests.offline.frames import make_frame, params

SHORT = replace(params().train, max_epochs=20)
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def train() -> TrainingFrame:
    return make_frame("train", 24)


@pytest.fixture(scope="module")
def validation() -> TrainingFrame:
    return make_frame("validation", 10)


def test_it_learns_and_says_how_it_goes(train: TrainingFrame, validation: TrainingFrame) -> None:
    seen: list[list[Evaluation]] = []
    trained = train_scorer(train, validation, replace(SHORT, max_epochs=60), progress=seen.append)
    assert trained.ensemble.seeds == (11, 29, 47)
    assert [row.seed for row in trained.chosen] == [11, 29, 47]
    assert [evaluations[0].epoch for evaluations in seen] == list(range(5, 65, 5))
    assert trained.history == tuple(row for evaluations in seen for row in evaluations)
    assert seen[-1][0].loss < 0.7 * seen[0][0].loss
    scored = score_frame(trained.ensemble, validation)
    assert auroc(scored.unsafe_mean, validation.unsafe) > 0.95
    # Deciding in numpy, state by state, gives the scores that the checkpoint was chosen by.
    for number, row in enumerate(trained.chosen):
        alone = replace(
            trained.ensemble,
            seeds=(row.seed,),
            parameters={name: value[number : number + 1] for name, value in trained.ensemble.parameters.items()},
        )
        assert auroc(score_frame(alone, validation).unsafe_mean, validation.unsafe) == pytest.approx(
            row.quality.unsafe_auroc, abs=1e-4
        )


def test_the_best_evaluation_is_kept(train: TrainingFrame, validation: TrainingFrame) -> None:
    trained = train_scorer(train, validation, SHORT)
    for row in trained.chosen:
        qualities = [other.quality for other in trained.history if other.seed == row.seed]
        assert row.quality == max(qualities)
        assert row.is_best


def test_the_order_of_checkpoints() -> None:
    assert Quality(0.9, 0.1, -0.9) > Quality(0.8, 0.9, -0.1)
    assert Quality(0.9, 0.2, -0.9) > Quality(0.9, 0.1, -0.1)
    assert Quality(0.9, 0.1, -0.1) > Quality(0.9, 0.1, -0.2)


def test_patience_stops_each_member(train: TrainingFrame, validation: TrainingFrame) -> None:
    trained = train_scorer(train, validation, replace(SHORT, max_epochs=300, evaluate_every=1, patience=2))
    last = {row.seed: row for row in trained.history}
    assert all(row.stopped for row in last.values())
    for row in trained.chosen:
        later = [other for other in trained.history if other.seed == row.seed and other.epoch > row.epoch]
        assert not any(other.is_best for other in later)
        assert [other.stopped for other in later[:2]] == [False, True]
    assert max(row.epoch for row in trained.history) == max(row.epoch for row in trained.chosen) + 2


def test_the_same_run_gives_the_same_bits(validation: TrainingFrame) -> None:
    train = make_frame("train", 70, states=3)
    assert len(train.state_ids) > STATES_PER_BATCH  # two batches
    threads, few = torch.get_num_threads(), replace(SHORT, max_epochs=10)
    first = train_scorer(train, validation, few)
    torch.manual_seed(123)  # whatever else a process did before
    again = train_scorer(train, validation, few, workers=1)
    assert first.history == again.history
    assert scorer_bytes(first.ensemble) == scorer_bytes(again.ensemble)
    assert torch.get_num_threads() == threads


FRESH_PROCESS = """
import hashlib
from dataclasses import replace
from drsr.offline.train.fitting import train_scorer
from drsr.scorer.weights import scorer_bytes
from tests.offline.frames import make_frame, params
few = replace(params().train, max_epochs=5)
trained = train_scorer(make_frame("train", 24), make_frame("validation", 10), few)
print(hashlib.sha256(scorer_bytes(trained.ensemble)).hexdigest())
"""


def test_another_process_gives_the_same_bits(train: TrainingFrame, validation: TrainingFrame) -> None:
    """Whatever the order of its sets and the number of threads that its libraries would take."""
    here = hashlib.sha256(scorer_bytes(train_scorer(train, validation, replace(SHORT, max_epochs=5)).ensemble))
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    run = [sys.executable, "-c", FRESH_PROCESS]
    there = subprocess.run(run, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here.hexdigest()


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_bits(train: TrainingFrame, validation: TrainingFrame, tmp_path: Path) -> None:
    path = tmp_path / "run" / "training.safetensors"

    def kill(evaluations: list[Evaluation]) -> None:
        if evaluations[0].epoch == 10:
            raise Killed

    with pytest.raises(Killed):
        train_scorer(train, validation, SHORT, progress=kill, checkpoint=path)
    epochs: list[int] = []
    resumed = train_scorer(
        train, validation, SHORT, progress=lambda rows: epochs.append(rows[0].epoch), checkpoint=path
    )
    assert epochs == [15, 20]
    whole = train_scorer(train, validation, SHORT)
    assert resumed.history == whole.history
    assert resumed.chosen == whole.chosen
    assert scorer_bytes(resumed.ensemble) == scorer_bytes(whole.ensemble)
    # A run that was complete is not trained again.
    done = train_scorer(train, validation, SHORT, progress=lambda rows: pytest.fail("trained"), checkpoint=path)
    assert scorer_bytes(done.ensemble) == scorer_bytes(whole.ensemble)


def test_a_checkpoint_of_another_run_is_refused(
    train: TrainingFrame, validation: TrainingFrame, tmp_path: Path
) -> None:
    path = tmp_path / "training.safetensors"
    tiny = replace(SHORT, max_epochs=5)
    train_scorer(train, validation, tiny, checkpoint=path)
    with pytest.raises(InputError, match="other data or parameters"):
        train_scorer(train, validation, replace(tiny, learning_rate=1e-3), checkpoint=path)
    changed = replace(train, harm=train.harm * 1.0001)
    with pytest.raises(InputError, match="other data or parameters"):
        train_scorer(changed, validation, tiny, checkpoint=path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match="not a training checkpoint"):
        train_scorer(train, validation, tiny, checkpoint=path)


def test_a_member_trains_as_if_it_were_alone(train: TrainingFrame, validation: TrainingFrame) -> None:
    together = train_scorer(train, validation, replace(SHORT, max_epochs=10)).ensemble
    alone = train_scorer(train, validation, replace(SHORT, max_epochs=10, seeds=(29,))).ensemble
    for name, value in alone.parameters.items():
        np.testing.assert_allclose(together.parameters[name][1], value[0], atol=1e-4)


def test_clipping_is_torchs_for_each_member() -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(3, 7, 5, generator=generator), torch.randn(3, 5, generator=generator)]
    for gradient in gradients:
        gradient[1] *= 100  # one member's gradient is large; the others' must stay
    expected = []
    for member in range(3):
        parameters = [torch.nn.Parameter(torch.zeros_like(gradient[member])) for gradient in gradients]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient[member].clone()
        torch.nn.utils.clip_grad_norm_(parameters, 8.0)
        expected.append([parameter.grad for parameter in parameters])
    before = [gradient.clone() for gradient in gradients]
    clip_by_member(gradients, 8.0)
    for member in range(3):
        for place, gradient in enumerate(gradients):
            torch.testing.assert_close(gradient[member], expected[member][place])
    assert not torch.equal(before[0][1], gradients[0][1])
    assert torch.equal(before[0][0], gradients[0][0])


def test_frames_that_do_not_belong_together(train: TrainingFrame, validation: TrainingFrame) -> None:
    with pytest.raises(SplitRefused, match="not on validation by train"):
        train_scorer(validation, train, SHORT)
    with pytest.raises(LayoutMismatch):
        train_scorer(train, replace(validation, layout_hash="another"), SHORT)
    with pytest.raises(LabelersMixed):
        train_scorer(train, replace(validation, labeler="another"), SHORT)
    leaked = replace(validation, trajectory_ids=("train/0", *validation.trajectory_ids[1:]))
    with pytest.raises(SplitRefused, match="train/0: 1 trajectories are in both splits"):
        train_scorer(train, leaked, SHORT)
    leaked = replace(validation, group_ids=("train/0", *validation.group_ids[1:]))
    with pytest.raises(SplitRefused, match="train/0: 1 tasks are in both splits"):
        train_scorer(train, leaked, SHORT)


def test_the_normaliser_and_the_harm_scale_see_training_only(train: TrainingFrame, validation: TrainingFrame) -> None:
    shifted = replace(validation, features=validation.features + 100, harm=validation.harm)
    tiny = replace(SHORT, max_epochs=5)
    first, second = (train_scorer(train, other, tiny).ensemble for other in (validation, shifted))
    np.testing.assert_array_equal(first.normaliser.mean, second.normaliser.mean)
    np.testing.assert_allclose(first.normaliser.mean, train.features[train.present].mean(axis=0), atol=1e-6)
    assert first.harm_scale == (train.harm.mean(), max(train.harm.std(), 0.02))
