"""LRE: features and labels by hand, a regression that is really fitted on the train split, and the greedy choice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import AlignmentError, OneClassOnly
from drsr.offline import samples
from drsr.offline.bench.comparators.identifiers import identifiers
from drsr.offline.bench.comparators.lre import Lre, worth_their_tokens
from drsr.offline.bench.comparators.lre_features import FEATURES, label_steps, step_features
from drsr.offline.bench.comparators.lre_training import fit_lre, train_requests
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.catalog.engine import Catalog
from drsr.offline.ingest.splits import assign_split
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.contracts import TokenIds
from drsr.request.history import read_history
from drsr.request.request import Request, read_request
from tests.messages import USER, answers, asks
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.offline.chat_files import chat, task_in_split, write_json

COUNTS = TokenCounts(ScriptedTokenizer())


def exchange(name: str, text: str) -> list[dict[str, object]]:
    return [asks(name), answers(name, text)]


def test_identifiers() -> None:
    text = "Order #W12 of user_7 in src/main.py took maxRetries at 12.50, see the End. It is 7 o'clock"
    assert identifiers(text) == {"#W12", "user_7", "src/main.py", "maxRetries", "12.50"}


def test_features_by_hand() -> None:
    texts = ["alpha beta 42", "alpha Gamma error: see https://x.y"]
    rows = step_features(texts, COUNTS)
    assert rows.shape == (2, len(FEATURES)) == (2, 10)
    first, second = (dict(zip(FEATURES, row, strict=True)) for row in rows)
    assert (first["relative_position"], second["relative_position"]) == (0, 0.5)
    assert first["token_count"] == COUNTS.text(texts[0])
    assert first["log_length"] == pytest.approx(np.log(14))
    assert (first["digit_count"], second["digit_count"]) == (2, 0)
    assert (first["error_flag"], second["error_flag"]) == (0, 1)
    assert (first["rare_word_density"], second["rare_word_density"]) == (1, 6 / 7)
    assert (first["capitalised_words"], second["capitalised_words"]) == (0, 1)
    assert (first["jaccard_with_previous"], second["jaccard_with_previous"]) == (0, 1 / 9)
    assert (first["url_or_id_flag"], second["url_or_id_flag"]) == (0, 1)


def test_features_never_look_ahead() -> None:
    """A Step has the same features in a finished run, on which the regression is fitted, as when a decision is made."""
    texts = [f"step {number} with word_{number} and {number * 7}" for number in range(6)]
    whole = step_features(texts, COUNTS)
    assert all(np.array_equal(whole[:length], step_features(texts[:length], COUNTS)) for length in range(7))
    assert len(set(whole[:, FEATURES.index("relative_position")])) == 6


def test_a_step_matters_when_what_it_introduced_recurs_three_times() -> None:
    steps = ["id_1 and id_2", "id_1", "id_1 id_2", "id_1 id_2 id_3", "id_3"]
    messages = [USER, *(message for n, text in enumerate(steps) for message in exchange(f"c{n}", text))]
    labelled = label_steps(read_history(read_request(messages)), COUNTS)
    assert labelled.matters.tolist() == [True, False, False, False, False]


def test_what_the_task_names_is_not_introduced_by_a_step() -> None:
    messages = [{"role": "user", "content": "id_1"}, *(m for n in range(5) for m in exchange(f"c{n}", "id_1"))]
    assert not label_steps(read_history(read_request(messages)), COUNTS).matters.any()


def test_greedy_by_probability_per_token() -> None:
    assert worth_their_tokens([0.9, 0.5, 0.1], [100, 10, 1], 50) == [2, 1]  # 0.009, 0.05, 0.1
    assert worth_their_tokens([0.5, 0.5], [10, 10], 10) == [0]  # the earlier on ties
    assert worth_their_tokens([1.0, 0.1], [60, 10], 50) == [1]  # what does not fit is passed over
    assert worth_their_tokens([], [], 50) == []


@pytest.fixture(scope="module")
def runs() -> list[Request]:
    """Runs of the sample corpus that belong to the train split."""
    with gzip.open(samples.CORPUS) as lines:
        bodies = [json.loads(line) for line in lines][:40]
    return [read_request(body["request"]) for body in bodies if assign_split(f"task:{body.get('task')}") == "train"]


def test_it_is_really_fitted_and_says_something(runs: list[Request]) -> None:
    """Better than chance on its own training data, and the same twice."""
    model = fit_lre(runs, COUNTS)
    assert model == fit_lre(runs, COUNTS)
    labelled = [label_steps(read_history(run), COUNTS) for run in runs]
    matters = np.concatenate([one.matters for one in labelled])
    probability = model.probability(np.concatenate([one.features for one in labelled]))
    assert model.steps == len(matters)
    assert model.trajectories == len(runs)
    assert probability.mean() == pytest.approx(matters.mean(), abs=1e-3)  # a property of the fitted optimum
    assert probability[matters].mean() > probability[~matters].mean() + 0.1


def test_the_optimum_is_that_of_the_penalised_likelihood(runs: list[Request]) -> None:
    """The slow twin: at the fitted weights the gradient of loss and L2 penalty is zero."""
    model = fit_lre(runs, COUNTS, strength=0.5)
    labelled = [label_steps(read_history(run), COUNTS) for run in runs]
    features = np.concatenate([one.features for one in labelled])
    matters = np.concatenate([one.matters for one in labelled])
    residual = model.probability(features) - matters
    z = (features - np.array(model.mean)) / np.array(model.scale)
    gradient = 0.5 * z.T @ residual + np.array(model.weights)
    assert np.abs(gradient).max() < 0.05
    assert np.abs(residual.sum()) < 0.1


def test_one_kind_of_step_only_is_refused() -> None:
    with pytest.raises(OneClassOnly, match="0 introduce"):
        fit_lre([read_request([USER, *exchange("a", "nothing here")])], COUNTS)
    with pytest.raises(OneClassOnly):
        fit_lre([], COUNTS)


def test_a_run_without_tokens_is_left_out(runs: list[Request]) -> None:
    """The tokenizer has no piece for something in it: freezing leaves such a run out as well."""

    class RefusingTokenizer(ScriptedTokenizer):
        def encode_contents(self, texts: Sequence[str]) -> list[TokenIds]:
            if any("\x13" in text for text in texts):
                raise AlignmentError("no piece for the byte 0x13")
            return super().encode_contents(texts)

    unreadable = read_request([USER, *exchange("a", "order #W12 \x13"), *exchange("b", "order #W12")])
    counts = TokenCounts(RefusingTokenizer())
    assert fit_lre([*runs, unreadable], counts) == fit_lre(runs, counts)


def test_steps_are_kept_verbatim_and_in_order(runs: list[Request]) -> None:
    request = long_run("openai", 23)
    found = Lre(fit_lre(runs, COUNTS), COUNTS).rewrite(request, None, RecordingSummariser()).request
    kept = [request.messages.index(message) for message in found.messages]
    assert kept == sorted(kept)
    assert kept[:2] == [0, 1]
    assert kept[-10:] == list(range(38, 48))
    older = sum(COUNTS.messages(request)[index] for index in kept[2:-10])
    assert 0 < older <= 2_048
    assert older + max(COUNTS.messages(request)[4:6]) * 2 > 2_048  # full, but for less than a Step


def test_only_the_current_runs_of_the_train_split_are_read(
    catalog: Catalog, artifacts: ArtifactStore, tmp_path: Path
) -> None:
    for seed, split in enumerate(("train", "validation", "test", "train")):
        write_json(tmp_path / "runs" / f"{seed}.json", chat(seed) | {"task": task_in_split(split)})
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    write_json(tmp_path / "runs" / "0.json", chat(7) | {"id": "run-0", "task": task_in_split("train")})
    ingest(catalog, artifacts, str(tmp_path / "runs"))
    found = [request.to_wire()["messages"] for request in train_requests(catalog, artifacts)]
    assert found == [chat(7)["messages"], chat(3)["messages"]]
