"""Small recorded runs on disk, as frameworks write them: made up, seeded, cheap."""

from __future__ import annotations

import json
import os
import random
from itertools import count
from pathlib import Path
from typing import Any

from drsr.offline.ingest.splits import assign_split, group_key

WORDS = ("report", "invoice", "parser", "timeout", "socket", "ledger", "cache", "branch", "token", "retry", "schema")
LONG_AGO = 1_700_000_000
"""A time of change that no reader has to doubt."""


def chat(seed: int, steps: int = 3) -> dict[str, Any]:
    """An agent's run with tool calls, as an OpenAI chat request with `id` and `task`."""
    draw = random.Random(seed)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful agent."},
        {"role": "user", "content": f"Task {seed}: {' '.join(draw.choices(WORDS, k=8))}"},
    ]
    for step in range(steps):
        call = {"name": "shell", "arguments": json.dumps({"command": " ".join(draw.choices(WORDS, k=5))})}
        messages += [
            {
                "role": "assistant",
                "content": " ".join(draw.choices(WORDS, k=12)),
                "tool_calls": [{"id": f"call_{step}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call_{step}", "content": " ".join(draw.choices(WORDS, k=30))},
        ]
    messages.append({"role": "assistant", "content": "Done."})
    return {"messages": messages, "id": f"run-{seed}", "reward": seed % 2}


def task_in_split(split: str) -> str:
    """Name of a task that the stable hash puts into a split."""
    names = (f"task-{number}" for number in count())
    return next(name for name in names if assign_split(group_key("", "", name)) == split)


def write_json(path: Path, value: Any, *, long_ago: bool = True) -> Path:
    return write_text(path, json.dumps(value), long_ago=long_ago)


def write_lines(path: Path, values: list[Any]) -> Path:
    return write_text(path, "".join(json.dumps(value) + "\n" for value in values))


def write_text(path: Path, text: str, *, long_ago: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if long_ago:
        os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def session(session_id: str, seed: int) -> str:
    """A session of the pi coding agent. Its id names the run wherever the file lies."""
    entries = [
        {"type": "session", "id": session_id, "timestamp": "2025-01-01T00:00:00Z", "cwd": "/project"},
        _entry("user", f"please look at {random.Random(seed).choice(WORDS)} number {seed}"),
        _entry("assistant", f"I looked at number {seed}."),
    ]
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def _entry(role: str, text: str) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return {"type": "message", "timestamp": "2025-01-01T00:00:01Z", "message": message}


def write_corpus(folder: Path, runs: int = 60) -> Path:
    """Everything an ingest meets: single runs, many per file, bad lines, no data, and two files that disagree."""
    for seed in range(runs // 2):
        write_json(folder / "single" / f"{seed:03d}.json", chat(seed, steps=3 + seed % 6))
    for start in range(runs // 2, runs, 15):
        write_lines(folder / "lines" / f"{start:03d}.jsonl", [chat(seed) for seed in range(start, start + 15)])
    good = json.dumps(chat(1_000))
    write_text(folder / "broken" / "cut.jsonl", f"{good}\n{good[:200]}\n{json.dumps(chat(1_001))}\n")
    write_text(folder / "broken" / "empty.json", "")
    write_text(folder / "sessions" / "first.jsonl", session("same", 1))
    write_text(folder / "sessions" / "second.jsonl", session("same", 2))
    return folder


def change_corpus(folder: Path) -> None:
    """One run of the corpus has gone on since, and one is about another task now."""
    write_json(folder / "single" / "007.json", chat(7, steps=12))
    write_json(folder / "single" / "011.json", chat(11, steps=9) | {"task": task_in_split("test")})
