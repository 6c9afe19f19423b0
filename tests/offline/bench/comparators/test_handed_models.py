"""Models that are handed in for comparators: loaded by transformers, read piece by piece, and named in the row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, processors

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import BackboneError, BackboneNotFetched, SettingsError
from drsr.offline.bench.comparators.handed_models import load_models, named_models
from drsr.offline.bench.comparators.llmlingua2 import LlmLingua2
from drsr.offline.bench.comparators.registry import comparators
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.bench.replay.method_version import version_of
from drsr.request.request import read_request
from tests.messages import USER, answers, asks
from tests.offline.bench.comparators.test_word_and_line_pruning import LOG
from tests.offline.bench.long_run import long_run
from tests.offline.bench.recording_summariser import RecordingSummariser
from tests.tiny_models import VOCABULARY, tokenizer_json

WINDOW = 48
WORDS = [
    f"{word} " for word in ["the", "agent", "reads", "the", "file", "and", "writes", "42", "into", "the", "report"]
]


def build(folder: Path, kind: str, labels: int = 2) -> Path:
    """A tiny BERT with its tokenizer, as transformers saves one."""
    configured: Any = transformers.BertConfig
    config = configured(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=WINDOW,
        num_labels=labels,
        initializer_range=0.2,
    )
    made: Any = transformers.BertForTokenClassification if kind == "token classifier" else transformers.BertModel
    with torch.random.fork_rng():
        torch.manual_seed(7)
        made(config).save_pretrained(folder)
    tokenizer = Tokenizer.from_str(tokenizer_json())
    start, end = "<|im_start|>", "<|im_end|>"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {end} $B:1 {end}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (start, end)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("classifier"), "token classifier")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("encoder"), "encoder")


def chances(folder: Path, *texts: str) -> tuple[list[float], Any]:
    """The chance of every token to stay, by transformers alone."""
    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = tokenizer.encode(*texts)
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(torch.tensor([encoded.ids])).logits[0]
    return torch.softmax(logits.double(), dim=-1)[:, 1].tolist(), encoded


@pytest.mark.parametrize("goal", [None, "what is in the file"])
def test_a_piece_scores_the_mean_of_its_tokens(classifier: Path, goal: str | None) -> None:
    keeper = load_models({"llmlingua2": str(classifier)}).llmlingua2
    assert keeper is not None
    found = keeper(WORDS, goal)
    every, encoded = chances(classifier, *([] if goal is None else [goal]), "".join(WORDS))
    assert found.tokens == len(encoded.ids) <= WINDOW
    end = 0
    for word, score in zip(WORDS, found.scores, strict=True):
        start, end = end, end + len(word)
        mine = [
            chance
            for chance, span, sequence in zip(every, encoded.offsets, encoded.sequence_ids, strict=True)
            if sequence == (0 if goal is None else 1) and start <= span[1] - 1 < end
        ]
        assert score == pytest.approx(np.mean(mine), abs=1e-6)


def test_long_texts_are_read_in_parts_that_end_with_a_piece(classifier: Path) -> None:
    keeper = load_models({"swe_pruner": str(classifier)}).swe_pruner
    assert keeper is not None
    found = keeper(WORDS * 20, "goal " * 100)
    assert len(found.scores) == len(WORDS) * 20
    assert all(score > 0 for score in found.scores)
    assert found.tokens > 5 * WINDOW
    assert len(keeper(["x" * 500, " y"]).scores) == 2  # a piece that is longer than the window is read in part
    assert keeper([]).scores == []


def test_rows_say_which_model_they_are_of(classifier: Path, encoder: Path) -> None:
    names = {"llmlingua2": str(classifier), "swe_pruner": str(classifier), "pace": str(encoder)}
    rows = comparators(ScriptedTokenizer(), window=2048, models=load_models(names), wanted=[]).available
    for name, folder in names.items():
        method = rows[name]
        assert method.trained == "handed in"
        assert Path(folder).name in method.assumptions[0]
        assert version_of(method).startswith("model ")
    assert version_of(rows["llmlingua2"]) == version_of(rows["swe_pruner"]) != version_of(rows["pace"])
    assert version_of(comparators(ScriptedTokenizer(), wanted=[]).available["llmlingua2"]) == ""


def test_words_go_by_the_classifier(classifier: Path) -> None:
    request, counts = long_run("openai", 10), TokenCounts(ScriptedTokenizer(), 2048)
    keeper = load_models({"llmlingua2": str(classifier)}).llmlingua2
    found = LlmLingua2(counts, keeper).rewrite(request, None, RecordingSummariser())
    plain = LlmLingua2(counts).rewrite(request, None, RecordingSummariser())
    assert counts.request(found.request) < counts.request(request)
    assert found.auxiliary_input_tokens > 0 == plain.auxiliary_input_tokens
    assert found.request.to_wire() != plain.request.to_wire()


def test_lines_go_by_the_skimmer(classifier: Path) -> None:
    rows = comparators(ScriptedTokenizer(), models=load_models({"swe_pruner": str(classifier)}), wanted=[]).available
    request = read_request([USER, asks("a", text="Where is the invoice?"), answers("a", LOG)])
    found = rows["swe_pruner"].rewrite(request, None, RecordingSummariser())
    assert found.auxiliary_input_tokens > 0
    keeper = load_models({"swe_pruner": str(classifier)}).swe_pruner
    assert keeper is not None
    scores = keeper([f"{line}\n" for line in LOG.splitlines()], "Where is the invoice?").scores
    shown = json.dumps(found.request.to_wire())
    for line, score in [*zip(LOG.splitlines(), scores, strict=True)][1:-1]:
        assert (line in shown) == (score >= 0.5)


def test_interactions_are_weighed_by_the_embedder(encoder: Path) -> None:
    embedder = load_models({"pace": str(encoder)}).pace
    assert embedder is not None
    found = embedder(["the file", "the report", "the file", "a word " * 200, ""])
    assert np.linalg.norm(found.rows, axis=1) == pytest.approx(1.0)
    assert found.rows[0] @ found.rows[2] == pytest.approx(1.0)
    assert found.rows[0] @ found.rows[1] < 0.999
    rows = comparators(ScriptedTokenizer(), window=512, models=load_models({"pace": str(encoder)}), wanted=[])
    method = rows.available["pace"]
    rewritten = method.rewrite(long_run("openai", 10), method.begin(), RecordingSummariser())
    assert rewritten.auxiliary_input_tokens > 0


def test_what_is_refused(classifier: Path, encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match="it is no token classifier: it has no weights classifier"):
        load_models({"llmlingua2": str(encoder)})
    three = build(tmp_path / "three", "token classifier", labels=3)
    with pytest.raises(BackboneError, match="3 classes, not 2"):
        load_models({"llmlingua2": str(three)})
    pickled = shutil.copytree(classifier, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(BackboneError, match="no weights"):
        load_models({"llmlingua2": str(pickled)})
    coded = shutil.copytree(classifier, tmp_path / "coded")
    config = json.loads((coded / "config.json").read_text())
    (coded / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "code.Model"}}))
    with pytest.raises(BackboneError, match="its own code"):
        load_models({"llmlingua2": str(coded)})
    with pytest.raises(BackboneNotFetched):
        load_models({"pace": "nobody/nothing"})


def test_options() -> None:
    assert named_models(["pace=a/b", "llmlingua2=hf:c/d@main"]) == {"pace": "a/b", "llmlingua2": "hf:c/d@main"}
    with pytest.raises(SettingsError, match="not 'gpt'") as refusal:
        named_models(["gpt"])
    assert "--agent-model NAME" in str(refusal.value)
    with pytest.raises(SettingsError, match="'sam' takes no model"):
        named_models(["sam=x"])
    with pytest.raises(SettingsError, match="two models for pace"):
        named_models(["pace=x", "pace=y"])
