"""The oldest releases that pyproject.toml allows are really enough: installed alone, they have every name we use.

Floors of the light install and of `backbone` only. What these packages need themselves comes from the running
environment, as pip would bring it today; so does torch, whose floor is the release that is pinned there.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.third_parties import link_third_parties

ROOT = Path(__file__).parent.parent
LIGHT = ("numpy", "safetensors", "tokenizers")
"""Without a language model these are all there is; a light policy needs the last only for some tokenizers."""
BACKBONE = ("numpy", "transformers", "accelerate", "gguf")
"""Beside a newer safetensors and tokenizers, which transformers asks for."""

RESOLVES = """
import importlib, json, sys
sys.path[:0] = json.loads(sys.argv[1])
missing = []
for module, name in json.loads(sys.argv[2]):
    try:
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError as error:
        missing.append(f"{module}: {name}: {error}")
print(json.dumps(missing))
"""

DECIDES = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from importlib.metadata import version
from tests.tiny_models import build_tiny
from drsr.backbone import load_backbone
from drsr.decide.candidates import freeze
from drsr.features.vectors import candidate_features
from drsr.request.request import read_request
folder = build_tiny("qwen3_5", __import__("pathlib").Path(sys.argv[2]))
backbone = load_backbone(f"path:{folder}")
request = read_request(json.loads(open(sys.argv[3]).read()))
features = candidate_features(backbone, freeze(request, backbone.tokenizer, 2_000))
candidates, columns = features.matrix.shape
versions = {name: version(name) for name in ("transformers", "numpy")}
print(json.dumps({"versions": versions, "candidates": candidates, "columns": columns}))
"""


def floors() -> dict[str, str]:
    """Return the oldest release of each direct dependency of the light install and of `backbone`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in ("tokenizers", "backbone") for line in project["optional-dependencies"][extra]),
    ]
    found = {}
    for requirement in map(Requirement, lines):
        (oldest,) = [part.version for part in requirement.specifier if part.operator == ">="]
        found[requirement.name] = oldest
    return found


def used_names(packages: set[str]) -> Iterator[tuple[str, str | None]]:
    """Yield every module, or name of one, that the product takes from these packages, offline rooms aside."""
    for path in (ROOT / "drsr").rglob("*.py"):
        if path.relative_to(ROOT / "drsr").parts[0] in ("offline", "flows", "expectations"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] in packages)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in packages:
                yield from ((node.module, alias.name) for alias in node.names)


def install(folder: Path, names: tuple[str, ...]) -> str:
    """Install the floors of these packages alone; gives the folder to import from."""
    wanted = [f"{name}=={floors()[name]}" for name in names]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder), *wanted], check=True)
    return str(folder)


@pytest.fixture(scope="module")
def backbone_paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Folders to import from: the floors first, then what they need themselves, then this checkout."""
    folder = tmp_path_factory.mktemp("floors")
    oldest = install(folder / "oldest", BACKBONE)
    link_third_parties(folder / "theirs", "backbone")
    return [oldest, str(folder / "theirs"), str(ROOT)]


def run(code: str, paths: list[str], *arguments: str) -> object:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "DRSR_"))}
    # -S: without the packages of the environment that runs this test.
    command = [sys.executable, "-S", "-c", code, json.dumps(paths), *arguments]
    done = subprocess.run(command, env=environment, cwd=paths[0], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_floor_of_torch_is_the_release_that_is_tested() -> None:
    pinned = [line.strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert any(line.startswith(f"torch=={floors()['torch']}") for line in pinned)


def test_every_name_of_the_light_install_is_in_the_oldest_releases(tmp_path: Path) -> None:
    names = sorted(set(used_names(set(LIGHT))), key=str)
    assert {"numpy", "safetensors", "tokenizers"} <= {module for module, _ in names}
    assert run(RESOLVES, [install(tmp_path / "oldest", LIGHT)], json.dumps(names)) == []


def test_every_name_of_a_language_model_is_in_the_oldest_releases(backbone_paths: list[str]) -> None:
    names = sorted(set(used_names({*BACKBONE, "torch"})), key=str)
    assert "transformers" in {module for module, _ in names}
    assert run(RESOLVES, backbone_paths, json.dumps(names)) == []


def test_a_language_model_is_read_with_the_oldest_releases(backbone_paths: list[str], tmp_path: Path) -> None:
    sample = ROOT / "drsr" / "offline" / "samples" / "request.json"
    seen: Any = run(DECIDES, backbone_paths, str(tmp_path / "tiny"), str(sample))
    assert all(version.startswith(floors()[name]) for name, version in seen["versions"].items())
    assert seen["candidates"] in (3, 4)
    assert seen["columns"] > 58
