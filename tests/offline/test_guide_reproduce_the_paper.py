"""The guide keeps its word: docs/guides/reproduce-the-paper.md runs from a folder of runs to a report, with a tiny
Qwen3.5 of the real number of layers and heads."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import torch
import transformers

from drsr.cli import main
from drsr.offline.ingest.splits import assign_split, group_key
from drsr.offline.store import progress
from drsr.settings import load_settings
from tests.offline.chat_files import chat, write_json
from tests.offline.small_pipeline import write_params
from tests.tiny_models import tiny_config, tokenizer_json

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "reproduce-the-paper.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
RUNS = {"train": 3, "validation": 2, "test": 1}
CALM = 0.05
"""Spread of the random weights: through 32 layers of wider ones a rounding error grows into the labels."""


def test_the_memory_is_what_the_arithmetic_says() -> None:
    (code,) = [text for kind, text in BLOCKS if kind == "python"]
    (shown,) = [text for kind, text in BLOCKS if kind == "text"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "reproduce-the-paper.md", "exec"), {})  # noqa: S102 - our own text
    assert printed.getvalue() == shown


def test_pages_that_it_points_at_are_there() -> None:
    for target in re.findall(r"\]\(([^)#]+\.md)\)", GUIDE):
        assert (ROOT / "docs" / "guides" / target).resolve().is_file(), target


def test_the_settings_are_settings(tmp_path: Path) -> None:
    (text,) = [text for kind, text in BLOCKS if kind == "toml"]
    (tmp_path / "drsr.toml").write_text(text)
    found = load_settings(tmp_path, {})
    assert {name: getattr(found, name) for name in tomllib.loads(text)} == tomllib.loads(text)


def test_the_guide_runs_from_a_folder_of_runs_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = _tiny_qwen(tmp_path / "model")
    for name, value in {"BACKBONE": f"path:{model}", "DEVICE": "cpu", "CACHE": "cache"}.items():
        monkeypatch.setenv(f"DRSR_{name}", value)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)
    _write_runs(tmp_path / "runs")
    write_params(tmp_path)
    (toml,) = [text for kind, text in BLOCKS if kind == "toml"]
    (tmp_path / "drsr.toml").write_text(toml)
    console = "".join(text for kind, text in BLOCKS if kind == "console")
    commands = re.findall(r"^\$ drsr (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(commands) == 12
    capsys.readouterr()
    for command, shown in commands:
        code = main(shlex.split(command))
        said = capsys.readouterr()
        assert code == 0, f"drsr {command}: {said.err}"
        pattern = "".join(_pattern(line) for line in shown.splitlines())
        assert re.fullmatch(pattern, said.out, re.DOTALL), f"drsr {command} no longer prints\n{shown}\nbut\n{said.out}"
    page = (tmp_path / "var" / "report" / "index.html").read_text()
    assert re.search(r"noise floor of harm.*nats per token against float32", page, re.DOTALL)
    assert "tiny" not in page.lower() or str(model) in page
    assert len(list((tmp_path / "var" / "report" / "tables").glob("*.csv"))) >= 5


def _tiny_qwen(folder: Path) -> Path:
    """The paper's layers and heads in small widths, with random weights."""
    config = tiny_config("qwen3_5")
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (32, 16, 4)
    config.initializer_range = CALM
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    (folder / "tokenizer.json").write_text(tokenizer_json(), encoding="utf-8")
    return folder


def _write_runs(folder: Path) -> None:
    """Short runs, some of each split: a forward through 32 layers takes its time at any width."""
    seeds = itertools.count()
    for split, wanted in RUNS.items():
        names = (f"{split}-{number}" for number in itertools.count())
        of_split = (name for name in names if assign_split(group_key("", "", name)) == split)
        for name in itertools.islice(of_split, wanted):
            seed = next(seeds)
            run = chat(seed, steps=5)
            for message in run["messages"]:
                message["content"] = message["content"][:60]
            write_json(folder / f"{seed}.json", run | {"task": name})


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return ".*"
    return re.escape(line).replace(r"\.\.\.", "[^\n]*") + r"\n"
