"""A model behind an OpenAI-compatible endpoint as the agent. What it says it used is taken: it is what is paid for.

The request goes out as the method left it, with the model's name, temperature 0 and a seed. 429 and 5xx are tried again
after a pause; so is a connection that breaks. A request that the endpoint refuses as invalid or too long ends the task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from drsr.errors import AgentFailed, DrsrError, MissingExtra
from drsr.offline.evaluation.harness.agent import Answer, Refused
from drsr.offline.evaluation.token_accounting import Usage
from drsr.redaction import redact
from drsr.request import Request, read_output

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

ATTEMPTS = 5
LONGEST_PAUSE = 60.0
"""Seconds, whatever the endpoint asks for."""
_REFUSED = frozenset({400, 413, 422})
"""The request itself is at fault. 401, 403, 404 and the like would meet every request."""
_KEPT = ("role", "content", "tool_calls", "reasoning_content")
"""Fields of an answer that go into the history; endpoints refuse some others when they come back."""


class EndpointAgent:
    """Asks a chat-completions endpoint."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        seed: int = 0,
        timeout: float = 300.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`base_url` is what stands before `/chat/completions`."""
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtra("httpx", "proxy", needed_for="an agent behind an endpoint") from error
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._client = httpx.Client(headers=headers, timeout=timeout)
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._shown = redact(base_url)
        self._model = model
        self._seed = seed
        self._pause = pause

    @property
    def name(self) -> str:
        return f"{self._model} at {self._shown}"

    def begin(self, task: str, opening: Json) -> EndpointAgent:
        return self

    def answer(self, request: Request) -> Answer | Refused:
        wire = request.to_wire()
        response = self._post({**wire, "model": self._model, "temperature": 0, "seed": self._seed})
        if response.status_code in _REFUSED:
            return Refused(f"status {response.status_code}")
        if response.status_code != 200:
            raise AgentFailed(
                f"status {response.status_code}",
                where=self.name,
                hint="look at the endpoint's own log; a key is taken from DRSR_AGENT_KEY",
            )
        try:
            return _read(response.json())
        except (ValueError, KeyError, TypeError, IndexError, DrsrError) as error:
            raise AgentFailed(
                f"an answer without a readable message or without its token counts ({error})",
                where=self.name,
                hint="the endpoint must give choices[0].message and usage with prompt_tokens and completion_tokens",
            ) from error

    def close(self) -> None:
        self._client.close()

    def _post(self, body: Json) -> httpx.Response:
        """The endpoint's response; tried again while it is busy or away."""
        for attempt in range(ATTEMPTS):
            last = attempt == ATTEMPTS - 1
            try:
                response = self._client.post(self._url, json=body)
            except self._errors as error:
                if last:
                    raise AgentFailed(
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
    """1, 2, 4, 8, ... or what the endpoint asks for."""
    try:
        wanted = float(asked) if asked is not None else 2.0**attempt
    except ValueError:  # a date: rare, and not worth reading
        wanted = 2.0**attempt
    return min(max(wanted, 0.0), LONGEST_PAUSE)


def _read(body: Any) -> Answer:
    given: Json = dict(body["choices"][0]["message"])
    message = {field: given[field] for field in _KEPT if given.get(field) is not None}
    message = {"content": None, **message, "role": "assistant"}
    read_output(message, "openai", where="the answer")  # what cannot be read cannot be rewritten either
    return Answer(message, Usage.of_openai(body["usage"]))
