"""The named backbones: what each name means, and the functions that load one.

smollm2-135m           the embedded default, a real 135M causal language model (embedded.py)
smollm2-135m-int8      the same with 8-bit weights, for features only (int8.py)
qwen2.5-coder-0.5b     larger ones, by choice: better and slower (larger.py)
qwen2.5-coder-1.5b
hf:<repo>@<revision>   any causal language model of the Hugging Face hub (hub.py)
path:<dir>             any causal language model saved by transformers
int8:<name>            another one of these with 8-bit weights
scripted               a deterministic double without weights, for trying things out (scripted.py)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from drsr.backbone import embedded, hub, installing, larger
from drsr.backbone.frozen_lm import FrozenLM, check_int8_placement, read_settings
from drsr.backbone.installing import GgufModel, Report
from drsr.backbone.model_folder import CONFIG_FILE, backbone_identity, int8_identity, read_window
from drsr.backbone.scripted import WINDOW, ScriptedBackbone, ScriptedTokenizer
from drsr.backbone.tokenizer import TOKENIZER_FILE, HfTokenizer
from drsr.errors import BackboneError, InputError, MissingExtra, UnknownBackbone
from drsr.request.contracts import Backbone, Tokenizer

SCRIPTED = "scripted"
PATH_PREFIX = "path:"
PAPER_BACKBONE = "hf:Qwen/Qwen3.5-9B"
INT8_NAME = f"{embedded.NAME}-int8"
INT8_PREFIX = "int8:"
CONVERTED: dict[str, GgufModel] = {embedded.NAME: embedded.MODEL, **larger.MODELS}
"""Those that are converted once from a GGUF file."""
KNOWN_NAMES = (*CONVERTED, INT8_NAME, "hf:<repo>@<revision>", "path:<dir>", "int8:<name>", SCRIPTED)


class BackboneEntry(NamedTuple):
    """One row of the list of backbones."""

    name: str
    what: str
    where: str
    """The folder with its files if it is on this machine, else where it comes from."""
    fetched: bool | None
    """None for a form of name that covers many models."""
    size: int | None
    """Bytes on this machine, if it is on this machine."""
    licence: str


class TokenizerAndWindow(NamedTuple):
    """The tokenizer and window of a backbone, which suffice to count tokens."""

    tokenizer: Tokenizer
    window: int
    """The largest number of tokens in one sequence."""


class Fetched(NamedTuple):
    """The result of a fetch."""

    name: str
    where: str
    size: int
    """Bytes on this machine."""


def load_backbone(name: str, device: str = "cpu", dtype: str = "float32") -> Backbone:
    """Load a backbone by name. Never touches the network: what is not here is BackboneNotFetched."""
    if name == SCRIPTED:
        return ScriptedBackbone()
    if is_int8(name):
        return _load_int8(name, device, dtype)
    return FrozenLM.from_folder(_folder(name, tokenizer_only=False), name=name, device=device, dtype=dtype)


def load_tokenizer(name: str) -> TokenizerAndWindow:
    """Load only the tokenizer of a backbone, and how much it can read: quick, and without torch."""
    if name == SCRIPTED:
        return TokenizerAndWindow(ScriptedTokenizer(), WINDOW)
    folder = _folder(name, tokenizer_only=True)
    return TokenizerAndWindow(HfTokenizer.from_folder(folder), read_window(folder))


def read_tokenizer_file(name: str) -> bytes:
    """Return the content of a backbone's tokenizer.json; the scripted double has none."""
    if name == SCRIPTED:
        raise BackboneError(f"the backbone {name!r} has no {TOKENIZER_FILE}", hint="name a language model")
    return (_folder(name, tokenizer_only=True) / TOKENIZER_FILE).read_bytes()


def load_config(name: str) -> Any | None:
    """Return the settings of a backbone as transformers reads them, without its weights; None for the scripted
    double."""
    if name == SCRIPTED:
        return None
    return read_settings(_folder(name, tokenizer_only=False))


def read_config_file(name: str) -> bytes | None:
    """Return the content of a backbone's config.json; None for the scripted double, or if it has no such file."""
    path = None if name == SCRIPTED else _folder(name, tokenizer_only=False) / CONFIG_FILE
    return path.read_bytes() if path is not None and path.exists() else None


def identity_of(name: str) -> str:
    """Return the identity that the backbone will have when it is loaded: quick, and without torch."""
    if name == SCRIPTED:
        return ScriptedBackbone().identity
    folder = _folder(name, tokenizer_only=False)
    identity = backbone_identity(folder, HfTokenizer.from_folder(folder).identity)
    return int8_identity(identity) if is_int8(name) else identity


