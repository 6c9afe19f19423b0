"""Trained models supplied for comparators whose own are out of reach: `--model METHOD=FOLDER-OR-HUB-NAME`.

    llmlingua2   a token classifier of two classes; the second keeps a token
    swe_pruner   the same, given the goal and the output as a pair
    pace         an encoder; a text's embedding is the mean of its last hidden states

transformers loads them from config.json, tokenizer.json and safetensors: no pickle, no code of the repository. A model
without the weights that a method needs is refused; transformers would draw them and carry on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drsr.backbone import hub
from drsr.backbone.file_hashes import file_sha256
from drsr.backbone.model_folder import CONFIG_FILE, backbone_identity, read_config, weight_files
from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.errors import BackboneError, MissingExtra, SettingsError

LONGEST = 4_096
"""Maximum number of tokens per call of a model; fewer if the model reads fewer."""
_KEPT = 1
"""The class of a token that stays, in LLMLingua-2's classifiers and in others of its kind."""
Kind = Literal["token classifier", "encoder"]
METHODS: dict[str, Kind] = {"llmlingua2": "token classifier", "swe_pruner": "token classifier", "pace": "encoder"}


class Scored(NamedTuple):
    """Scores of some pieces of texts, and what it took to get them."""

    scores: list[float]
    tokens: int = 0
    """Number of tokens that a model read."""


class Embedded(NamedTuple):
    """One row per text, of length one."""

    rows: NDArray[np.float64]
    tokens: int = 0


class _Loaded(NamedTuple):
    name: str
    identity: str
    model: Any
    tokenizer: Any
    window: int

    @property
    def said(self) -> str:
        return f"{self.name} (SHA-256 {self.identity[:12]})"


class TokenKeeper:
    """A token classifier: how much of a piece of text should stay."""

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded
        self.identity, self.said = loaded.identity, loaded.said

    def __call__(self, pieces: Sequence[str], goal: str | None = None) -> Scored:
        """Score the consecutive pieces of a text: by piece, the mean probability that its tokens stay.

        A text that is longer than the model's window is passed in parts that end with a piece. A piece without tokens
        scores 0.
        """
        scores: list[float] = []
        tokens, goal = 0, None if goal is None else self._beginning(goal)
        for part in self._parts(pieces, goal):
            found, read = self._score(part, goal)
            scores += found
            tokens += read
        return Scored(scores, tokens)

    def _beginning(self, goal: str) -> str:
        """Return as much of a goal as leaves half of the window for the text."""
        offsets = self._loaded.tokenizer.encode(goal, add_special_tokens=False).offsets
        most = self._loaded.window // 2
        return goal if len(offsets) <= most else goal[: offsets[most - 1][1]]

    def _parts(self, pieces: Sequence[str], goal: str | None) -> Iterable[Sequence[str]]:
        plain = self._loaded.tokenizer
        sizes = [len(found.ids) for found in plain.encode_batch([*pieces], add_special_tokens=False)]
        other = plain.encode("") if goal is None else plain.encode(goal, "")
        room = max(self._loaded.window - len(other.ids), 1)
        start, used = 0, 0
        for place, size in enumerate(sizes):
            if used + size > room and place > start:
                yield pieces[start:place]
                start, used = place, 0
            used += size
        if start < len(pieces):
            yield pieces[start:]

    def _score(self, pieces: Sequence[str], goal: str | None) -> tuple[list[float], int]:
        import torch

        text = "".join(pieces)
        encoded = self._loaded.tokenizer.encode(*((text,) if goal is None else (goal, text)))
        own = 0 if goal is None else 1
        ids = encoded.ids[: self._loaded.window]  # one piece alone can be longer than that
        with torch.inference_mode():
            logits = self._loaded.model(input_ids=torch.tensor([ids])).logits[0].double()
        kept = torch.softmax(logits, dim=-1)[:, _KEPT].tolist()
        ends = np.cumsum([len(piece) for piece in pieces])
        sums, counts = np.zeros((2, len(pieces)))
        for chance, (start, end), sequence in zip(kept, encoded.offsets, encoded.sequence_ids, strict=False):
            if sequence == own and end > start:
                place = int(np.searchsorted(ends, end - 1, side="right"))
                sums[place] += chance
                counts[place] += 1
        means: list[float] = np.divide(sums, counts, out=np.zeros(len(pieces)), where=counts > 0).tolist()
        return means, len(ids)


