"""The model that a method asks along the way: for a summary, a plan, a verdict. A seam; its tokens are counted.

`EndpointSummariser` asks any OpenAI-compatible endpoint, `EmbeddedSummariser` (in `embedded.py`) the language model
that labels are measured with, and `ScriptedSummariser` (in `scripted.py`) is a double.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from drsr.errors import SummariserFailed, SummariserRefused
from drsr.offline.bench.summarisers.chat_endpoint import REFUSED, ChatEndpoint


class Ask(NamedTuple):
    """One question to a summariser."""

    purpose: str
    """Kind of answer wanted, as one fixed word: `summary`, `rubric`, `plan`, `recall`. A real model does not see it;
    the double depends on it."""
    instructions: str
    """Instructions for the model."""
    material: str
    """Text to apply them to."""
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


class EndpointSummariser(ChatEndpoint):
    """A model at an OpenAI-compatible endpoint. Its own count of tokens is used, because that is what is paid for."""

    failure = SummariserFailed
    key_from = "DRSR_SUMMARISER_KEY"
    needed_for = "a summariser behind an endpoint"
    timeout = 120.0

    def complete(self, ask: Ask) -> Completion:
        """Ask at temperature 0. Raise SummariserRefused if it cannot answer this question, SummariserFailed if it could
        not answer any: unreachable, a wrong key, answers without token counts."""
        response = self.ask(
            {
                "messages": [
                    {"role": "system", "content": ask.instructions},
                    {"role": "user", "content": ask.material},
                ],
                "max_tokens": ask.max_tokens,
                "temperature": 0,
            }
        )
        if response.status_code in REFUSED:
            raise SummariserRefused(f"the summariser refused the question: status {response.status_code}")
        try:
            text, read, written = _read(response.json())
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise SummariserFailed(
                "an answer without a message or without its token counts",
                where=self.name,
                hint="the endpoint must give choices[0].message.content and usage",
            ) from error
        if not isinstance(text, str):  # it thought until its tokens were used up, say
            raise SummariserRefused("the summariser answered without a text")
        return Completion(text, read, written)


def _read(answer: Any) -> tuple[Any, int, int]:
    usage = answer["usage"]
    return answer["choices"][0]["message"]["content"], int(usage["prompt_tokens"]), int(usage["completion_tokens"])
