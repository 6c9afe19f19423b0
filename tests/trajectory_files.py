"""Real recorded runs to test on, where they are at hand, and the bundled samples everywhere else.

The folder `shared/trajectories` beside the repository, or the one that DRSR_TRAJECTORIES names, holds runs as their
frameworks wrote them. Nothing of it is part of the project, so a clone has only the samples.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from drsr.offline import samples
from drsr.request.request import Protocol

_ROOT = Path(__file__).parents[1]


class RecordedRun(NamedTuple):
    """One list of messages as it was recorded."""

    name: str
    """File, and which run or node of it."""
    protocol: Protocol
    messages: list[dict[str, Any]]

    @property
    def decisions(self) -> list[int]:
        """The lengths of its prefixes that end before an assistant message, the one that was recorded next or is to
        come."""
        return [index for index, message in enumerate(self.messages) if message["role"] == "assistant"] + [
            len(self.messages)
        ]


def trajectories_folder() -> Path | None:
    """The folder of real runs, or None on a machine that has none."""
    named = os.environ.get("DRSR_TRAJECTORIES")
    folder = Path(named) if named else _ROOT.parent / "shared" / "trajectories"
    if named and not folder.is_dir():
        raise FileNotFoundError(f"DRSR_TRAJECTORIES names {folder}, which is no folder")
    return folder if folder.is_dir() else None


@cache
def recorded_runs() -> tuple[RecordedRun, ...]:
    """Every message list in OpenAI chat or Anthropic form: tau-bench and moatless, or the bundled samples."""
    folder = trajectories_folder()
    if folder is None:
        return tuple(_samples())
    return (*_tau_bench(folder / "tau-bench"), *_moatless(folder / "moatless-tools"))


def _tau_bench(folder: Path) -> Iterator[RecordedRun]:
    """A file is a list of runs; `traj` holds the messages of one."""
    for path in sorted(folder.glob("*.json")):
        for number, run in enumerate(json.loads(path.read_bytes())):
            yield RecordedRun(f"{path.name} run {number}", "openai", run["traj"])


def _moatless(folder: Path) -> Iterator[RecordedRun]:
    """A file is a list of nodes; each holds the whole request that led to it."""
    for path in sorted(folder.glob("*/trajectory.json")):
        for node in json.loads(path.read_bytes())["nodes"]:
            for kind, completion in (node.get("completions") or {}).items():
                if isinstance(completion, dict) and isinstance(completion.get("input"), list):
                    name = f"{path.parent.name} node {node['node_id']} {kind}"
                    yield RecordedRun(name, "anthropic", completion["input"])


def _samples() -> Iterator[RecordedRun]:
    """The bundled corpus: one run per line, its messages in OpenAI chat form, and the same in Anthropic's."""
    with gzip.open(samples.CORPUS) as lines:
        for number, line in enumerate(lines, start=1):
            messages = json.loads(line)["request"]["messages"]
            name = f"{samples.CORPUS.name} line {number}"
            yield RecordedRun(name, "openai", messages)
            yield RecordedRun(f"{name}, rewritten", "anthropic", _in_anthropic_form(messages))


def _in_anthropic_form(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same conversation behind its system prompt: calls as tool_use blocks, results in one user message."""
    rewritten: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "user":
            rewritten.append({"role": "user", "content": message["content"]})
        elif message["role"] == "assistant":
            thought = message.get("reasoning_content")
            blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": thought}] if thought else []
            blocks += [{"type": "text", "text": message["content"]}] if message["content"] else []
            for call in message.get("tool_calls", ()):
                arguments = json.loads(call["function"]["arguments"])
                name = call["function"]["name"]
                blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments})
            rewritten.append({"role": "assistant", "content": blocks})
        elif message["role"] == "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if rewritten[-1]["role"] == "user" and isinstance(rewritten[-1]["content"], list):
                rewritten[-1]["content"].append(result)
            else:
                rewritten.append({"role": "user", "content": [result]})
    return rewritten
