"""The paths whose requests are pruned, and what each protocol calls things."""

from __future__ import annotations

import re
from enum import Enum

from drsr.request.request import Protocol


class Endpoint(Enum):
    """The endpoint of a request. The value is the label in metrics, logs and receipts."""

    CHAT_COMPLETIONS = "chat_completions"
    """OpenAI's, and of the many servers that speak like it."""
    MESSAGES = "messages"
    """Anthropic's."""
    RESPONSES = "responses"
    """OpenAI's newer form, whose history are items."""
    DECIDE = "decide"
    """Ours: the decision alone, for who forwards the request by other means."""
    OTHER = "other"
    """Everything else, which is forwarded unchanged."""

    @property
    def protocol(self) -> Protocol:
        """Return the protocol whose words to use; for other paths OpenAI's, which more servers speak."""
        return "anthropic" if self is Endpoint.MESSAGES else "openai"

    @property
    def prunable(self) -> bool:
        return self is not Endpoint.OTHER


_PRUNED = (
    (
        re.compile(r"(/v1|/v1beta/openai|/openai/v1|/openai/deployments/[^/]+)?/chat/completions"),
        Endpoint.CHAT_COMPLETIONS,
    ),
    (re.compile(r"(/v1|/openai/v1|/openai)?/responses"), Endpoint.RESPONSES),
    (re.compile(r"/v1/messages"), Endpoint.MESSAGES),
    (re.compile(r"/drsr/decide"), Endpoint.DECIDE),
)
"""The paths under which servers offer them: OpenAI's own, without a version, Gemini's, and both of Azure's."""


def endpoint_of(method: str, path: str) -> Endpoint:
    """Return the endpoint, by the whole path: `/v1/messages/count_tokens` or `/v1/threads/x/messages` are something
    else."""
    if method != "POST":
        return Endpoint.OTHER
    return next((endpoint for pattern, endpoint in _PRUNED if pattern.fullmatch(path)), Endpoint.OTHER)