class Embedder:
    """An encoder: what a text is about, as a direction."""

    def __init__(self, loaded: _Loaded) -> None:
        self._loaded = loaded
        self.identity, self.said = loaded.identity, loaded.said

    def __call__(self, texts: Sequence[str]) -> Embedded:
        """Embed the beginning of every text that the model can read."""
        import torch

        rows, tokens = [], 0
        for encoded in self._loaded.tokenizer.encode_batch([*texts]):
            ids = encoded.ids[: self._loaded.window] or [0]
            with torch.inference_mode():
                mean = self._loaded.model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().mean(dim=0)
            rows.append((mean / mean.norm().clamp_min(1e-12)).numpy())
            tokens += len(ids)
        return Embedded(np.array(rows), tokens)


class HandedModels(NamedTuple):
    """The supplied models; None for each that is missing."""

    llmlingua2: TokenKeeper | None = None
    swe_pruner: TokenKeeper | None = None
    pace: Embedder | None = None


def named_models(options: Sequence[str]) -> dict[str, str]:
    """`METHOD=FOLDER-OR-HUB-NAME` by method."""
    found: dict[str, str] = {}
    for option in options:
        method, sign, name = option.partition("=")
        if not sign or not name:
            raise SettingsError(
                f"--model takes METHOD=FOLDER-OR-HUB-NAME, not {option!r}",
                hint="the model of an acting endpoint is --agent-model NAME",
            )
        if method not in METHODS:
            raise SettingsError(f"{method!r} takes no model", hint=f"these do: {', '.join(METHODS)}")
        if method in found:
            raise SettingsError(f"--model names two models for {method}")
        found[method] = name
    return found


def load_models(names: Mapping[str, str]) -> HandedModels:
    """Load every model that was named."""
    made: dict[Kind, Callable[[_Loaded], Any]] = {"token classifier": TokenKeeper, "encoder": Embedder}
    loaded = {method: made[METHODS[method]](_load(name, METHODS[method])) for method, name in names.items()}
    return HandedModels(**loaded)


def _load(name: str, kind: Kind) -> _Loaded:
    folder = Path(name) if Path(name).is_dir() else hub.local_folder(name if name.startswith("hf:") else f"hf:{name}")
    if not (folder / TOKENIZER_FILE).is_file():
        raise BackboneError(f"not a model: there is no {TOKENIZER_FILE}", where=name)
    config = read_config(folder)
    if "auto_map" in config:
        raise BackboneError(
            "it brings its own code, which is never run",
            where=f"{name}/{CONFIG_FILE}",
            hint="save it again as a class of transformers",
        )
    weight_files(folder)  # BackboneError unless they are safetensors
    model = _model(name, folder, kind)
    if kind == "token classifier" and model.config.num_labels != 2:
        raise BackboneError(f"its classifier has {model.config.num_labels} classes, not 2: drop and keep", where=name)
    identity = backbone_identity(folder, file_sha256(folder / TOKENIZER_FILE))
    return _Loaded(Path(name).name, identity, model, _tokenizer(folder), _window(model.config))


def _model(name: str, folder: Path, kind: Kind) -> Any:
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "transformers", "backbone", needed_for="a comparator's model") from error
    automatic: Any = (
        transformers.AutoModelForTokenClassification if kind == "token classifier" else transformers.AutoModel
    )
    try:
        model, found = automatic.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise BackboneError(f"transformers cannot load it as a {kind}: {error}", where=name) from error
    missing = sorted(key for key in found["missing_keys"] if "pooler" not in key)  # the pooler is not read
    if missing:
        raise BackboneError(f"it is no {kind}: it has no weights {', '.join(missing[:3])}", where=name)
    return model.eval()


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _window(config: Any) -> int:
    window = getattr(config, "max_position_embeddings", None) or 512
    if "roberta" in config.model_type:  # the first positions are for padding
        window -= (config.pad_token_id or 0) + 1
    return min(int(window), LONGEST)
