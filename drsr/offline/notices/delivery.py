"""Delivery of a JSON notice: by HTTP, to a command's standard input, or to the end of a file."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from drsr.errors import DrsrError
from drsr.redaction import redact

SECONDS = 10.0
"""For an answer to a POST."""
COMMAND_SECONDS = 60.0
_URL = re.compile(r"https?://", re.IGNORECASE)
_LOCATION = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]*://[^\s'\"<>]+")


class NotDelivered(DrsrError):
    """A notice that did not arrive. Names only the host of a URL: the rest may be a secret."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A notice is meant for one address and no other."""

    def redirect_request(self, *arguments: object) -> None:
        return None


def is_url(target: str) -> bool:
    return _URL.match(target) is not None


def without_secrets(text: str) -> str:
    """Return a text with every location in it shown without user, password, query and fragment."""
    return _LOCATION.sub(lambda found: redact(found.group()), text)


def post(url: str, notice: Mapping[str, Any]) -> None:
    """Send a notice to a URL. NotDelivered unless the answer is one of success."""
    try:
        request = urllib.request.Request(
            url, json.dumps(notice).encode(), {"Content-Type": "application/json", "User-Agent": "drsr"}
        )
        where = f"{request.type}://{request.host.rpartition('@')[2]}"
    except ValueError:
        raise NotDelivered("the URL of a notice cannot be read") from None
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise NotDelivered(f"answered {error.code}", where=where) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NotDelivered(f"does not answer: {type(reason).__name__}", where=where) from None


def run_command(command: str, notice: Mapping[str, Any]) -> None:
    """Run a command, taken apart as a shell would and run without one, with a notice on its standard input."""
    words = split_command(command)
    try:
        done = subprocess.run(
            words, input=json.dumps(notice).encode(), stdout=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotDelivered(f"did not end within {COMMAND_SECONDS:g} s", where=words[0]) from None
    except (OSError, ValueError) as error:
        raise NotDelivered(f"cannot be run: {getattr(error, 'strerror', None) or error}", where=words[0]) from None
    if done.returncode:
        raise NotDelivered(f"ended with exit code {done.returncode}", where=words[0])


def split_command(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotDelivered(f"the command cannot be taken apart: {error}") from None
    if not words:
        raise NotDelivered("the command is empty")
    return words


def append_line(path: Path, notice: Mapping[str, Any]) -> None:
    """Add a notice as one line, in one write: several processes may share the file."""
    line = json.dumps(notice).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        place = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(place, line)
        finally:
            os.close(place)
    except OSError as error:
        raise NotDelivered(f"cannot be written: {error.strerror or error}", where=str(path)) from None
