"""A model at an OpenAI-compatible endpoint as the agent. The usage it reports is used, because that is what is paid
for.

The request goes out as the method left it, with the model's name, temperature 0 and a seed. `chat_endpoint.py` says
what is tried again and what stops the run. A request that the endpoint refuses as invalid or too long ends the task.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from drsr.errors import AgentFailed, DrsrError
from drsr.offline.bench.harness.agent import Answer, Refused
from drsr.offline.bench.summarisers.chat_endpoint import REFUSED, ChatEndpoint
from drsr.offline.bench.summarisers.token_accounting import Usage
from drsr.request.request import Request, read_output

Json = dict[str, Any]

_KEPT = ("role", "content", "tool_calls", "reasoning_content")
"""Fields of an answer that go into the history; endpoints refuse some others when they come back."""


class EndpointAgent(ChatEndpoint):
    """Asks a chat-completions endpoint."""

    failure = AgentFailed
    key_from = "DRSR_AGENT_KEY"
    needed_for = "an agent behind an endpoint"
    timeout = 300.0

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        seed: int = 0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(base_url, model, api_key=api_key, pause=pause)
        self._seed = seed

    def begin(self, task: str, opening: Json) -> EndpointAgent:
        return self

    def answer(self, request: Request) -> Answer | Refused:
        response = self.ask({**request.to_wire(), "temperature": 0, "seed": self._seed})
        if response.status_code in REFUSED:
            return Refused(f"status {response.status_code}")
        try:
            return _read(response.json())
        except (ValueError, KeyError, TypeError, IndexError, DrsrError) as error:
            raise AgentFailed(
                f"an answer without a readable message or without its token counts ({error})",
                where=self.name,
                hint="the endpoint must give choices[0].message and usage with prompt_tokens and completion_tokens",
            ) from error


def _read(body: Any) -> Answer:
    given: Json = dict(body["choices"][0]["message"])
    message = {field: given[field] for field in _KEPT if given.get(field) is not None}
    message = {"content": None, **message, "role": "assistant"}
    read_output(message, "openai", where="the answer")  # what cannot be read cannot be rewritten either
    return Answer(message, Usage.of_openai(body["usage"]))
