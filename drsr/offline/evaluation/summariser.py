"""The model that a method asks along the way: for a summary, a plan, a verdict. A seam; its tokens are counted.

`EndpointSummariser` asks any OpenAI-compatible endpoint, `EmbeddedSummariser` (in `embedded_summariser.py`) the
language model that labels are measured with, and `ScriptedSummariser` (in `scripted_summariser.py`) is a double.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from drsr.errors import MissingExtra, SummariserFailed


class Ask(NamedTuple):
    """One question to a summariser."""

    purpose: str
    """What kind of answer is wanted, as one fixed word: `summary`, `rubric`, `plan`, `recall`. A real model does not
    see it; the double goes by it."""
    instructions: str
    """What to do."""
    material: str
    """What to do it with."""
    max_tokens: int
    """The answer is at most this long."""


class Completion(NamedTuple):
    """An answer, and what it took."""

    text: str
    input_tokens: int
    output_tokens: int


class Summariser(Protocol):
    """Answers questions. The same question gets the same answer."""

    @property
    def name(self) -> str:
        """For the report: which model it is."""

    def complete(self, ask: Ask) -> Completion: ...


class EndpointSummariser:
    """A model behind an OpenAI-compatible endpoint. Its own count of tokens is taken, as it is what is paid for."""

    def __init__(self, base_url: str, model: str, *, api_key: str | None = None, timeout: float = 120.0) -> None:
        """`base_url` is what stands before `/chat/completions`."""
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtra("httpx", "proxy", needed_for="a summariser behind an endpoint") from error
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._errors = httpx.HTTPError
        self._client = httpx.Client(headers=headers, timeout=timeout)
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._model = model

    @property
    def name(self) -> str:
        return self._model

    def complete(self, ask: Ask) -> Completion:
        """Ask at temperature 0. Raises SummariserFailed where no answer with its token counts comes back."""
        body = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": ask.instructions},
                {"role": "user", "content": ask.material},
            ],
            "max_tokens": ask.max_tokens,
            "temperature": 0,
        }
        try:
            response = self._client.post(self._url, json=body)
        except self._errors as error:
            raise SummariserFailed(f"no answer ({type(error).__name__})", where=self._model) from error
        if response.status_code != 200:
            raise SummariserFailed(
                f"status {response.status_code}", where=self._model, hint="look at the endpoint's own log"
            )
        try:
            return _read(response.json())
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise SummariserFailed(
                "an answer without a text or without its token counts",
                where=self._model,
                hint="the endpoint must give choices[0].message.content and usage",
            ) from error

    def close(self) -> None:
        self._client.close()


def _read(answer: Any) -> Completion:
    text, usage = answer["choices"][0]["message"]["content"], answer["usage"]
    if not isinstance(text, str):
        raise TypeError("content is no text")
    return Completion(text, int(usage["prompt_tokens"]), int(usage["completion_tokens"]))
