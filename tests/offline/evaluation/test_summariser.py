"""Summarisers: the endpoint over real HTTP, and the double."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SummariserFailed, SummariserRefused
from drsr.offline.evaluation.chat_endpoint import ATTEMPTS
from drsr.offline.evaluation.scripted_summariser import ScriptedSummariser
from drsr.offline.evaluation.summariser import Ask, Completion, EndpointSummariser
from tests.offline.evaluation.harness.loopback_endpoint import Asked, Reply, completion, loopback_endpoint

ASK = Ask("summary", "Be short.", "assistant: I opened order #W12.\n\nresult: paid 12.50 by card_7", 64)


GOOD = Reply(completion({"role": "assistant", "content": "Order #W12 is paid."}, 41, 7))


class Served:
    """What an endpoint was asked, and how long it was left alone between; it answers by a list, the last for ever."""

    def __init__(self, *replies: Reply) -> None:
        self.asked: list[Asked] = []
        self.pauses: list[float] = []
        self._replies = list(replies)

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def complete(self, **options: Any) -> Completion:
        with (
            loopback_endpoint(self.reply) as url,
            closing(EndpointSummariser(url, "small", pause=self.pauses.append, **options)) as summariser,
        ):
            return summariser.complete(ASK)


def test_endpoint() -> None:
    served = Served(GOOD)
    assert served.complete(api_key="secret") == Completion("Order #W12 is paid.", 41, 7)
    (asked,) = served.asked
    assert (asked.path, asked.authorization) == ("/v1/chat/completions", "Bearer secret")
    assert asked.body["messages"] == [
        {"role": "system", "content": ASK.instructions},
        {"role": "user", "content": ASK.material},
    ]
    assert (asked.body["model"], asked.body["max_tokens"], asked.body["temperature"]) == ("small", 64, 0)


def test_its_name_says_which_model_where_and_no_secret() -> None:
    """Two endpoints that call a model the same are two summarisers."""
    with closing(EndpointSummariser("http://me:pass@here:1/v1?key=abc", "small", api_key="secret")) as summariser:
        assert summariser.name == "small at http://here:1/v1"


def test_a_busy_endpoint_is_asked_again() -> None:
    served = Served(Reply({}, 429, (("retry-after", "3"),)), Reply({}, 503), GOOD)
    assert served.complete().output_tokens == 7
    assert (len(served.asked), served.pauses) == (3, [3.0, 2.0])


@pytest.mark.parametrize(
    ("reply", "asked", "said"),
    [
        (Reply({"error": "x"}, 500), ATTEMPTS, "status 500"),
        (Reply({}, 429), ATTEMPTS, "status 429"),
        (Reply({}, 401), 1, "status 401(?s:.*)DRSR_SUMMARISER_KEY"),
        (Reply({"choices": [{"message": {"content": "text"}}]}), 1, "token counts"),
        (Reply({"choices": []}), 1, "without a message"),
    ],
)
def test_what_would_meet_every_question_stops_the_run(reply: Reply, asked: int, said: str) -> None:
    served = Served(reply)
    with pytest.raises(SummariserFailed, match=said):
        served.complete()
    assert len(served.asked) == asked


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({"error": "too long: my request"}, 400), "status 400"),
        (Reply(completion({"content": None}, 1, 1)), "without a text"),
    ],
)
def test_one_question_may_be_refused(reply: Reply, said: str) -> None:
    with pytest.raises(SummariserRefused, match=said) as found:
        Served(reply).complete()
    assert "my request" not in str(found.value)


def test_endpoint_that_is_not_there() -> None:
    with loopback_endpoint(lambda asked: GOOD) as url:
        pass
    with (
        closing(EndpointSummariser(url, "small", pause=lambda seconds: None)) as summariser,
        pytest.raises(SummariserFailed, match="no answer after 5 attempts"),
    ):
        summariser.complete(ASK)


def test_the_double_copies_names_and_numbers_and_counts() -> None:
    tokenizer = ScriptedTokenizer()
    first = ScriptedSummariser(tokenizer).complete(ASK)
    assert first == ScriptedSummariser(ScriptedTokenizer()).complete(ASK)
    assert "#W12" in first.text
    assert "card_7" in first.text
    ids = tokenizer.encode_contents([ASK.instructions, ASK.material, first.text])
    assert first.input_tokens == len(ids[0]) + len(ids[1])
    assert first.output_tokens == len(ids[2]) <= ASK.max_tokens


def test_the_double_keeps_to_the_length_allowed() -> None:
    long = ASK._replace(material="\n\n".join(f"result: item_{number} costs {number}" for number in range(400)))
    assert ScriptedSummariser(ScriptedTokenizer()).complete(long).output_tokens <= 64
