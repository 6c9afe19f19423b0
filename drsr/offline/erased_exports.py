"""Rows of erased runs taken out of exported parts: of a folder of exports, and of what DVC keeps of them.

An object of DVC is never changed. What holds a row of an erased run is deleted from cache and remotes, and so is the
list of a folder that names it: `dvc checkout` of a revision from before says then what is missing. Other files there
that hold text of the runs are a team's own: they are named and left.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from drsr.errors import ArtifactCorrupt
from drsr.offline.ingest.archives import peeled
from drsr.offline.stages import NAMES
from drsr.offline.store.dvc_calls import with_dvc
from drsr.offline.store.exports import part_without
from drsr.offline.store.source_files import Limits, Unreadable

RUN_KEY, STATE_KEY = "trajectory_key", "state_key"
_PARQUET = b"PAR1"


class Keys(NamedTuple):
    """The names under which exported rows are of the erased runs."""

    runs: frozenset[str]
    states: frozenset[str]

    def found_in(self, data: bytes) -> bool:
        """Return whether a part has a row of theirs. Only a Parquet file can."""
        return any(len(_rows(table, column, self)) > 0 for table, column in _keyed(data))


class Cleaned(NamedTuple):
    """The result of cleaning."""

    parts: int = 0
    """Exported parts that were written anew or removed."""
    objects: int = 0
    """Objects of DVC that were deleted, in its cache and remotes."""
    left: tuple[str, ...] = ()
    """Files that hold text of the runs and are not ours to delete."""


def keys_of(runs: Iterable[str], states: Iterable[str], exports: Path) -> Keys:
    """Return the keys of some runs. Exported states tell those that the catalog has forgotten already: an erasure
    that was killed goes on."""
    known = Keys(frozenset(runs), frozenset(states))
    for path in _parts(exports):
        for table, column in _keyed(path.read_bytes()):
            if column == RUN_KEY and STATE_KEY in table.column_names:
                found = _rows(table, column, known).column(STATE_KEY).to_pylist()
                known = known._replace(states=known.states | set(found))
    return known


def clean_exports(exports: Path, keys: Keys) -> set[str]:
    """Write every part below a folder anew that holds rows of the runs, without them; returns the stages' names."""
    touched = set()
    for path in _parts(exports):
        data = path.read_bytes()
        if keys.found_in(data):
            wanted = {RUN_KEY: keys.runs, STATE_KEY: keys.states}
            part_without(path, {name: values for name, values in wanted.items() if values})
            touched.add(path.relative_to(exports).parts[0])
    return touched


def clean(repository: Path, exports: Path, keys: Keys, texts: Sequence[str]) -> Cleaned:
    """Clean the exports, and cache and remotes of DVC where the folder is a repository of it."""
    before = {path.name for path in _parts(exports)}
    touched = clean_exports(exports, keys)
    parts = len(before - {path.name for path in _parts(exports)})
    if not (repository / ".dvc").is_dir():
        return Cleaned(parts)

    def in_dvc(repo: Any) -> Cleaned:
        locked = {stage.name: stage for stage in repo.index.stages if getattr(stage, "name", None)}
        for name in (name for name in NAMES if name in locked and _is_here(locked[name])):
            if name in touched or _names_rows(repo, locked[name], keys):
                repo.commit(name, force=True)
        places = [repo.cache.local, *(repo.cloud.get_remote_odb(name) for name in repo.config["remote"])]
        return _clean_places(places, keys, texts)

    return with_dvc(repository, in_dvc)._replace(parts=parts)


def _is_here(stage: Any) -> bool:
    """Return whether the files of a stage are in the repository: elsewhere exported ones are none of DVC's."""
    return all(file.exists for file in (*stage.deps, *stage.outs))


def _names_rows(repo: Any, stage: Any, keys: Keys) -> bool:
    """Return whether dvc.lock names parts with rows of the runs: an erasure was killed before it recorded the new."""
    cache = repo.cache.local
    for value in (out.hash_info.value for out in stage.outs if out.hash_info):
        folder = Path(cache.oid_to_path(value))
        if value.endswith(".dir") and folder.exists():
            parts = [Path(cache.oid_to_path(entry["md5"])) for entry in json.loads(folder.read_bytes())]
            if any(keys.found_in(part.read_bytes()) for part in parts if part.exists()):
                return True
    return False


def _clean_places(places: Sequence[Any], keys: Keys, texts: Sequence[str]) -> Cleaned:
    """Delete the objects with rows of the runs from DVC's object databases, then the lists that name one of them."""
    wanted = [word for text in texts for word in (text.encode(), json.dumps(text)[1:-1].encode(), _escaped(text))]
    objects, left, doomed = 0, [], set()
    lists: list[tuple[Any, str, bytes]] = []
    for place in places:
        for path in place.fs.find(place.path) if place.fs.exists(place.path) else ():
            with place.fs.open(path, "rb") as stream:
                data = stream.read()
            if path.endswith(".dir"):
                lists.append((place, path, data))
            elif keys.found_in(data):
                doomed.add(hashlib.md5(data, usedforsecurity=False).hexdigest())
                objects += _delete(place, path)
            elif any(word in _plain(data, path) for word in wanted):
                left.append(str(path))
    for place, path, data in lists:
        if any(entry["md5"] in doomed for entry in json.loads(data)):
            objects += _delete(place, path)
    return Cleaned(0, objects, tuple(left))


def _delete(place: Any, path: str) -> int:
    if place.fs.protocol == "local":
        Path(path).chmod(0o600)  # DVC makes its objects read-only
    place.fs.remove(path)
    return 1


def _escaped(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def _plain(data: bytes, path: str) -> bytes:
    """The bytes of a file, unpacked where one layer of compression is around them."""
    stream = io.BufferedReader(io.BytesIO(data))
    try:
        layers = peeled(stream, path, Limits())
        return data if layers.compression is None else layers.stream.read()
    except Unreadable:
        return data


def _parts(exports: Path) -> Iterator[Path]:
    return (path for path in sorted(exports.rglob("*.parquet")) if not path.name.startswith("."))


def _keyed(data: bytes) -> Iterator[tuple[pyarrow.Table, str]]:
    """The table of keys of a part, with the name of each of its keys."""
    if not data.startswith(_PARQUET):
        return
    try:
        names = pyarrow.parquet.read_schema(pyarrow.BufferReader(data)).names
        mine = [name for name in (RUN_KEY, STATE_KEY) if name in names]
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(data), columns=mine, use_threads=False)
    except pyarrow.ArrowException as error:
        raise ArtifactCorrupt(f"an exported part cannot be read: {error}", hint="remove it, and export again") from None
    yield from ((table, name) for name in mine)


def _rows(table: pyarrow.Table, column: str, keys: Keys) -> pyarrow.Table:
    values = pyarrow.array(sorted(keys.runs if column == RUN_KEY else keys.states), pyarrow.string())
    return table.filter(pyarrow.compute.is_in(table.column(column), values))
