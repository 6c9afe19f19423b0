"""Locations of recorded runs: any fsspec URI becomes a sorted stream of files that can be opened.

    for file in open_location("s3://bucket/nightly/"):
        file.source, file.fingerprint, file.open()

A folder is walked recursively, folder by folder (its files first), hidden names left out. Local folders are walked with
`os.scandir`, everything else is listed by one recursive call of its filesystem. What cannot be opened safely (a broken
link, a pipe) is still handed out, with the reason in `refused`: nothing is left out silently.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations

from drsr.errors import InputError, MissingExtra, NothingThere, SourceUnreachable
from drsr.offline.store.source_files import Refusal, SourceFile, storage_errors
from drsr.redaction import redact, without_userinfo

__all__ = ["SourceFile", "open_location", "redact"]

_OFFLINE_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs"}
_FINGERPRINT_KEYS = ("ETag", "etag", "generation", "md5Hash", "content_md5", "mtime", "LastModified", "last_modified")
_MAGIC = re.compile(r"[*?\[]")
_READ_BUFFER = 1 << 20
"""Bytes fetched at once from a remote file."""


class Hidden:
    """A count of the names that were passed over because they begin with a dot."""

    def __init__(self) -> None:
        self.names = 0


def open_location(
    uri: str, *, storage_options: Mapping[str, Any] | None = None, hidden: Hidden | None = None
) -> Iterator[SourceFile]:
    """Yield every file at a URI: a file, a folder, a glob, on any filesystem that fsspec knows.

    `hidden` counts what is skipped; a hidden folder on this machine counts as one. Raises NothingThere if nothing is
    found, MissingExtra if the filesystem's package is not installed.
    """
    with storage_errors(uri):
        filesystem, path = _filesystem(uri, dict(storage_options or {}))
        if isinstance(filesystem, LocalFileSystem):
            yield from _local(os.path.abspath(path), uri, hidden or Hidden())
        else:
            yield from _remote(filesystem, path, uri, hidden or Hidden())


def _filesystem(uri: str, options: dict[str, Any]) -> tuple[Any, str]:
    scheme = uri.partition("://")[0] if "://" in uri else "file"
    if scheme in ("s3", "s3a"):  # whose filesystem would take the credentials for a part of the bucket's name
        uri, userinfo = without_userinfo(uri)
        key, _, secret = userinfo.partition(":")
        options = {**({"key": unquote(key), "secret": unquote(secret)} if userinfo else {}), **options}
    try:
        filesystem, path = fsspec.core.url_to_fs(uri, **options)
    except ImportError:
        package = _OFFLINE_PACKAGES.get(scheme)
        if package:
            raise MissingExtra(package, "offline", needed_for=f"reading {scheme}://") from None
        advice = str(known_implementations.get(scheme, {}).get("err", f"install the fsspec package for {scheme}"))
        raise InputError(f"no package for {scheme}:// is installed", where=redact(uri), hint=advice) from None
    except ValueError:
        hint = "a path, or a URI such as s3://, gs://, https://, memory://"
        raise InputError(f"{scheme}:// is not a known kind of location", where=redact(uri), hint=hint) from None
    return filesystem, path


# --- local files -------------------------------------------------------------------------------------------------


def _local(path: str, uri: str, hidden: Hidden) -> Iterator[SourceFile]:
    if not os.path.lexists(path):
        if not _MAGIC.search(path):
            raise _nothing_found(uri)
        yield from _local_glob(path, uri, hidden)
    elif os.path.isdir(path):
        yield from _walk(path, path, set(), hidden)
    else:
        yield _local_file(path, os.path.dirname(path), _status(path, uri))


def _status(path: str, uri: str) -> os.stat_result:
    """Return what is known of the location. Raise InputError if it is a link that leads nowhere."""
    try:
        return os.stat(path)
    except OSError as error:
        if not os.path.islink(path) or error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        what = "is a link that leads back to itself" if error.errno == errno.ELOOP else "is a link to nothing"
        raise InputError(f"{what} ({os.readlink(path)})", where=redact(uri), hint="mend or remove the link") from None


def _local_glob(pattern: str, uri: str, hidden: Hidden) -> Iterator[SourceFile]:
    root = _glob_root(pattern)
    matches = LocalFileSystem().glob(pattern)
    if not matches:
        raise _nothing_found(uri)
    walked: set[str] = set()
    for match in sorted(matches, key=_folder_by_folder):
        if _hidden(match[len(root) + 1 :]) or _covered(os.path.realpath(match), walked):
            continue  # `**` matches folders as well as what lies in them
        if os.path.isdir(match):
            yield from _walk(match, root, walked, hidden)
        else:
            yield _local_entry(match, root)


def _walk(folder: str, root: str, walked: set[str], hidden: Hidden) -> Iterator[SourceFile]:
    """Yield every file below a folder. Links to folders come last, so that a file is named by its real path if it has
    one.

    `walked` are the real paths of the folders that were walked already; a link that leads back into one is refused,
    which makes loops end and keeps a file from being read twice.
    """
    pending = deque([folder])
    while pending:
        current = pending.popleft()
        real = os.path.realpath(current)
        if _covered(real, walked):
            yield _refused(current, root, "symlink", f"leads back into {real}, which is read anyway")
            continue
        outside = frozenset(walked)  # a link may lead above a folder that was walked: that one is left out below it
        walked.add(real)
        for path, is_link, problem in _scan(current, outside, hidden):
            if problem:
                yield _refused(path, root, "unreadable", f"the folder cannot be listed: {problem.strerror}")
            elif not is_link:
                yield _local_entry(path, root)
            elif os.path.isdir(path):
                pending.append(path)
            elif os.path.exists(path) and _covered(os.path.realpath(path), walked):
                yield _refused(path, root, "symlink", "leads to a file that is read under its own name")
            else:
                yield _local_entry(path, root)


def _scan(folder: str, walked: frozenset[str], hidden: Hidden) -> Iterator[tuple[str, bool, OSError | None]]:
    """Yield the files below a real folder, folder by folder, each sorted by name, and whether each is a link; links are
    not followed.

    A folder that cannot be listed comes with the reason. Only the names in a folder are held in memory.
    """
    stack = [folder]
    while stack:
        current = stack.pop()
        if walked and current != folder and os.path.realpath(current) in walked:
            continue
        files: list[str] = []
        folders: list[str] = []
        links: set[str] = set()
        try:
            with os.scandir(current) as listing:
                for entry in listing:
                    if entry.name.startswith("."):
                        hidden.names += 1
                    else:
                        (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
                        if entry.is_symlink():
                            links.add(entry.name)
        except OSError as error:
            yield current, False, error
            continue
        files.sort()
        folders.sort(reverse=True)
        inside = os.path.join(current, "")
        stack.extend(inside + name for name in folders)
        yield from ((inside + name, name in links, None) for name in files)


def _covered(real: str, walked: set[str]) -> bool:
    """Return whether a real path is in a folder that was walked, and not in a hidden part of it."""
    while real not in walked:
        parent, name = os.path.split(real)
        if name.startswith(".") or parent == real:
            return False
        real = parent
    return True


def _local_entry(path: str, root: str) -> SourceFile:
    try:
        status = os.stat(path)
    except OSError as error:
        if os.path.islink(path):
            return _refused(path, root, "broken_link", f"the link cannot be followed: {error.strerror}")
        return _refused(path, root, "unreadable", f"it vanished, or may not be looked at: {error.strerror}")
    return _local_file(path, root, status)


def _local_file(path: str, root: str, status: os.stat_result) -> SourceFile:
    if not stat.S_ISREG(status.st_mode):
        return _refused(path, root, "not_a_file", "a pipe, socket or device; only regular files are read")
    relative = os.path.relpath(path, root) if not path.startswith(root + os.sep) else path[len(root) + 1 :]
    # ctime too: it moves with every write, even where a tool puts the old mtime back.
    fingerprint = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}-{status.st_ino}"
    source = _source_name(relative, root)
    return SourceFile(
        location=_shown(path),
        relative=_shown(relative),
        source=_shown(source),
        fingerprint=fingerprint,
        size=status.st_size,
        opener=partial(_open_local, path),
        changed=max(status.st_mtime, status.st_ctime),
    )


def _refused(path: str, root: str, reason: str, detail: str) -> SourceFile:
    relative = os.path.relpath(path, root)
    source = _source_name(relative, root)
    opener, refusal = partial(_open_local, path), Refusal(reason, _shown(detail))
    return SourceFile(_shown(path), _shown(relative), _shown(source), None, None, opener, refusal)


def _open_local(path: str) -> BinaryIO:
    try:
        return open(path, "rb")  # noqa: SIM115  the caller closes it
    except OSError:
        with storage_errors(path):
            raise


# --- everything else ---------------------------------------------------------------------------------------------


def _remote(filesystem: Any, path: str, uri: str, hidden: Hidden) -> Iterator[SourceFile]:
    filesystem.invalidate_cache()
    path = path.rstrip("/")
    info = _info(filesystem, path)
    if info is None and _MAGIC.search(path):
        root = _glob_root(path)
        listing = _expand_folders(filesystem, filesystem.glob(path, detail=True))
    elif info is None:
        raise _nothing_found(uri)
    elif info["type"] == "directory":
        root, listing = path, filesystem.find(path, detail=True)
    else:
        root, listing = path.rpartition("/")[0], {path: info}
    files = {name: entry for name, entry in listing.items() if entry.get("type") != "directory" and name[-1:] != "/"}
    if not files:
        raise _nothing_found(uri)
    shown_root = redact(root)  # names of files become ids in the catalog: a URL's credentials must not
    for name in sorted(files, key=_folder_by_folder):
        relative = redact(name)[len(shown_root) :].lstrip("/")
        if not _hidden(relative) or name == path:
            yield _remote_file(filesystem, name, relative, shown_root, files[name])
        else:
            hidden.names += 1


def _info(filesystem: Any, path: str) -> dict[str, Any] | None:
    """Return what a filesystem knows about a path, or None if it does not exist.

    The HTTP filesystem raises FileNotFoundError whatever went wrong; only the cause identifies a refused connection.
    """
    try:
        return cast(dict[str, Any], filesystem.info(path))
    except FileNotFoundError as error:
        cause = error.__cause__
        status = getattr(cause, "status", None)
        if cause is None or type(cause).__module__.partition(".")[0] != "aiohttp" or status in (404, 410):
            return None
        if status is None:
            raise cause from None
        what = f"the server answers with status {status}"
        if status in (401, 403, 407):
            raise InputError(what, where=redact(path), hint="check the credentials, or the URL's signature") from None
        raise SourceUnreachable(
            what,
            where=redact(path),
            hint="try again later, or ask those who run the server",
            passing=status == 429 or status >= 500,
        ) from None


def _expand_folders(filesystem: Any, matches: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what a glob matched, with matching folders replaced by the files below them."""
    files = dict(matches)
    for name, entry in matches.items():
        if entry.get("type") == "directory":
            files.update(filesystem.find(name, detail=True))
    return files


