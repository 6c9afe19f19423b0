"""`hf:<repo>@<revision>`: models of the Hugging Face hub, read from its cache on this machine.

Loading never touches the network; only `fetch` does. A revision that is a commit hash names the same bytes for ever. A
branch or tag, or no revision at all (`main`), is allowed and less reproducible: what it names can change between two
fetches. The backbone's identity notices, the name does not.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from drsr.backbone.model_folder import CONFIG_FILE, WEIGHTS_INDEX_FILE, weight_files
from drsr.backbone.tokenizer import TOKENIZER_FILE
from drsr.errors import BackboneError, BackboneNotFetched, MissingExtra, UnknownBackbone

PREFIX = "hf:"

_NAME = re.compile(r"hf:(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
_WITHOUT_WEIGHTS = [CONFIG_FILE, TOKENIZER_FILE]
_WEIGHTS = ["model*.safetensors", WEIGHTS_INDEX_FILE]
"""Downloaded along with the two above. Never pickles, never code."""


class HubName(NamedTuple):
    """One model of the hub at one revision."""

    repo: str
    revision: str


def parse(name: str) -> HubName:
    """Return the parts of `hf:<repo>@<revision>`."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise UnknownBackbone(
            f"{name!r} is not of the form hf:<repo>@<revision>", hint="such as hf:Qwen/Qwen3.5-9B@main"
        )
    return HubName(match["repo"], match["revision"] or "main")


def local_folder(name: str, *, tokenizer_only: bool = False) -> Path:
    """Return the complete snapshot in the hub's cache on this machine, without a network."""
    repo, revision = parse(name)
    library = _library()
    missing = BackboneNotFetched(f"the backbone {name} is not on this machine yet", hint=f"drsr backbone fetch {name}")
    # The same patterns as in `fetch`: the hub's library also misses files of the repository that nobody asked for.
    wanted = _WITHOUT_WEIGHTS if tokenizer_only else _WITHOUT_WEIGHTS + _WEIGHTS
    try:
        found = library.snapshot_download(repo, revision=revision, allow_patterns=wanted, local_files_only=True)
    except library.errors.LocalEntryNotFoundError as error:
        raise missing from error
    except library.errors.HFValidationError as error:
        raise UnknownBackbone(f"{repo!r} cannot be the name of a repository: {error}") from error
    folder = Path(found)
    try:
        files = [folder / file for file in _WITHOUT_WEIGHTS] + ([] if tokenizer_only else weight_files(folder))
    except BackboneError as error:  # a download that was broken off leaves a snapshot with gaps
        raise missing from error
    if not all(file.is_file() for file in files):
        raise missing
    return folder


def fetch(name: str) -> Path:
    """Download what is missing of a model into the hub's cache."""
    repo, revision = parse(name)
    library = _library()
    try:
        library.snapshot_download(repo, revision=revision, allow_patterns=_WITHOUT_WEIGHTS + _WEIGHTS)
    except Exception as error:  # the hub's errors and those of whichever HTTP library it uses have no common base
        raise BackboneError(
            f"could not download {name} from the hub: {_said(error)}",
            hint="path:<dir> loads a model that was copied here by other means",
        ) from error
    try:
        return local_folder(name)
    except BackboneNotFetched as error:
        raise BackboneError(
            f"the repository {repo} at {revision} does not hold all of config.json, tokenizer.json and safetensors",
            hint="save it with transformers' save_pretrained and name it path:<dir>",
        ) from error


def fetch_file(repo: str, file: str) -> Path:
    """Download one file of a repository into the hub's cache. The caller checks its hash."""
    library = _library()
    try:
        return Path(library.hf_hub_download(repo, file))
    except Exception as error:  # as above
        raise BackboneError(
            f"could not download {file} of {repo} from the hub: {_said(error)}",
            hint="drsr backbone fetch NAME --from FILE-OR-FOLDER takes what was copied here by other means",
        ) from error


def _library() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ModuleNotFoundError as error:
        raise MissingExtra("huggingface_hub", "backbone", needed_for="a model of the Hugging Face hub") from error
    return huggingface_hub


def _said(error: Exception) -> str:
    """The class of an error and its first line."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
