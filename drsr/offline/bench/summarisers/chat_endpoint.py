"""An OpenAI-compatible endpoint, used for the acting model and the summariser of an evaluation.

429 and 5xx are tried again after a pause; so is a connection that breaks. The caller judges the endpoint's final
answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from drsr.errors import DrsrError, MissingExtra
from drsr.redaction import redact

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

ATTEMPTS = 5
LONGEST_PAUSE = 60.0
"""Seconds, whatever the endpoint asks for."""
REFUSED = frozenset({400, 413, 422})
"""Status codes for which the request itself is at fault. 401, 403, 404 and similar ones would meet every request."""


class ChatEndpoint:
    """One model at `/chat/completions`."""

    failure: ClassVar[type[DrsrError]]
    """Raised if no answer comes back."""
    key_from: ClassVar[str]
    """The variable that holds the key."""
    needed_for: ClassVar[str]
    timeout: ClassVar[float]
    """Seconds."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`base_url` is the part before `/chat/completions`."""
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtra("httpx", "proxy", needed_for=self.needed_for) from error
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._client = httpx.Client(headers=headers, timeout=self.timeout)
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._pause = pause
        self.model = model
        self.name = f"{model} at {redact(base_url)}"
        """Without user, password and query."""

    def close(self) -> None:
        self._client.close()

    def ask(self, body: Json) -> httpx.Response:
        """Return the endpoint's answer to a request: status 200, or a status that refuses this very request."""
        response = self._post({**body, "model": self.model})
        if response.status_code != 200 and response.status_code not in REFUSED:
            raise self.failure(
                f"status {response.status_code}",
                where=self.name,
                hint=f"look at the endpoint's own log; a key is taken from {self.key_from}",
            )
        return response

    def _post(self, body: Json) -> httpx.Response:
        """Return the endpoint's response; tried again while it is busy or away."""
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = self._client.post(self._url, json=body)
            except self._errors as error:
                if last:
                    raise self.failure(
                        f"no answer after {ATTEMPTS} attempts ({type(error).__name__})",
                        where=self.name,
                        hint="is the endpoint running, and does its address end before /chat/completions?",
                    ) from error
                self._pause(_seconds(attempt, None))
                continue
            if last or not (response.status_code == 429 or response.status_code >= 500):
                return response
            self._pause(_seconds(attempt, response.headers.get("retry-after")))
        raise AssertionError("the last attempt returns or raises")


def _seconds(attempt: int, asked: str | None) -> float:
    """Return 1, 2, 4, 8, ... or what the endpoint asks for."""
    try:
        wanted = float(asked) if asked is not None else 2.0**attempt
    except ValueError:  # a date: rare, and not worth reading
        wanted = 2.0**attempt
    return min(max(wanted, 0.0), LONGEST_PAUSE)
