"""Delivery of a JSON notice: by HTTP, to a command's standard input, or to the end of a file."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from drsr.errors import DrsrError
from drsr.redaction import redact

SECONDS = 10.0
"""For a whole answer to a POST."""
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
    """Send a notice to a URL. NotDelivered unless it answers with success, whole and in time.

    User and password in the URL are sent as HTTP's basic authorization. A server that answers byte by byte keeps its
    thread, and nobody else.
    """
    plain, headers = _authorized(url)
    try:
        request = urllib.request.Request(plain, json.dumps(notice).encode(), headers)
        where = f"{request.type}://{request.host}"
    except ValueError:
        raise NotDelivered("the URL of a notice cannot be read") from None
    answers: list[str | None] = []
    thread = threading.Thread(target=lambda: answers.append(_refusal(request)), daemon=True, name="drsr-notice")
    thread.start()
    thread.join(SECONDS)
    refusal = answers[0] if answers else f"does not answer within {SECONDS:g} s"
    if refusal is not None:
        raise NotDelivered(refusal, where=where)


def _authorized(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without user and password, and the headers of a request with them."""
    headers = {"Content-Type": "application/json", "User-Agent": "drsr"}
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    user, found, host = host.rpartition("@")
    if found:
        credentials = urllib.parse.unquote(user).encode()
        headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
    return f"{scheme}://{host}{slash}{path}", headers


def _refusal(request: urllib.request.Request) -> str | None:
    """Send a request; returns what is wrong with the answer, None if it is one of success."""
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return f"answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"does not answer: {type(reason).__name__}"


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
