"""Download files of a corpus from the hosts they were published on: redirects, retries and rate limits.

fsspec's `github://` asks the GitHub API once per folder and once per file, which allows 60 requests an hour without an
account, and knows one host only. So files are read as it reads large ones, from the host of raw files by commit,
through fsspec's HTTP filesystem: one request per file, to any host.
"""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from fsspec.implementations.http import HTTPFileSystem

from drsr.errors import InputError, SourceUnreachable
from drsr.offline.ingest.corpus.origins import CHUNK, Arriving, CutShort, Reason, Stopped, Unavailable
from drsr.offline.ingest.corpus.table import GITHUB, CorpusFile
from drsr.redaction import redact
from drsr.version import __version__

_UNSAID = 60.0
"""Seconds to wait where a host limits requests without saying for how long; GitHub asks for a minute."""

_GLANCE = 0.2
"""Seconds after which a download that nothing arrives for looks whether it is still wanted."""


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits on asking a failing host again."""

    attempts: int = 5
    """Times that one file is asked for."""
    first_pause: float = 0.5
    """Seconds before the second attempt; each further pause is twice as long."""
    longest_limit: float = 120.0
    """Seconds that a rate limit is waited for; a longer one ends the command."""


class Published:
    """The hosts that the files were published on."""

    def __init__(self, github: str = GITHUB, patience: Patience | None = None) -> None:
        """`github` serves files of repositories at OWNER/NAME/COMMIT/PATH: another one for GitHub Enterprise."""
        if not github.startswith(("https://", "http://")):
            raise InputError(f"{redact(github)!r} is not a URL", hint=f"such as {GITHUB}")
        self._github = github
        self._patience = patience or Patience()
        self._hosts: dict[str, _Host] = {}

    def bring(self, file: CorpusFile, path: Path, stop: threading.Event) -> None:
        """Write the file to `path`. Raises as Origin says; SourceUnreachable where a rate limit lasts too long."""
        url = file.url(self._github)
        host = self._hosts.setdefault(urlsplit(url).netloc, _Host())
        for attempt in range(1, self._patience.attempts + 1):
            last = attempt == self._patience.attempts
            host.wait(stop)
            try:
                with Arriving(file, path, stop) as arriving:
                    _download(url, arriving)
                    arriving.finish()
                return
            except _RateLimited as limit:
                if last or limit.seconds > self._patience.longest_limit:
                    raise _limited(limit, url) from None
                host.resume_at = max(host.resume_at, time.monotonic() + limit.seconds)
            except (CutShort, _Passing) as trouble:
                if last:
                    raise host.given_up(trouble, attempt) from None
                stop.wait(self._patience.first_pause * 2 ** (attempt - 1))


class _Host:
    """The state that all downloads from one host share."""

    def __init__(self) -> None:
        self.resume_at = 0.0
        """Until when, by the monotonic clock, its rate limit lasts."""
        self._out_of_reach: str | None = None

    def wait(self, stop: threading.Event) -> None:
        """Wait for the end of its rate limit. Raises Stopped, or Unavailable where the host cannot be reached."""
        while not stop.is_set() and (seconds := self.resume_at - time.monotonic()) > 0:
            stop.wait(seconds)
        if stop.is_set():
            raise Stopped
        if self._out_of_reach:
            raise Unavailable("unreachable", self._out_of_reach)

    def given_up(self, trouble: CutShort | _Passing, attempts: int) -> Unavailable:
        """Return why a file cannot be had; a host that does not answer at all is not asked for others either."""
        if isinstance(trouble, CutShort):
            return trouble
        if trouble.whole_host:
            self._out_of_reach = str(trouble)
        return Unavailable("unreachable", f"{trouble}, {attempts} times")


class _Passing(Exception):
    """Trouble that may be over in a moment, with one file or with the whole host."""

    def __init__(self, what: str, *, whole_host: bool = False) -> None:
        super().__init__(what)
        self.whole_host = whole_host


class _RateLimited(Exception):
    """The host wants to be left alone for some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


def _download(url: str, arriving: Arriving) -> None:
    try:
        asyncio.run(_stream(url, arriving))
    except FileNotFoundError:
        raise Unavailable("missing", "the host answers with status 404") from None
    except aiohttp.TooManyRedirects:
        raise Unavailable("missing", "the host redirects without end") from None
    except aiohttp.ClientResponseError as error:
        raise _refusal(error.status, error.headers or {}) from None
    except aiohttp.ClientConnectorError as error:
        raise _Passing(f"the host cannot be reached ({error.strerror or error})", whole_host=True) from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _Passing(f"the connection was cut ({type(error).__name__})") from None


async def _stream(url: str, arriving: Arriving) -> None:
    """Download in an event loop of this thread's own.

    The loop that fsspec shares between threads closes its sessions whenever garbage is collected, and waits for that in
    whichever thread it happens: among several it comes to a standstill.
    """
    filesystem = HTTPFileSystem(
        encoded=True,
        asynchronous=True,
        loop=asyncio.get_running_loop(),
        skip_instance_cache=True,
        client_kwargs={
            "trust_env": True,  # proxies, and credentials of ~/.netrc
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60),
            "headers": {"User-Agent": f"drsr/{__version__}"},
        },
    )
    session = await filesystem.set_session()
    async with session:
        download = asyncio.create_task(filesystem._get_file(url, arriving, chunk_size=CHUNK))
        while not download.done():
            await asyncio.wait([download], timeout=_GLANCE)
            if arriving.stopped:  # also while nothing arrives
                download.cancel()
                await asyncio.wait([download])
                raise Stopped
        await download


def _refusal(status: int, headers: Mapping[str, str]) -> Exception:
    limited = "Retry-After" in headers or headers.get("X-RateLimit-Remaining") == "0"
    if status == 429 or (status == 403 and limited):
        return _RateLimited(_seconds(headers))
    if status >= 500:
        return _Passing(f"the host answers with status {status}")
    reason: Reason = "forbidden" if status in (401, 403, 407, 451) else "missing"
    return Unavailable(reason, f"the host answers with status {status}")


def _seconds(headers: Mapping[str, str]) -> float:
    """Return how long a host wants to be left alone."""
    after, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
    if after.isdecimal():
        return float(after)
    try:
        until = email.utils.parsedate_to_datetime(after).timestamp() if after else float(reset)
    except ValueError:
        return _UNSAID
    return max(0.0, until - time.time()) + 1  # both are whole seconds


def _limited(limit: _RateLimited, url: str) -> SourceUnreachable:
    when = datetime.datetime.fromtimestamp(time.time() + limit.seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    hint = f"run the same command again after {when}: what was fetched is kept"
    what = f"the host limits how often it may be asked, for another {limit.seconds:,.0f} s"
    return SourceUnreachable(what, where=redact(url), hint=hint)
