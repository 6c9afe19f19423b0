"""Which paths are pruned: wherever servers offer chat completions and messages, and nothing beside them."""

from __future__ import annotations

import pytest

from drsr.proxy.http.endpoints import Endpoint, endpoint_of


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/v1beta/openai/chat/completions",
        "/openai/v1/chat/completions",
        "/openai/deployments/my-gpt/chat/completions",
    ],
)
def test_chat_completions(path: str) -> None:
    assert endpoint_of("POST", path) is Endpoint.CHAT_COMPLETIONS
    assert endpoint_of("GET", path) is Endpoint.OTHER


def test_messages() -> None:
    assert endpoint_of("POST", "/v1/messages") is Endpoint.MESSAGES


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/openai/v1/responses", "/openai/responses"])
def test_responses(path: str) -> None:
    assert endpoint_of("POST", path) is Endpoint.RESPONSES
    assert endpoint_of("GET", path) is Endpoint.OTHER


def test_ours() -> None:
    assert endpoint_of("POST", "/drsr/decide") is Endpoint.DECIDE


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/chat/completions/",
        "/v1/chat/completions/abc",
        "/v1/messages/count_tokens",
        "/v1/responses/resp_1/cancel",
        "/drsr/decide/",
        "/v1/threads/x/messages",
        "/x/chat/completions",
        "/openai/deployments//chat/completions",
        "/openai/deployments/a/b/chat/completions",
        "/v1/chat/completions\n",
    ],
)
def test_everything_else(path: str) -> None:
    assert endpoint_of("POST", path) is Endpoint.OTHER
