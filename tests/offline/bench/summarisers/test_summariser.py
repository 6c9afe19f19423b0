"""Summarisers: the endpoint over real HTTP, and the double."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedTokenizer
from drsr.errors import SummariserFailed, SummariserRefused
from drsr.offline.bench.summarisers.scripted import ScriptedSummariser
from drsr.offline.bench.summarisers.summariser import Ask, Completion, EndpointSummariser
from tests.offline.bench.loopback_endpoint import Reply, Served, completion, loopback_endpoint

ASK = Ask("summary", "Be short.", "assistant: I opened order #W12.\n\nresult: paid 12.50 by card_7", 64)
GOOD = Reply(completion({"role": "assistant", "content": "Order #W12 is paid."}, 41, 7))


def complete(served: Served, **options: Any) -> Completion:
    with (
        loopback_endpoint(served.reply) as url,
        closing(EndpointSummariser(url, "small", pause=served.pauses.append, **options)) as summariser,
    ):
        return summariser.complete(ASK)


def test_endpoint() -> None:
    served = Served(GOOD)
    assert complete(served, api_key="secret") == Completion("Order #W12 is paid.", 41, 7)
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


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({}, 401), "status 401(?s:.*)DRSR_SUMMARISER_KEY"),
        (Reply({"choices": [{"message": {"content": "text"}}]}), "token counts"),
        (Reply({"choices": []}), "without a message"),
    ],
)
def test_what_would_meet_every_question_stops_the_run(reply: Reply, said: str) -> None:
    with pytest.raises(SummariserFailed, match=said):
        complete(Served(reply))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({"error": "too long: my request"}, 400), "status 400"),
        (Reply(completion({"content": None}, 1, 1)), "without a text"),
    ],
)
def test_one_question_may_be_refused(reply: Reply, said: str) -> None:
    with pytest.raises(SummariserRefused, match=said) as found:
        complete(Served(reply))
    assert "my request" not in str(found.value)


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
