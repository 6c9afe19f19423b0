"""Find out which of many recorded locations are still there. Each folder of a bucket is listed once."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable

import fsspec

from drsr.offline.store.source_files import storage_errors

_WEB = ("http", "https")
"""Filesystems that cannot be listed: each address is checked by itself."""
_GONE = (404, 410)
_SECONDS = 20.0


def absent(locations: Iterable[str]) -> set[str]:
    """Return those locations where nothing is. Storage that does not answer is an error, never an absence."""
    gone = set()
    folders: defaultdict[str, list[str]] = defaultdict(list)
    for location in dict.fromkeys(locations):
        scheme, found, path = location.partition("://")
        if not found or scheme == "file":
            gone |= set() if os.path.lexists(path if found else location) else {location}
        elif scheme in _WEB:
            gone |= {location} if _is_gone_from_the_web(location) else set()
        else:
            folders[location.rpartition("/")[0]].append(location)
    for folder, files in folders.items():
        gone |= _absent_in(folder, files)
    return gone


def _absent_in(folder: str, files: list[str]) -> set[str]:
    with storage_errors(folder):
        filesystem, path = fsspec.core.url_to_fs(folder)
        try:
            there = {name.rstrip("/").rpartition("/")[2] for name in filesystem.ls(path, detail=False, refresh=True)}
        except FileNotFoundError:
            return set(files)
    return {file for file in files if file.rpartition("/")[2] not in there}


def _is_gone_from_the_web(address: str) -> bool:
    """Return whether a server says that the file does not exist. A server that wants a key, or refuses HEAD, does not
    say so."""
    with storage_errors(address):
        try:
            with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=_SECONDS):
                return False
        except urllib.error.HTTPError as error:
            error.close()
            return error.code in _GONE
