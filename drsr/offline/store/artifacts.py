"""The artifact store: bytes named by their own hash, below one fsspec URL.

    <root>/ab/ab12...   one object, or one pack of many objects: Zstandard frames, one after another

A key is all that is needed to find the bytes and to verify them:

    <sha256>                                  an object of its own
    <sha256>@<pack>:<offset>+<length>         an object inside a pack; offset and length in stored bytes

A trajectory is small and there are many of them: one file each would take longer to write than to read and parse it
(77-480 us against 100 us), and on an object store one request each. A pack is named by the hash of its stored bytes, so
the offsets in a key fit the file of that name, whichever version of Zstandard wrote it. What a killed process wrote
before the catalog recorded it is left without a name; it is never read, and never wrong.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import fsspec
import zstandard
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from drsr.errors import ArtifactCorrupt, CatalogUnreachable, DrsrError, MissingExtra, SettingsError
from drsr.files import write_atomically
from drsr.offline.store.remote_files import AT_ONCE
from drsr.redaction import redact, without_userinfo

_LEVEL = 1
"""Zstandard level. Real trajectories become 3.9 times smaller with 1, and 4.1 times with 3 in a quarter more time."""
_OFFLINE_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_ELSEWHERE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
"""The three kinds of storage failure that the user has to mend; any other may pass by itself."""
_KEY = re.compile(r"(?P<sha256>[0-9a-f]{64})(@(?P<pack>[0-9a-f]{64}):(?P<offset>\d+)\+(?P<length>\d+))?")


class Artifact(NamedTuple):
    """Bytes with their name."""

    sha256: str
    data: bytes
    is_compressed: bool = False
    """Whether `data` is a Zstandard frame of the bytes that have the name."""

    @classmethod
    def of(cls, data: bytes) -> Self:
        return cls(hashlib.sha256(data).hexdigest(), data)

    @classmethod
    def in_pieces(cls, pieces: Callable[[], Iterable[bytes]]) -> Self:
        """Return the artifact of bytes that are too many to be held at once: asked for twice, hashed and compressed."""
        digest, size = hashlib.sha256(), 0
        for piece in pieces():
            digest.update(piece)
            size += len(piece)
        compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)  # a frame that says how long it is
        frame = [compressor.compress(piece) for piece in pieces()]
        return cls(digest.hexdigest(), b"".join([*frame, compressor.flush()]), is_compressed=True)


class _Place(NamedTuple):
    sha256: str
    name: str
    """Name of the stored file."""
    start: int
    stop: int | None


REPAIR_HINT = (
    "restore the artifact folder from a copy, or point DRSR_ARTIFACT_ROOT to where it is; or, with the recorded run "
    "still at hand: remove the damaged file, touch the run's file and drsr ingest it again"
)


class ArtifactStore:
    """A folder of artifacts. Writing the same bytes twice changes nothing."""

    def __init__(self, root: str) -> None:
        """`root` is a path or fsspec URL; the folder is created when the first artifact is written."""
        self.location = redact(root)
        """The root without credentials."""
        _, userinfo = without_userinfo(root)
        self._secrets = [part for part in (userinfo, *userinfo.split(":"), *map(unquote, userinfo.split(":"))) if part]
        self._filesystem, self._root = self._open(root, userinfo)
        self.local_root = Path(self._root) if isinstance(self._filesystem, LocalFileSystem) else None
        """The folder, if it is on this machine."""
        self._expected: tuple[str, Future[bytes]] | None = None

    def _open(self, root: str, userinfo: str) -> tuple[Any, str]:
        scheme = root.partition("://")[0] if "://" in root else "file"
        options = {}
        if scheme in ("s3", "s3a") and userinfo:  # whose filesystem would take them for a part of the bucket's name
            key, _, secret = userinfo.partition(":")
            root, options = without_userinfo(root)[0], {"key": unquote(key), "secret": unquote(secret)}
        try:
            filesystem, path = fsspec.core.url_to_fs(root, **options)
        except ImportError:
            if scheme in _OFFLINE_PACKAGES:
                package = _OFFLINE_PACKAGES[scheme]
                raise MissingExtra(package, "offline", needed_for=f"artifacts at {self.location}") from None
            advice = str(known_implementations.get(scheme, {}).get("err", f"install the fsspec package for {scheme}"))
            raise SettingsError(f"no package for {scheme}:// is installed", where=self.location, hint=advice) from None
        except ValueError:
            what, hint = f"{scheme}:// is not a known kind of location", "set DRSR_ARTIFACT_ROOT to a path or URL"
            raise SettingsError(what, where=self.location, hint=hint) from None
        except Exception as error:
            raise self._unreachable(error) from None
        return filesystem, str(path)

    def put(self, data: bytes) -> str:
        """Store bytes as a separate file; return their key."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._write(sha256, zstandard.ZstdCompressor(level=_LEVEL).compress(data))
        return sha256

    def put_pack(self, artifacts: Iterable[Artifact]) -> dict[str, str]:
        """Store many small artifacts in one file; returns the key of each by its hash."""
        contents = {artifact.sha256: artifact for artifact in artifacts}
        if not contents:
            return {}
        new = iter(_compressed([artifact.data for artifact in contents.values() if not artifact.is_compressed]))
        frames = [artifact.data if artifact.is_compressed else next(new) for artifact in contents.values()]
        stored = b"".join(frames)
        pack = hashlib.sha256(stored).hexdigest()
        self._write(pack, stored)
        keys, offset = {}, 0
        for sha256, frame in zip(contents, frames, strict=True):
            keys[sha256] = f"{sha256}@{pack}:{offset}+{len(frame)}"
            offset += len(frame)
        return keys

    def get(self, key: str) -> bytes:
        """Return the bytes of a key; raise ArtifactCorrupt if they are missing or not the ones that were stored."""
        expected, self._expected = self._expected, None
        if expected and expected[0] == key and expected[1].exception() is None:
            return expected[1].result()
        return self._get(key)  # also what could not be had when it was expected, which may be long ago

    def expect(self, key: str) -> None:
        """Begin to fetch what will be asked for next, unless it is on this machine."""
        if self.local_root is None:
            thread = ThreadPoolExecutor(1, thread_name_prefix="drsr-expected")
            self._expected = key, thread.submit(self._get, key)
            thread.shutdown(wait=False)

    def _get(self, key: str) -> bytes:
        place = self._place(key)
        stored = self._read(place)
        if stored is None:
            raise self._corrupt(key, "is missing")
        try:
            data = zstandard.ZstdDecompressor().decompress(stored)
        except zstandard.ZstdError:
            raise self._corrupt(key, "is cut short or overwritten") from None
        if hashlib.sha256(data).hexdigest() != place.sha256:
            raise self._corrupt(key, "has another hash than the one it was stored under")
        return data

    def each(self, keys: Iterable[str], at_once: int = AT_ONCE) -> Iterator[bytes | ArtifactCorrupt]:
        """Yield the bytes of many keys, in order; in the place of damaged ones what is wrong with them.

        A request to an object store is mostly waiting, so the next `at_once` are on their way, and held.
        """
        if self.local_root is not None:
            yield from map(self._got, keys)
            return
        waiting: deque[Future[bytes | ArtifactCorrupt]] = deque()
        with ThreadPoolExecutor(at_once, thread_name_prefix="drsr-fetch") as threads:
            try:
                for key in keys:
                    waiting.append(threads.submit(self._got, key))
                    if len(waiting) == at_once:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)

    def _got(self, key: str) -> bytes | ArtifactCorrupt:
        try:
            return self.get(key)
        except ArtifactCorrupt as error:
            return error

    def exists(self, key: str) -> bool:
        """Return whether there is a file for this key; `get` finds out whether it is sound."""
        path = self._path(self._place(key).name)
        with self._reaching():
            return bool(self._filesystem.exists(path))

    def missing(self, keys: Iterable[str]) -> set[str]:
        """Return those keys without a file. Every file is looked for once, or on an object store all are listed at
        once."""
        names = {key: self._place(key).name for key in keys}
        found = self._found(set(names.values())) if names else set()
        return {key for key, name in names.items() if name not in found}

    def stored(self) -> list[str]:
        """Return the names of all files, whether any key names them or not."""
        with self._reaching():
            self._filesystem.invalidate_cache()
            try:
                found = [str(path).rpartition("/")[2] for path in self._filesystem.find(self._root)]
            except FileNotFoundError:  # nothing was ever stored here
                return []
        return sorted(name for name in found if _KEY.fullmatch(name))

    def unpacked(self, name: str) -> bytes:
        """Return the content of a file, of all its objects; as stored if it is damaged."""
        return b"".join(self._objects(name))

    def holding(self, hashes: Collection[str], files: Sequence[str] | None = None) -> list[str]:
        """Return the names of the files that hold an object with one of some hashes: of these files, or of all, named
        by a key or not."""
        names = (self.stored() if files is None else files) if hashes else []
        return [name for name in names if any(Artifact.of(data).sha256 in hashes for data in self._objects(name))]

    def _objects(self, name: str) -> Iterator[bytes]:
        """Yield every object in a file; damaged ones as stored."""
        rest = self._read(_Place(name, name, 0, None)) or b""
        while rest:
            decoder = zstandard.ZstdDecompressor().decompressobj()
            try:
                data = decoder.decompress(rest)
            except zstandard.ZstdError:
                yield rest
                return
            if not decoder.eof:
                yield rest
                return
            yield data
            rest = decoder.unused_data

    def delete(self, name: str) -> None:
        """Delete a file for good. Only an erasure does that."""
        with self._reaching():
            self._filesystem.rm_file(self._path(name))

    def _found(self, names: set[str]) -> set[str]:
        if self.local_root is not None:
            return {name for name in names if os.path.exists(self._path(name))}
        with self._reaching():
            self._filesystem.invalidate_cache()
            try:
                return {str(path).rpartition("/")[2] for path in self._filesystem.find(self._root)}
            except FileNotFoundError:  # nothing was ever stored here
                return set()

    def _place(self, key: str) -> _Place:
        match = _KEY.fullmatch(key)
        if match is None:
            raise ArtifactCorrupt(f"{key!r} is not the key of an artifact", where=self.location)
        sha256, pack = match["sha256"], match["pack"]
        if pack is None:
            return _Place(sha256, sha256, 0, None)
        start = int(match["offset"])
        return _Place(sha256, pack, start, start + int(match["length"]))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name[:2]}/{name}"

    def _read(self, place: _Place) -> bytes | None:
        """Read a file; return None if there is none."""
        path = self._path(place.name)
        with self._reaching():
            try:
                stored: bytes = self._filesystem.cat_file(path, start=place.start, end=place.stop)
            except FileNotFoundError:
                return None
        return stored

    def _write(self, name: str, stored: bytes) -> None:
        path = self._path(name)
        with self._reaching():
            if self.local_root is not None:
                if not os.path.exists(path):
                    self.local_root.mkdir(mode=0o700, parents=True, exist_ok=True)
                    # Runs hold whatever an agent has seen: others may read them only if they may read the folder.
                    shared = self.local_root.stat().st_mode & 0o044
                    write_atomically(Path(path), stored, sync=True, mode=0o600 | shared)
            else:
                # An object appears at once or not at all.
                self._filesystem.pipe_file(path, stored)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Failures of storage become CatalogUnreachable."""
        try:
            yield
        except DrsrError:
            raise
        except Exception as error:  # each filesystem has exceptions of its own, and botocore's are no OSError
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> CatalogUnreachable:
        reason = str(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        for secret in sorted(self._secrets, key=len, reverse=True):
            reason = reason.replace(secret, "***")
        advice = _advice(error)
        hint = advice or "check the network, the credentials and the bucket's name"
        return CatalogUnreachable(
            f"cannot be used: {reason[:300]}",
            where=self.location,
            hint=f"{hint}, or set DRSR_ARTIFACT_ROOT; then run again",
            passing=advice is None,
        )

    def _corrupt(self, key: str, what: str) -> ArtifactCorrupt:
        return ArtifactCorrupt(
            f"artifact {key} {what}",
            where=self.location,
            hint=REPAIR_HINT,
        )


def _advice(error: Exception) -> str | None:
    """Return what the user has to do about a storage failure; None for a failure that may pass by itself."""
    number = getattr(error, "errno", None)
    if number in _FULL:
        return "make room there"
    if number in _FORBIDDEN or isinstance(error, PermissionError):
        return "give this user the right to write there"
    if number in _ELSEWHERE or isinstance(error, FileNotFoundError):
        return "check the path, or the bucket's name"
    return None


def _compressed(contents: Sequence[bytes]) -> list[bytes]:
    """Return a frame for each, in one call: between calls a thread would have to wait for Python's lock each time."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    if not any(contents):  # which that call refuses
        return [compressor.compress(b"")] * len(contents)
    buffers = compressor.multi_compress_to_buffer(list(contents))
    return [buffers[index].tobytes() for index in range(len(buffers))]
