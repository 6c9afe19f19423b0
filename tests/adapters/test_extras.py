"""Each adapter needs its own framework and no other, and says which extra brings it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from drsr.errors import MissingExtra

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
FRAMEWORKS = {
    "openai_chat": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "langchain": ("langchain", "langchain"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "openai_agents": ("agents", "openai-agents"),
    "litellm": ("litellm", "litellm"),
    "openhands": ("openhands", "openhands"),
    "inspect_ai": ("inspect_ai", "inspect"),
}
"""Adapter -> the framework's package and the extra."""

WITHOUT_FRAMEWORKS = """
import sys
import drsr.adapters
loaded = {name.split(".")[0] for name in sys.modules}
frameworks = {"openai", "anthropic", "langchain", "langchain_core", "pydantic_ai", "agents", "litellm", "anyio"}
frameworks |= {"openhands", "inspect_ai"}
print(sorted(loaded & frameworks))
"""


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_a_missing_framework_is_named_with_its_extra(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = FRAMEWORKS[adapter]
    assert extra in EXTRAS
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # what Python does for a package that is not there
    monkeypatch.delitem(sys.modules, f"drsr.adapters.{adapter}", raising=False)
    with pytest.raises(MissingExtra, match=rf"pip install 'drsr\[{extra}\]'"):
        importlib.import_module(f"drsr.adapters.{adapter}")


def test_importing_the_adapters_loads_no_framework() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_FRAMEWORKS], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout == "[]\n", ran.stderr
