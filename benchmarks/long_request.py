"""A long request: cut from a real recorded session if there is one, else assembled from the samples."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import NamedTuple

from drsr.offline import samples
from drsr.offline.ingest import formats as sources
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from drsr.request.contracts import Tokenizer
from drsr.request.history import read_history
from drsr.request.rendering import render
from drsr.request.request import Request, read_request

SESSION = "pi-coding-agent/large-session.jsonl"


SAMPLE_TOKENS = 20_000
"""Lower bound on the number of tokens of the sample corpus as one conversation."""


class LongRequest(NamedTuple):
    name: str
    request: Request


def recorded_runs() -> Path:
    """Return the folder with real recorded runs next to this repository; DRSR_TRAJECTORIES names another."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "trajectories"
    return Path(os.environ.get("DRSR_TRAJECTORIES", beside))


def long_request(tokenizer: Tokenizer, tokens: int) -> LongRequest:
    """Return the last decision whose request has at most this many tokens."""
    session = recorded_runs() / SESSION
    if session.is_file():
        found = [item for file in open_location(str(session)) for item in sources.read(file)]
        whole = read_request(next(item for item in found if isinstance(item, Trajectory)).request)
        name = f"real session {SESSION}"
    else:
        lines = gzip.decompress(samples.CORPUS.read_bytes()).splitlines()
        runs = [json.loads(line)["request"]["messages"] for line in lines]
        runs *= 1 + tokens // SAMPLE_TOKENS  # again and again until it is long enough
        whole = read_request(runs[0][:2] + [message for run in runs for message in run[2:]])
        name = "the sample corpus as one conversation"
    rendering = render(whole, tokenizer)
    decisions = [step.message for step in read_history(whole).steps]
    fitting = [index for index in decisions if rendering.message_spans[index].start <= tokens]
    return LongRequest(name, whole.with_messages(whole.messages[: fitting[-1]]))