def is_int8(name: str) -> bool:
    """Return whether the name is of a backbone with 8-bit weights, which gives features and measures no harm."""
    return name == INT8_NAME or name.startswith(INT8_PREFIX)


def _without_int8(name: str) -> str:
    return embedded.NAME if name == INT8_NAME else name.removeprefix(INT8_PREFIX)


def _load_int8(name: str, device: str, dtype: str) -> FrozenLM:
    from drsr.backbone.matrices.int8 import with_int8_weights  # needs torch

    check_int8_placement(device, dtype)
    exact = load_backbone(_without_int8(name))
    if not isinstance(exact, FrozenLM):
        raise UnknownBackbone(f"{name!r} has no weights to round")
    return FrozenLM(
        with_int8_weights(exact.model),
        exact.tokenizer,
        name=name,
        identity=int8_identity(exact.identity),
        window=exact.window,
        rounds_inputs=True,
    )


def fetch(name: str, *, source: Path | None = None, force: bool = False, report: Report = lambda line: None) -> Fetched:
    """Bring a backbone onto this machine, if it is not there yet. `source` and `force` are for converted ones."""
    if is_int8(name):
        return fetch(_without_int8(name), source=source, force=force, report=report)._replace(name=name)
    if name in CONVERTED:
        folder = installing.fetch(CONVERTED[name], source=source, force=force, report=report)
        return Fetched(name, str(folder), _size(folder))
    if source is not None or force:
        raise InputError(f"a file or a second conversion is only for {', '.join(CONVERTED)}, not for {name!r}")
    if name == SCRIPTED:
        return Fetched(name, "ships with drsr", 0)
    folder = hub.fetch(name) if name.startswith(hub.PREFIX) else _folder(name, tokenizer_only=False)
    return Fetched(name, str(folder), _size(folder))


def list_backbones() -> list[BackboneEntry]:
    """Return every named backbone and every form of name, with whether it is on this machine."""
    return [
        *map(_converted_entry, CONVERTED.values()),
        BackboneEntry(
            INT8_NAME,
            f"{embedded.NAME} with 8-bit weights, for features on a CPU; harm is measured with the exact one",
            f"made from {embedded.NAME} when it is loaded",
            embedded.MODEL.is_fetched,
            0 if embedded.MODEL.is_fetched else None,
            embedded.LICENCE,
        ),
        _paper_entry(),
        BackboneEntry(
            SCRIPTED, "a deterministic double without weights, for tests", "ships with drsr", True, 0, "Apache-2.0"
        ),
        BackboneEntry("hf:<repo>@<revision>", "a causal LM of the hub", "Hugging Face hub", None, None, "its own"),
        BackboneEntry("path:<dir>", "a causal LM saved by transformers", "this machine", None, None, "its own"),
    ]


def _converted_entry(model: GgufModel) -> BackboneEntry:
    here = model.is_fetched
    where = str(model.folder) if here else f"{model.origin}, {model.source}"
    return BackboneEntry(model.name, model.what, where, here, _size(model.folder) if here else None, model.licence)


def _paper_entry() -> BackboneEntry:
    try:
        folder: Path | None = hub.local_folder(PAPER_BACKBONE)
    except (BackboneError, MissingExtra):
        folder = None
    return BackboneEntry(
        PAPER_BACKBONE,
        "the paper's backbone, 32 layers; wants a GPU",
        str(folder) if folder else "Hugging Face hub",
        folder is not None,
        _size(folder) if folder else None,
        "see its model card",
    )


def _folder(name: str, *, tokenizer_only: bool) -> Path:
    """The folder that holds a backbone's files; 8-bit weights are rounded when they are loaded."""
    if is_int8(name):
        return _folder(_without_int8(name), tokenizer_only=tokenizer_only)
    if name in CONVERTED:
        return CONVERTED[name].checked_folder(tokenizer_only=tokenizer_only)
    if name.startswith(hub.PREFIX):
        return hub.local_folder(name, tokenizer_only=tokenizer_only)
    if name.startswith(PATH_PREFIX):
        folder = Path(name.removeprefix(PATH_PREFIX)).expanduser()
        if not folder.is_dir():
            raise InputError("there is no such folder", where=str(folder), hint="path:<dir> names a model's folder")
        return folder
    raise UnknownBackbone(f"no backbone is called {name!r}", hint=f"known names: {', '.join(KNOWN_NAMES)}")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