def _remote_file(filesystem: Any, name: str, relative: str, root: str, info: dict[str, Any]) -> SourceFile:
    uri = filesystem.unstrip_protocol(name)
    size = info.get("size")
    marks = [str(info[key]).strip('"') for key in _FINGERPRINT_KEYS if info.get(key)]
    fingerprint = "-".join([str(size), *marks]) if marks else None
    is_small = size is not None and 0 < size <= _READ_BUFFER
    opener = partial(_fetched if is_small else _open_remote, filesystem, name, uri)
    is_async = bool(getattr(filesystem, "async_impl", False))  # the others say nothing about threads
    source = _source_name(relative, root)
    return SourceFile(redact(uri), relative, source, fingerprint, size, opener, in_parallel=is_async)


def _fetched(filesystem: Any, name: str, uri: str) -> BinaryIO:
    """A small file in one call. Opening it, or asking for all of it, may first ask again how large it is."""
    with storage_errors(uri):
        return io.BufferedReader(io.BytesIO(filesystem.cat_file(name, start=0)))


def _open_remote(filesystem: Any, name: str, uri: str) -> BinaryIO:
    with storage_errors(uri):
        return io.BufferedReader(_RemoteBytes(filesystem.open(name, "rb"), uri), _READ_BUFFER)


class _RemoteBytes(io.RawIOBase):
    """A filesystem's file object, with its failures turned into a DrsrError."""

    def __init__(self, stream: Any, uri: str) -> None:
        self._stream = stream
        self._uri = uri

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def readinto(self, buffer: Any) -> int:
        with storage_errors(self._uri):
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with storage_errors(self._uri):
            return int(self._stream.seek(offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


# --- names -------------------------------------------------------------------------------------------------------


def _source_name(relative: str, root: str) -> str:
    first, slash, _ = relative.partition("/")
    if slash and first != "..":
        return first
    return os.path.basename(root.rstrip("/")) or "root"


def _shown(name: str) -> str:
    """Return a name as Unicode text: bytes of a file name that are not UTF-8 are spelled out."""
    return name if name.isascii() else os.fsencode(name).decode(errors="backslashreplace")


def _folder_by_folder(path: str) -> tuple[list[str], str]:
    folder, _, name = path.rpartition("/")
    return folder.split("/"), name


def _glob_root(pattern: str) -> str:
    fixed = pattern[: cast(re.Match[str], _MAGIC.search(pattern)).start()]
    return fixed.rpartition("/")[0]


def _hidden(relative: str) -> bool:
    return any(part.startswith(".") for part in relative.split("/"))


# --- failures ----------------------------------------------------------------------------------------------------


def _nothing_found(uri: str) -> NothingThere:
    hint = "check the spelling; a folder, a file, a glob in quotes, or a URI such as s3://bucket/prefix/"
    return NothingThere("nothing is there", where=redact(uri), hint=hint)
