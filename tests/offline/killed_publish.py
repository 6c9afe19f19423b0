"""Publishing in processes that are killed at every single step. A process of its own, started by the tests.

    python -m tests.offline.killed_publish FOLDER WORK BACKBONE

forks a publisher on a copy of the catalog in FOLDER that kills itself before its first step, then before its second,
... until one gets through; after each kill another one publishes undisturbed. A step is a file put in its place, or a
write transaction of the catalog about to be committed. Each round starts from a fresh copy and prints one line of JSON:
at which step it was killed, what the index held at that moment, and what it and the catalog hold in the end.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401  imported here so that no fork has to
from sqlalchemy import select

from drsr.backbone.catalogue import load_backbone
from drsr.offline.catalog.engine import Catalog
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.release_tables import PolicyRelease
from drsr.offline.publish import candidate as release_candidate
from drsr.offline.publish.golden_requests import golden_requests
from drsr.offline.publish.stage import PublishOrder, find_calibration, publish
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.logical_content import content_hash_of_catalog


class Steps:
    """Counts the steps of a publisher, and kills it before one of them."""

    def __init__(self, fatal: int) -> None:
        self.left = fatal

    def step(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def watch(self) -> None:
        replace, writing = os.replace, Catalog.writing

        def counted_replace(*arguments: Any, **options: Any) -> None:
            self.step()
            replace(*arguments, **options)

        @contextlib.contextmanager
        def counted_writing(catalog: Catalog) -> Iterator[Any]:
            with writing(catalog) as connection:
                yield connection
                self.step()

        os.replace = counted_replace
        setattr(Catalog, "writing", counted_writing)  # noqa: B010 - a method, which mypy would not let be assigned


def publish_once(folder: Path, index: Path) -> None:
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite") as catalog:
        artifacts = ArtifactStore(str(folder / "artifacts"))
        order = PublishOrder(index, checks=(), wheel_checks=())  # they write nothing
        publish(catalog, artifacts, find_calibration(catalog, None), order)


def fork(folder: Path, index: Path, fatal: int | None) -> int:
    """Exit code of a publisher, -9 if it killed itself."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if fatal is not None:
                Steps(fatal).watch()
            publish_once(folder, index)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(index: Path) -> dict[str, str]:
    files = sorted(path for path in index.rglob("*") if path.is_file())
    return {str(path.relative_to(index)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def releases(folder: Path) -> list[str]:
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite") as catalog, catalog.reading() as connection:
        return list(connection.execute(select(PolicyRelease.version)).scalars())


def facts(folder: Path) -> str:
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite") as catalog, catalog.reading() as connection:
        return content_hash_of_catalog(connection)


def main() -> None:
    start, work = Path(sys.argv[1]), Path(sys.argv[2])
    load_backbone(sys.argv[3])  # imports what takes seconds, so that no fork has to
    two = {name: golden_requests()[name] for name in ("stock taking, Anthropic", "too short to prune")}
    setattr(release_candidate, "golden_requests", lambda: two)  # noqa: B010 - what is decided does not matter here
    setattr(release_candidate, "sample_requests", lambda: iter(()))  # noqa: B010
    fatal = 0
    while True:
        folder, index = work / f"{fatal}", work / f"{fatal}" / "index"
        shutil.copytree(start, folder, ignore=shutil.ignore_patterns("model", "checkpoints"))
        code = fork(folder, index, fatal)
        assert code in (0, -signal.SIGKILL), code
        killed = {"step": fatal, "killed": code != 0, "then": content(index), "rows_then": releases(folder)}
        assert fork(folder, index, None) == 0
        killed |= {"after": content(index), "rows": releases(folder), "facts": facts(folder)}
        print(json.dumps(killed), flush=True)
        if code == 0:
            return
        fatal += 1


if __name__ == "__main__":
    main()
