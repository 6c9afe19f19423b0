"""PACE: every past interaction in one of four forms, chosen by its relevance to the present Steps and by how full the
window is.

An interaction is a Step; its key is an embedding of its full form. The two latest stay full. The query embeds the task
and the last two; s = cosine(query, key), w = softmax(s / 0.3) x number scored, pressure P = max(t / T_max, tokens /
window). With thresholds (0.4, 0.8, 1.5) x (1 + 0.5 P): above the third full, above the second a detailed summary, above
the first a brief one, else a placeholder. Shorter forms are written as the content of the tool result, so that pairs
survive. Each summary is requested once, when it is first needed.

Assumptions. The source's embedder comes from a hub: `--model pace=...` supplies one. Otherwise it is a hashed bag of
words (scikit-learn's HashingVectorizer, 16,384 buckets). T_max is 100 Steps. In a Step with several results the first
carries the form; in one without results, its text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drsr.offline.bench.comparators.contract import Keep, Ledger, Rewrite, Trained
from drsr.offline.bench.comparators.edits import steps_before_recent, with_texts
from drsr.offline.bench.comparators.handed_models import Embedder
from drsr.offline.bench.comparators.token_counts import SCALED, TokenCounts
from drsr.offline.bench.comparators.transcript import step_messages, task_of, transcript
from drsr.offline.bench.summarisers.summariser import Ask, Completion, Summariser
from drsr.request.history import History, Step, read_history
from drsr.request.parts import PartRef, Result, Text
from drsr.request.request import Request

THRESHOLDS = (0.4, 0.8, 1.5)
TEMPERATURE = 0.3
MOST_STEPS = 100
_BUCKETS = 1 << 14
_FORMS = ("placeholder", "brief", "detailed", "full")
_LENGTHS = {"brief": 48, "detailed": 160}
_PLACEHOLDER = "[earlier interaction, left out]"
_SEE_FIRST = "[see the first result of this step]"
_INSTRUCTIONS = {
    "brief": "Say in one sentence what this step did and what came of it. Keep names and numbers word for word.",
    "detailed": "Summarise this step: what was asked, what came back, names, numbers and paths word for word.",
}

Summaries = dict[tuple[int, str], str]
"""Summaries of one trajectory: the text written for a Step in a form."""


@dataclass
class PaceMemory:
    """The summaries and embeddings made along one trajectory."""

    summaries: Summaries = field(default_factory=dict)


class Pace:
    """Four forms by weight."""

    name = "pace"
    title = "PACE"
    assumptions: tuple[str, ...] = (
        "The embedder is a hashed bag of words (16,384 buckets); the source's comes from a hub.",
        "T_max is 100 Steps; a brief summary has at most 48 tokens, a detailed one 160; the prompts are ours.",
        "A form that is not shorter than what it would replace is not used.",
        "Of a Step with several results the first carries the form; of one without, its text.",
        SCALED,
    )
    trained: Trained = "no"
    asks = True
    keeps = frozenset({Keep.PAIRS, Keep.PREFIX, Keep.TASK, Keep.RECENT2, Keep.USER})

    def __init__(self, counts: TokenCounts, embedder: Embedder | None = None) -> None:
        self._counts = counts
        self._embedder = embedder
        self.model_identity = "" if embedder is None else embedder.identity
        if embedder is not None:
            self.trained = "handed in"
            said = f"The embedder is {embedder.said}: the mean of its last hidden states over the beginning of a text."
            self.assumptions = (said, *self.assumptions[1:])

    def begin(self) -> PaceMemory:
        return PaceMemory()

    def rewrite(self, request: Request, state: PaceMemory, summariser: Summariser) -> Rewrite:
        history, ledger = read_history(request), Ledger()
        past = history.steps[: steps_before_recent(history)]
        if not past:
            return Rewrite(request)
        weights = self._weights(history, past, ledger)
        pressure = max(len(history.steps) / MOST_STEPS, self._counts.request(request) / self._counts.window)
        texts: dict[PartRef, str] = {}
        for step, weight in zip(past, weights, strict=True):
            form = form_of(float(weight), pressure)
            places = _places(history, step)
            if form == "full" or not places:
                continue
            text = self._form(history, step, form, state, summariser, ledger)
            replaced = {ref: text if number == 0 else _SEE_FIRST for number, ref in enumerate(places)}
            if self._shorter(request, replaced):
                texts |= replaced
        return ledger.rewrite(with_texts(request, texts))

    def _weights(self, history: History, past: tuple[Step, ...], ledger: Ledger) -> NDArray[np.float64]:
        keys = [transcript(step_messages(history, step)) for step in past]
        latest = history.request.messages[history.recent[0].message :]
        texts = [*keys, f"{task_of(history)}\n{transcript(latest)}"]
        if self._embedder is None:
            return weights(texts)
        found = self._embedder(texts)
        ledger.paid(Completion("", found.tokens, 0))
        return weighed(found.rows[:-1] @ found.rows[-1])

    def _form(
        self, history: History, step: Step, form: str, state: PaceMemory, summariser: Summariser, ledger: Ledger
    ) -> str:
        if form == "placeholder":
            return _PLACEHOLDER
        key = (step.index, form)
        if key not in state.summaries:
            material = transcript(step_messages(history, step))
            ask = Ask("summary", _INSTRUCTIONS[form], material, _LENGTHS[form])
            state.summaries[key] = ledger.paid(summariser.complete(ask)) or _PLACEHOLDER
        return state.summaries[key]

    def _shorter(self, request: Request, replaced: dict[PartRef, str]) -> bool:
        before = sum(self._counts.text(_text(request, ref)) for ref in replaced)
        return sum(self._counts.text(text) for text in replaced.values()) < before


def form_of(weight: float, pressure: float) -> str:
    """Return the form of an interaction, by its weight and the pressure."""
    return _FORMS[sum(weight > threshold * (1 + 0.5 * pressure) for threshold in THRESHOLDS)]


def weights(texts: list[str]) -> NDArray[np.float64]:
    """Return, for every text except the last, which is the query, the softmax of its cosine with the query, times their
    number."""
    from sklearn.feature_extraction.text import HashingVectorizer

    rows = HashingVectorizer(n_features=_BUCKETS, norm="l2", alternate_sign=False).transform(texts)
    return weighed((rows[:-1] @ rows[-1].T).toarray()[:, 0])


def weighed(cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax of cosines with the query, times their number."""
    scaled = np.exp((cosine - cosine.max()) / TEMPERATURE)
    found: NDArray[np.float64] = scaled / scaled.sum() * len(cosine)
    return found


def _places(history: History, step: Step) -> list[PartRef]:
    """Return where a Step's form can be written: its results, or its only text if it makes no calls."""
    if not step.complete or any(block.opaque for block in step.blocks):
        return []
    exchanges = [block for block in step.blocks if block.component > 0]
    if exchanges:
        return [block.parts[1] for block in exchanges]
    parts = history.request.messages[step.message].parts
    texts = [PartRef(step.message, at) for at, part in enumerate(parts) if isinstance(part, Text) and part.text]
    return texts if len(texts) == 1 else []


def _text(request: Request, ref: PartRef) -> str:
    part = request.messages[ref.message].parts[ref.part]
    return part.text if isinstance(part, Text | Result) else ""
