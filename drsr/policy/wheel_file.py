"""A wheel as bytes, written by our own code: the same files give the same bytes anywhere and at any time.

Nothing is compressed, so no version of a compressor matters; every entry has the same time and rights; RECORD comes
last. Reading builds the wheel again from what it holds and compares: one flipped byte anywhere, in a file or in the
archive around it, is an error. Nothing is unpacked to disk and nothing is run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import stat
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

from drsr.errors import InputError, PolicyCorrupt

_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that an archive can say."""
_RIGHTS = (stat.S_IFREG | 0o644) << 16
_UNIX = 3
_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*((a|b|rc)(0|[1-9]\d*))?(\.post(0|[1-9]\d*))?(\.dev(0|[1-9]\d*))?")
_HINT = "download the wheel again; one that another tool has repacked is refused too"


class WheelName(NamedTuple):
    """The file name of a pure-Python wheel."""

    distribution: str
    """With underscores: `drsr_policy`."""
    version: str

    @property
    def file_name(self) -> str:
        return f"{self.distribution}-{self.version}-py3-none-any.whl"

    @property
    def dist_info(self) -> str:
        return f"{self.distribution}-{self.version}.dist-info"


def check_version(version: str) -> None:
    """Raise InputError unless it is a version that pip leaves unchanged: `2026.11.16`, `1.0rc1`; not `2026.01.05`."""
    if not _VERSION.fullmatch(version):
        raise InputError(
            f"{version!r} is not a version in its normal form",
            hint="numbers without leading zeros, joined by dots, such as 2026.11.16 or 2026.11.16.1",
        )


def wheel_bytes(name: WheelName, files: Mapping[str, bytes]) -> bytes:
    """Return the wheel that holds these files, by path; `<dist-info>/METADATA` and `WHEEL` are among them, RECORD is
    added."""
    check_version(name.version)
    dist_info = f"{name.dist_info}/"
    # Metadata at the end, as the specification recommends; all else by name.
    paths = sorted(files, key=lambda path: (path.startswith(dist_info), path))
    record = f"{dist_info}RECORD"
    contents = {path: files[path] for path in paths} | {record: _record(paths, files, record)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, data in contents.items():
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = _RIGHTS
            archive.writestr(entry, data)
    return out.getvalue()


def read_wheel(data: bytes, where: str) -> dict[str, bytes]:
    """Return the files of a wheel that `wheel_bytes` made, without RECORD; raise PolicyCorrupt if it is not exactly
    one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise PolicyCorrupt("is compressed, which no policy's wheel is", where=where, hint=_HINT)
            if sum(entry.file_size for entry in entries) > len(data):  # entries that share their bytes
                raise PolicyCorrupt("claims to hold more than its own size", where=where, hint=_HINT)
            contents = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise PolicyCorrupt(f"cannot be read as a wheel: {error}", where=where, hint=_HINT) from None
    record = next((path for path in contents if path.endswith(".dist-info/RECORD")), None)
    if record is None:
        raise PolicyCorrupt("holds no RECORD: it is not a wheel", where=where, hint=_HINT)
    distribution, _, version = record.removesuffix(".dist-info/RECORD").rpartition("-")
    files = {path: content for path, content in contents.items() if path != record}
    try:
        again = wheel_bytes(WheelName(distribution, version), files)
    except InputError as error:
        raise PolicyCorrupt(error.what, where=where, hint=_HINT) from None
    if again != data:
        different = "its RECORD" if _record(list(files), files, record) != contents[record] else "its structure"
        raise PolicyCorrupt(f"is damaged: {different} is not what its files give", where=where, hint=_HINT)
    return files


def record_hash(data: bytes) -> str:
    """Return a hash as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _record(paths: list[str], files: Mapping[str, bytes], record: str) -> bytes:
    lines = [f"{path},{record_hash(files[path])},{len(files[path])}\n" for path in paths]
    return "".join([*lines, f"{record},,\n"]).encode()
