"""Any causal language model that transformers loads, frozen: it is read, never trained.

torch and transformers are imported when a model is loaded, not when this file is: the light install has neither.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drsr.backbone.memory import free_on_gpus, is_out_of_memory, spread_over, too_large_for, weight_bytes
from drsr.backbone.model_folder import backbone_identity, read_window
from drsr.backbone.tokenizer import HfTokenizer
from drsr.errors import BackboneCorrupt, BackboneError, MissingExtra, SettingsError, WindowExceeded
from drsr.request.contracts import TokenIds
from drsr.request.tokens_read import is_noting, note
from drsr.settings import DTYPES, MIXED

_log = logging.getLogger(__name__)


class FrozenLM:
    """A frozen causal language model with its tokenizer, behind the contract `drsr.request.contracts.Backbone`."""

    def __init__(
        self,
        model: Any,
        tokenizer: HfTokenizer,
        *,
        name: str,
        identity: str,
        window: int,
        rounds_inputs: bool = False,
        precision: str | None = None,
    ) -> None:
        """`from_folder` is the usual way in. `model` is a transformers causal LM on its device and in its dtype."""
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._name = name
        self._identity = identity
        self._window = window
        self.precision = precision or str(model.dtype).removeprefix("torch.")
        """The number format it computes in, by its name in the settings."""
        self.rounds_inputs = rounds_inputs
        """Whether layers round what they are given, as 8-bit ones do: a last bit of difference then grows, and a run is
        the same only where it is cut into the same pieces."""
        _note_what_it_reads(self._model)
        self._vocabulary = int(self._model.get_input_embeddings().weight.shape[0])
        if tokenizer.largest_id >= self._vocabulary:
            raise BackboneError(
                f"the tokenizer has ids up to {tokenizer.largest_id}, the model only {self._vocabulary} embeddings",
                where=name,
                hint="the files of two models seem to be mixed",
            )

    @classmethod
    def from_folder(cls, folder: Path, *, name: str, device: str = "cpu", dtype: str = "float32") -> FrozenLM:
        """Load config.json, safetensors and tokenizer.json of a folder. Fetch nothing, and run none of its code."""
        window = read_window(folder)
        tokenizer = HfTokenizer.from_folder(folder)
        identity = backbone_identity(folder, tokenizer.identity)
        model = _load_model(folder, device, dtype)
        return cls(model, tokenizer, name=name, identity=identity, window=window, precision=dtype)

    @property
    def model(self) -> Any:
        """The torch module, in eval mode and without gradients."""
        return self._model

    @property
    def name(self) -> str:
        """The name it was loaded by."""
        return self._name

    @property
    def identity(self) -> str:
        """SHA-256 over weights, settings and tokenizer. Device and dtype only round differently, and are not in it."""
        return self._identity

    @property
    def window(self) -> int:
        """The largest number of tokens in one sequence."""
        return self._window

    @property
    def tokenizer(self) -> HfTokenizer:
        return self._tokenizer

    def logits(self, token_ids: TokenIds, positions: Sequence[int]) -> NDArray[np.float32]:
        """Next-token logits after each of the given positions (0 is the first token): one row per position.

        One forward over the whole sequence; the vocabulary projection, which is what costs memory, only at `positions`.
        """
        import torch

        self._check(token_ids, positions)
        if not len(positions):
            return np.empty((0, self._vocabulary), dtype=np.float32)
        device = self._model.device
        sequence = torch.as_tensor(np.asarray(token_ids, dtype=np.int64)[None], device=device)
        rows = torch.as_tensor(np.asarray(positions, dtype=np.int64), device=device)
        # On several devices, the last hidden states are elsewhere than the input, and cannot be indexed from there.
        first = min(positions) if _is_spread(self._model) else None
        with torch.inference_mode():
            kept = rows if first is None else len(token_ids) - first
            output = self._model(input_ids=sequence, logits_to_keep=kept, use_cache=False)
            logits: NDArray[np.float32] = output.logits[0].float().cpu().numpy()
        return logits if first is None else logits[np.asarray(positions) - first]

    def _check(self, token_ids: TokenIds, positions: Sequence[int]) -> None:
        """On a GPU an index out of range takes the whole process down, so it is found here."""
        length = len(token_ids)
        if length > self._window:
            raise WindowExceeded(f"{length} tokens, the window holds {self._window}", where=self._name)
        if length and not 0 <= int(np.min(token_ids)) <= int(np.max(token_ids)) < self._vocabulary:
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        if len(positions) and not 0 <= min(positions) <= max(positions) < length:
            raise IndexError(f"positions must be from 0 to {length - 1}, got {min(positions)} to {max(positions)}")


def _is_spread(model: Any) -> bool:
    return len(set(getattr(model, "hf_device_map", {}).values())) > 1


def _note_what_it_reads(model: Any) -> None:
    """Every forward begins in the embedding, or is handed embeddings; a copy of the model notes as well."""
    embedding, decoder = model.get_input_embeddings(), model.get_decoder()
    if _noted not in embedding._forward_pre_hooks.values():
        embedding.register_forward_pre_hook(_noted)
        decoder.register_forward_pre_hook(_noted_embeddings, with_kwargs=True)


def _noted(_: Any, arguments: Any) -> None:
    if is_noting():
        note(arguments[0].reshape(-1).cpu().numpy().astype(np.int32))


def _noted_embeddings(_: Any, arguments: Any, named: dict[str, Any]) -> None:
    """Texts whose tokens cannot be known: each counts as a token that is in no request."""
    given = named.get("inputs_embeds")
    if given is not None and is_noting():
        note(np.full(given.shape[0] * given.shape[1], -1, dtype=np.int32))


def read_settings(folder: Path) -> Any:
    """Return the settings of the model in a folder as transformers has them: quick, because no weights are read."""
    try:
        from transformers import AutoConfig
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "transformers", "backbone", needed_for="a language model") from error
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise BackboneError(f"transformers cannot read its settings: {error}", where=str(folder)) from error


def check_placement(device: str, dtype: str) -> None:
    """Raise SettingsError if no model can be loaded so on this machine."""
    if dtype not in DTYPES:
        raise SettingsError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(DTYPES)}")
    if device != "cpu":  # which is always there, and asking takes seconds for importing torch
        _check_device(device)


def check_int8_placement(device: str, dtype: str) -> None:
    """Raise SettingsError if there are no 8-bit kernels, or if rounding would start from rounded weights."""
    if device != "cpu" or dtype != "float32":
        raise SettingsError(
            f"8-bit weights run on cpu and are made from float32, not on {device} from {dtype}",
            hint="leave device and dtype out, or take the backbone without int8",
        )


def _load_model(folder: Path, device: str, dtype: str) -> Any:
    try:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "transformers", "backbone", needed_for="a language model") from error
    check_placement(device, dtype)
    placed = _spread(folder, dtype) if device == "cuda" else {}
    kinds = getattr(read_settings(folder).get_text_config(), "layer_types", None) or () if device != "cpu" else ()
    if (warning := slow_layers(kinds, device)) is not None:
        _log.warning("%s: %s", folder.name, warning)
    try:
        with _without_progress_bars():
            from_pretrained: Any = AutoModelForCausalLM.from_pretrained
            model, found = from_pretrained(
                folder,
                dtype="auto" if dtype == MIXED else getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
                **placed,
            )
    except SafetensorError as error:
        raise BackboneCorrupt(f"the weights cannot be read ({error})", where=str(folder)) from error
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise BackboneError(f"transformers cannot load it: {error}", where=str(folder)) from error
    # transformers fills what is missing with random numbers and goes on; every label would then be noise.
    if found["missing_keys"] or found["mismatched_keys"]:
        missing = sorted(map(str, found["missing_keys"] or found["mismatched_keys"]))
        raise BackboneCorrupt(f"{len(missing)} tensors are missing, such as {missing[0]}", where=str(folder))
    if dtype == MIXED:
        from drsr.backbone.matrices.mixed import with_mixed_precision

        model = with_mixed_precision(model)
    return model if placed else _moved(model, device, folder)


FAST_KERNELS = {"fla": "flash-linear-attention", "causal_conv1d": "causal-conv1d"}
"""Modules that compute recurrent layers quickly on a GPU, and the packages that have them."""


def slow_layers(layer_types: Sequence[str], device: str) -> str | None:
    """Return a warning where a GPU would compute recurrent layers without their kernels, or None."""
    missing = [package for module, package in FAST_KERNELS.items() if importlib.util.find_spec(module) is None]
    recurrent = list(layer_types).count("linear_attention")
    if not (missing and recurrent and device.startswith("cuda")):
        return None
    return (
        f"{recurrent} of {len(layer_types)} layers are recurrent and run without their fast kernels, correct and "
        f"several times slower: pip install {' '.join(missing)}"
    )


def _moved(model: Any, device: str, folder: Path) -> Any:
    try:
        return model.to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        complaint = str(error).partition("\n")[0]
    raise too_large_for(device, str(folder), complaint)


def _spread(folder: Path, dtype: str) -> dict[str, str]:
    """Return the further options for loading a model that is larger than one GPU."""
    settings = read_settings(folder)
    published = getattr(settings, "dtype", None)  # as the numbers lie in the files
    size = weight_bytes(folder) * (4 if dtype == "float32" else 2) // getattr(published, "itemsize", 4)
    if dtype == MIXED:  # the embedding, and an output matrix of its own, stay in 32 bits
        text = settings.get_text_config()
        size += 2 * text.vocab_size * text.hidden_size * (1 if settings.tie_word_embeddings else 2)
    spread = spread_over("cuda", size, free_on_gpus())
    return {} if spread is None else {"device_map": spread}


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        what = f"the device {device!r} cannot be used: {str(error).splitlines()[0]}"
        raise SettingsError(
            what, hint="cpu works everywhere; it is named by --device, DRSR_DEVICE or drsr.toml"
        ) from error


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """transformers draws one for reading 500 MB from disk."""
    import transformers

    logging: Any = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
