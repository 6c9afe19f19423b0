"""Stages in processes that are killed, or that run all at once. A process of its own, started by the tests.

Everything is imported here once, and each worker is a fork: thirty of them take seconds. The tests themselves cannot
fork, because pytest-xdist runs threads. Reads one JSON object per line, answers with one per line:

    {"do": "run",      "catalog": URL, "artifacts": ROOT, "corpus": FOLDER}         -> {"content": HASH, "seconds": S}
    {"do": "kill",     ..., "seed": N, "seconds": S, "kills": M}   M times at most  -> {"content": HASH, "kills": N}
    {"do": "together", ..., "workers": N}                                           -> {"content": HASH, "exits": [0]}
    {"do": "massacre", ..., "workers": N, "kills": M, "seed": N, "seconds": S}      -> {"content": HASH, "kills": M}

Each worker ingests and freezes; with "label": true it labels too, with the scripted double for a language model; with
"features": true it labels one split with a tiny Llama, which leaves features, and featurizes the rest.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import alembic.command  # noqa: F401  imported here so that no fork has to
import psycopg  # noqa: F401
import torch

from drsr.backbone.scripted import ScriptedBackbone
from drsr.errors import CatalogUnreachable
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.featurize import upkeep as feature_upkeep
from drsr.offline.featurize.stage import featurize_run, materialize
from drsr.offline.freeze import stage as freezing
from drsr.offline.freeze.selection import Selection
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest import recorder as recording
from drsr.offline.ingest import stage
from drsr.offline.label.stage import label, label_run
from drsr.offline.label.target_nll import TargetNll
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import Caps, caps_for
from tests.offline.logical_content import content_hash_of_catalog
from tests.tiny_backbones import tiny_backbone

Order = dict[str, Any]

BACKBONE = ScriptedBackbone()
LLAMA = tiny_backbone("llama")
torch.set_num_threads(1)  # a fork has no other threads to wait for
CAPS = Caps(10_000, 1_000)
TRY_AGAIN = 3
"""Exit code of a worker whose database was away, as of `drsr`."""
PATIENCE_SECONDS = 120.0


def run_stages(order: Order) -> None:
    """What a killed process was at. A stage that is added here is killed as well."""
    artifacts = ArtifactStore(order["artifacts"])
    with open_catalog(order["catalog"], create=True) as catalog:
        stage.ingest(catalog, artifacts, order["corpus"])
        if order.get("features"):
            run_with_features(catalog, artifacts)
            return
        freeze(catalog, artifacts, BACKBONE.tokenizer, CAPS)
        if order.get("label"):
            scorer = TargetNll(BACKBONE)
            label(catalog, artifacts, scorer, label_run(scorer, "float32", CAPS))


def run_with_features(catalog: Catalog, artifacts: ArtifactStore) -> None:
    caps = caps_for(LLAMA.window)
    freeze(catalog, artifacts, LLAMA.tokenizer, caps)
    scorer = TargetNll(LLAMA)
    label(catalog, artifacts, scorer, label_run(scorer, "float32", caps, part=Selection(split="train")))
    materialize(catalog, artifacts, LLAMA, featurize_run(LLAMA, "float32", caps))


def run(order: Order) -> Order:
    started = time.monotonic()
    assert wait(fork(order)) == 0
    return {"seconds": time.monotonic() - started}


def kill(order: Order) -> Order:
    """One worker after the other, each killed at a random moment; after so many kills one is left to finish.

    It must not depend on the clock that a round ends: on a busy machine no worker might ever get through in time.
    """
    draw = random.Random(order["seed"])
    for kills in range(order["kills"]):
        pid = fork(order)
        # Half of the time that is needed from the start: a round takes several kills, and often comes to its end.
        time.sleep(draw.uniform(0, order["seconds"] / 2))
        os.kill(pid, signal.SIGKILL)  # it is not waited for yet, so its number is not given to another process
        code = wait(pid)
        if code != -signal.SIGKILL:
            assert code == 0
            return {"kills": kills}
    assert wait(fork(order)) == 0
    return {"kills": order["kills"]}


def together(order: Order) -> Order:
    pids = [fork(order) for _ in range(order["workers"])]
    return {"exits": [wait(pid) for pid in pids]}


def massacre(order: Order) -> Order:
    """Several workers; one after the other is killed at a random moment and another one put in its place."""
    draw = random.Random(order["seed"])
    pids = [fork(order) for _ in range(order["workers"])]
    kills = 0
    while kills < order["kills"]:
        time.sleep(draw.uniform(0, order["seconds"] / order["kills"]))
        victim = draw.randrange(len(pids))
        os.kill(pids[victim], signal.SIGKILL)
        code = wait(pids[victim])
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        if code == 0:  # it was done before: with all done there is nobody left to kill
            break
        pids[victim] = fork(order)
    return {"kills": kills, "exits": [wait(pid) for pid in pids if pid != pids[victim] or code != 0]}


def fork(order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        run_stages(order)
    except CatalogUnreachable as error:
        os._exit(TRY_AGAIN if error.passing else 1)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def wait(pid: int) -> int:
    """The exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(order: Order) -> str:
    """Asked in a fork as well, so that this process never holds a connection that a fork would share."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, content_once_it_answers(order["catalog"]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = stream.read()
    assert wait(pid) == 0
    return found


def content_once_it_answers(url: str) -> str:
    """The database may be on its way back."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with open_catalog(url) as catalog, catalog.reading() as connection:
                return content_hash_of_catalog(connection)
        except CatalogUnreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


COMMANDS: dict[str, Callable[[Order], Order]] = {"run": run, "kill": kill, "together": together, "massacre": massacre}


def main() -> None:
    # Small batches: many moments between two transactions to be killed at. Young files are trusted.
    recording.BATCH_TRAJECTORIES = 7
    recording.BATCH_FILES = 5
    stage.RACY_SECONDS = 0.0
    freezing.BATCH = 5
    feature_upkeep.ENOUGH = 3
    for line in sys.stdin:
        order = json.loads(line)
        answer = COMMANDS[order["do"]](order)
        print(json.dumps(answer | {"content": content(order)}), flush=True)


if __name__ == "__main__":
    main()
