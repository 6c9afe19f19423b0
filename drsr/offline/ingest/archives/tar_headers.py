"""Headers of a tar archive: what a block of 512 bytes says, and what the records before it add.

Python's own package reads long names and pax records of whatever size a header claims, keeps every member, and follows
negative sizes backwards, so only its reader of one block is used (`TarInfo.frombuf`).
"""

from __future__ import annotations

import tarfile
from typing import NamedTuple

from drsr.offline.ingest.archives.member_names import LEADS_OUT, is_hidden, is_unsafe
from drsr.offline.store.source_files import Refusal, Unreadable

BLOCK = 512
LARGEST_RECORDS = 1 << 20
"""Bytes of one long name, or of the pax records of one member, that are read."""
LONG_NAME, PAX, PAX_OF_ALL = b"L", (b"x", b"X"), b"g"
EXTENSIONS = (LONG_NAME, b"K", *PAX, PAX_OF_ALL)
"""Kinds of blocks that say something of the next member and are none themselves."""
LONGEST_NAME = 4096
_MAGIC, _MAGIC_AT = b"ustar", 257
_KIND_AT, _PREFIX_AT, _EXTENDED_AT, _STILL_EXTENDED_AT = 156, 345, 482, 504
_PLAIN = (b"0", b"\0", b"7")
_WITHOUT_BYTES = b"123456"
"""Links, devices, folders and pipes, of which nothing follows whatever size is given."""
_FOLDER, _OLD_SPARSE, _OLD_FOLDER = b"5", b"S", b"\0"
_NOT_FILES = {
    b"1": "a hard link to a file that the archive holds under another name",
    b"2": "a symbolic link; pack the file that it leads to (tar --dereference)",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"M": "a part of a file that begins in another volume; join the volumes",
    b"V": "a label",
    _OLD_SPARSE: "a file without its holes; pack it again without --sparse",
}


class Said(NamedTuple):
    """What records say of the member behind them."""

    name: str | None = None
    size: int | None = None
    is_sparse: bool = False
    refused: Refusal | None = None
    """Why these records are not read, and so their member is not either."""

    def over(self, other: Said) -> Said:
        """Return both, this one first."""
        return Said(
            other.name if self.name is None else self.name,
            other.size if self.size is None else self.size,
            self.is_sparse or other.is_sparse,
            self.refused or other.refused,
        )


class Header(NamedTuple):
    """One block: a member, or records about the next one."""

    kind: bytes
    name: str
    size: int
    """Bytes that follow."""
    has_sparse_map: bool = False
    """Whether further blocks with the places of its holes follow at once."""

    def of(self, said: Said) -> Header:
        """Return the header with what was said before it."""
        return self._replace(
            name=self.name if said.name is None else said.name, size=self.size if said.size is None else said.size
        )

    @property
    def follows(self) -> int:
        """Bytes that follow it, without what fills the last block."""
        return 0 if self.kind in _WITHOUT_BYTES else self.size

    @property
    def is_folder(self) -> bool:
        return self.kind in (_FOLDER, b"D") or (self.kind == _OLD_FOLDER and self.name.endswith("/"))

    @property
    def plain_name(self) -> str:
        """Return the name without `./` and doubled slashes, which mean nothing."""
        return "/".join(part for part in self.name.split("/") if part not in ("", "."))

    @property
    def is_hidden(self) -> bool:
        return is_hidden(self.plain_name)

    def refusal(self, said: Said) -> Refusal | None:
        """Return why the member must not be opened, if anything."""
        if said.refused:
            return said.refused
        if not self.plain_name or len(self.name) > LONGEST_NAME:
            return Refusal("corrupt_archive", f"a member whose name has {len(self.name)} characters; pack it again")
        if is_unsafe(self.name):
            return LEADS_OUT
        if said.is_sparse:
            return Refusal("not_a_file", _NOT_FILES[_OLD_SPARSE])
        if self.kind not in _PLAIN:
            what = _NOT_FILES.get(self.kind, "a member of an unknown kind")
            return Refusal("symlink" if self.kind == b"2" else "not_a_file", f"{what}; only regular files are read")
        return None


def begins_tar(head: bytes) -> bool:
    """Return whether a file with these first 512 bytes is a tar archive. A text may hold the mark at its place."""
    if len(head) < BLOCK or not head[0]:
        return False
    if head.startswith((b"{", b"[")) and not head.startswith(_MAGIC, _MAGIC_AT):  # as nearly always
        return False
    if head.startswith(_MAGIC, _MAGIC_AT) and not head.startswith((b"{", b"[")):
        return True
    try:
        read_header(head)
    except ValueError:
        return False
    return True


def read_header(block: bytes) -> Header:
    """Return what a block says. Raises ValueError where it is no header."""
    try:
        found = tarfile.TarInfo.frombuf(block, "utf-8", "backslashreplace")
    except tarfile.HeaderError as error:
        raise ValueError(str(error)) from None
    if found.size < 0:
        raise ValueError("a negative size")
    # Name and kind as written: the package makes a folder of a long name that is cut at a slash, and a part of the
    # name of what GNU's form has at the place of the prefix.
    kind = block[_KIND_AT : _KIND_AT + 1]
    name = _text(block[:100])
    if block.startswith(_MAGIC + b"\0", _MAGIC_AT) and block[_PREFIX_AT]:
        name = f"{_text(block[_PREFIX_AT:500])}/{name}"
    return Header(kind, name, found.size, kind == _OLD_SPARSE and bool(block[_EXTENDED_AT]))


def more_holes(block: bytes) -> bool:
    """Return whether a block with places of holes says that another follows."""
    return bool(block[_STILL_EXTENDED_AT])


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="backslashreplace")


def long_name(data: bytes) -> Said:
    """Read a long name in GNU's form."""
    return Said(name=_text(data))


def pax_records(data: bytes) -> Said:
    """Read pax records: `27 path=a/long/name.json` and more, one after another. Raises Unreadable."""
    said: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at]:
        length, space, _ = data[at : at + 20].partition(b" ")
        if not space or not length.isdigit() or not (end := at + int(length)) <= len(data) or end <= at + len(length):
            raise _damaged()
        key, is_sign, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if not is_sign or data[end - 1 : end] != b"\n":
            raise _damaged()
        if key in (b"path", b"size") or key.startswith(b"GNU.sparse."):
            said[_text(key)] = value.decode(errors="backslashreplace")
        at = end
    size = said.get("size")
    if size is not None and not (size.isdecimal() and size.isascii() and len(size) < 20):
        raise _damaged()
    is_sparse = any(key.startswith("GNU.sparse.") for key in said)
    name = said.get("GNU.sparse.name", said.get("path"))
    return Said(name, None if size is None else int(size), is_sparse)


def _damaged() -> Unreadable:
    return Unreadable("corrupt_archive", "its pax records are damaged; copy it again")
