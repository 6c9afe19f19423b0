"""An endpoint over real HTTP on loopback: when it is asked again, and how long it is left alone before."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from drsr.errors import SummariserFailed
from drsr.offline.bench.summarisers.chat_endpoint import ATTEMPTS, ChatEndpoint
from tests.offline.bench.loopback_endpoint import Asked, Reply, Served, loopback_endpoint

BODY = {"messages": [{"role": "user", "content": "task"}]}


class Endpoint(ChatEndpoint):
    failure, key_from, needed_for, timeout = SummariserFailed, "SOME_KEY", "a test", 60.0


def endpoint(url: str, served: Served, **options: Any) -> Endpoint:
    return Endpoint(url, "large", pause=served.pauses.append, **options)


def status_of(served: Served, **options: Any) -> int:
    with loopback_endpoint(served.reply) as url, closing(endpoint(url, served, **options)) as asked:
        return asked.ask(BODY).status_code


def test_the_request_goes_out_with_the_model_and_the_key() -> None:
    served = Served(Reply({}))
    assert status_of(served, api_key="secret") == 200
    assert served.asked == [Asked("/v1/chat/completions", "Bearer secret", {**BODY, "model": "large"})]


def test_without_a_key_none_is_sent() -> None:
    served = Served(Reply({}))
    assert status_of(served) == 200
    assert served.asked[0].authorization is None


def test_a_busy_one_is_asked_again_after_what_it_asks_for() -> None:
    """Seconds are kept to, up to a minute; a date is not read, and the pauses double then."""
    busy = [Reply({}, 429, (("retry-after", "7"),)), Reply({}, 503), Reply({}, 429, (("retry-after", "Monday"),))]
    served = Served(*busy, Reply({}, 500, (("retry-after", "9999"),)), Reply({}))
    assert status_of(served) == 200
    assert (len(served.asked), served.pauses) == (5, [7.0, 2.0, 4.0, 60.0])


@pytest.mark.parametrize(("status", "times"), [(503, ATTEMPTS), (429, ATTEMPTS), (401, 1), (403, 1), (404, 1)])
def test_what_would_meet_every_request_is_the_callers_failure(status: int, times: int) -> None:
    served = Served(Reply({}, status))
    with pytest.raises(SummariserFailed, match=f"status {status}(?s:.*)SOME_KEY"):
        status_of(served)
    assert len(served.asked) == times


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_refused_is_answered(status: int) -> None:
    served = Served(Reply({"error": "too long"}, status))
    assert status_of(served) == status
    assert len(served.asked) == 1


def test_nobody_is_there() -> None:
    served = Served(Reply({}))
    with loopback_endpoint(served.reply) as url:
        pass
    with (
        closing(endpoint(url, served, api_key="secret")) as asked,
        pytest.raises(SummariserFailed, match=r"no answer after 5 attempts \(ConnectError\)") as found,
    ):
        asked.ask(BODY)
    assert served.pauses == [1.0, 2.0, 4.0, 8.0]
    assert "secret" not in str(found.value)
