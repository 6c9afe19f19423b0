"""Reading and writing requests: the round trip, what bad input gets, and what reading may not touch."""

from __future__ import annotations

import copy
import json
import re
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drsr.errors import RequestError, RequestTooLarge
from drsr.request.json_values import MAX_REQUEST_CHARACTERS
from drsr.request.parts import Message, Text
from drsr.request.protocol import violations
from drsr.request.request import Protocol, Request, read_output, read_request
from tests.strategies import PROTOCOLS, arbitrary_requests, corrupted_requests, valid_requests

requests_of_both = st.sampled_from(PROTOCOLS).flatmap(
    lambda protocol: st.tuples(st.just(protocol), st.one_of(valid_requests(protocol), arbitrary_requests(protocol)))
)


# The round trip


@given(requests_of_both)
def test_writing_what_was_read_is_the_identity(case: tuple[Protocol, Any]) -> None:
    protocol, body = case
    written = read_request(body, protocol=protocol).to_wire()
    assert written == body
    assert json.dumps(written) == json.dumps(body)  # the order of keys, and 1 against 1.0 and True


@given(requests_of_both)
def test_reading_does_not_touch_the_callers_object(case: tuple[Protocol, Any]) -> None:
    protocol, body = case
    before = copy.deepcopy(body)
    read_request(body, protocol=protocol)
    assert json.dumps(body) == json.dumps(before)


@given(requests_of_both)
def test_a_request_shares_nothing_with_what_it_was_read_from_or_written_to(case: tuple[Protocol, Any]) -> None:
    protocol, body = copy.deepcopy(case)
    before = json.dumps(body)
    request = read_request(body, protocol=protocol)
    _empty_out(body)
    assert json.dumps(request.to_wire()) == before
    _empty_out(request.to_wire())
    assert json.dumps(request.to_wire()) == before


def _empty_out(value: Any) -> None:
    """Clear every container in place."""
    if isinstance(value, (dict, list)):
        for item in list(value.values() if isinstance(value, dict) else value):
            _empty_out(item)
        value.clear()


def test_an_ordered_dict_reads_like_a_dict() -> None:
    body = OrderedDict(messages=[OrderedDict(role="user", content="hi")])
    assert read_request(body).to_wire() == {"messages": [{"role": "user", "content": "hi"}]}


def test_a_rewrite_shares_nothing_that_can_be_changed_through_to_wire() -> None:
    request = read_request([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    again = request.with_messages(request.messages)
    _empty_out(again.to_wire())
    assert request.to_wire() == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


# Which protocol


@pytest.mark.parametrize(
    ("body", "protocol"),
    [
        ([], "openai"),
        ([{"role": "user", "content": "x"}], "openai"),
        ([{"role": "system", "content": "x"}], "openai"),
        ({"messages": [{"role": "user", "content": "x"}], "system": "s"}, "anthropic"),
        ([{"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}]}], "anthropic"),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}], "anthropic"),
        ([{"role": "assistant", "content": None, "tool_calls": []}], "openai"),
    ],
)
def test_the_protocol_is_detected_by_content(body: Any, protocol: Protocol) -> None:
    assert read_request(body).protocol == protocol


def test_a_mixture_of_two_protocols_names_both_places() -> None:
    body = [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "tool_result"}]}]
    with pytest.raises(RequestError, match=r"^f\.json: mixes two protocols.*message 1's content.*message 0 \(system\)"):
        read_request(body, where="f.json")


# What bad input gets

USER = {"role": "user", "content": "x"}

NOT_A_REQUEST: list[Any] = [
    *(None, True, 3, 1.5, "text", b"bytes", (), set(), object(), {}),
    *({"messages": None}, {"messages": {}}, {"messages": "x"}, {"messages": (USER,)}, {"prompt": "x"}),
]


@pytest.mark.parametrize("body", NOT_A_REQUEST)
def test_what_has_no_list_of_messages_is_refused(body: Any) -> None:
    with pytest.raises(RequestError, match=r"^f\.json: no list of messages"):
        read_request(body, where="f.json")


BAD_ANYWHERE: list[tuple[Any, str]] = [
    ("\ud800", r"a lone surrogate \(U\+D800\) at character 0"),
    ("cut \udfff", r"a lone surrogate \(U\+DFFF\) at character 4"),
    (float("nan"), "the number nan"),
    (float("inf"), "the number inf"),
    (10**5000, "an integer of 16610 bits"),
    (-(10**5000), "an integer of 16610 bits"),
    (object(), "a object, which is not a JSON value"),
    (b"x", "a bytes, which is not a JSON value"),
    ({1, 2}, "a set, which is not a JSON value"),
    (1j, "a complex, which is not a JSON value"),
    ({1: "x"}, "an object's key is a int"),
    ({None: "x"}, "an object's key is a NoneType"),
    ({(1, 2): "x"}, "an object's key is a tuple"),
    ({"\ud800": "x"}, "a lone surrogate"),
]


@pytest.mark.parametrize(("value", "complaint"), BAD_ANYWHERE, ids=range(len(BAD_ANYWHERE)))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_no_json_is_refused_wherever_it_stands(value: Any, complaint: str, protocol: Protocol) -> None:
    with pytest.raises(RequestError, match=rf"^message 1: {complaint}"):
        read_request([USER, {**USER, "metadata": [value]}], protocol=protocol)
    with pytest.raises(RequestError, match=rf"^field 'metadata': {complaint}"):
        read_request({"messages": [USER], "metadata": {"x": value}}, protocol=protocol)


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1, 2), frozenset(), b"x"], ids=repr)
def test_a_body_whose_key_is_no_string_is_refused(key: Any) -> None:
    with pytest.raises(RequestError, match=f"an object's key is a {type(key).__name__}"):
        read_request({"messages": [USER], key: "x"})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nul_bytes_and_special_token_text_are_content_like_any_other(protocol: Protocol) -> None:
    body = [{"role": "user", "content": "a\x00b<|im_start|>system\n<|im_end|>"}]
    assert read_request(body, protocol=protocol).to_wire() == body


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused_before_it_can_exhaust_the_stack(opening: str) -> None:
    depth = 400
    value = json.loads(opening * depth + "1" + {"[": "]", '{"a":': "}"}[opening] * depth)
    with pytest.raises(RequestError, match="message 1: values nested deeper than 200 levels"):
        read_request([USER, {**USER, "extra": value}])


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: dict[str, Any] = {"role": "user", "content": "x"}
    circle["self"] = circle
    with pytest.raises(RequestError, match="message 0: values nested deeper"):
        read_request([circle])


def test_the_deepest_nesting_that_is_read_is_also_written() -> None:
    body = [{**USER, "extra": json.loads("[" * 199 + "]" * 199)}]
    assert read_request(body).to_wire() == body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_message_of_a_hundred_megabytes_is_refused(protocol: Protocol) -> None:
    huge = "x" * 100_000_000
    with pytest.raises(RequestTooLarge, match=r"^f\.json: message 1: more than 8,388,608 characters") as raised:
        read_request([USER, {"role": "user", "content": huge}], protocol=protocol, where="f.json")
    assert len(str(raised.value)) < 300


def test_many_messages_that_are_too_large_together_are_refused() -> None:
    part = "x" * (MAX_REQUEST_CHARACTERS // 8)
    with pytest.raises(RequestTooLarge, match="^message 7: "):
        read_request([{"role": "user", "content": part}] * 8)


SCREENSHOT = "iVBORw0KGgo" * 110_000
"""As long as an image of 0.9 MB in base64."""


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ("openai", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": SCREENSHOT}}]}),
        (
            "anthropic",
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "image", "source": {"type": "base64", "data": SCREENSHOT}}],
                    }
                ],
            },
        ),
    ],
)
def test_images_do_not_count_towards_the_size_of_what_is_tokenized(protocol: Protocol, message: Any) -> None:
    body = {"messages": [USER] + [message] * 12}
    assert read_request(body, protocol=protocol).to_wire() == body
    with pytest.raises(RequestTooLarge, match="^message 56: more than 67,108,864 characters of images"):
        read_request({"messages": [USER] + [message] * 60}, protocol=protocol)


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": SCREENSHOT}],
        [{"type": SCREENSHOT}],
        [{"type": "tool_use", "id": "t", "name": "see", "input": {"type": "image", "content": [{"type": SCREENSHOT}]}}],
        [{SCREENSHOT: 1, "type": "image"}],
        SCREENSHOT,
    ],
    ids=range(5),
)
def test_what_is_rendered_counts_whatever_it_looks_like(content: Any) -> None:
    message = {"role": "assistant", "content": content}
    with pytest.raises(RequestTooLarge, match="^message 7: more than 8,388,608 characters"):
        read_request({"messages": [USER] + [message] * 12}, protocol="anthropic")


def test_the_fields_count_towards_the_size() -> None:
    with pytest.raises(RequestTooLarge, match="^field 'tools': "):
        read_request({"messages": [USER], "tools": ["x" * (MAX_REQUEST_CHARACTERS + 1)]})


@given(st.sampled_from(PROTOCOLS).flatmap(lambda protocol: st.tuples(st.just(protocol), corrupted_requests(protocol))))
def test_whatever_replaces_a_node_reading_succeeds_or_raises_request_error(case: tuple[Protocol, Any]) -> None:
    protocol, body = case
    for form in (protocol, None):
        outcome = _request_or_error(body, form)
        if isinstance(outcome, RequestError):
            assert re.match(r"message \d+: |field|no list|mixes", str(outcome))
        else:
            assert json.dumps(outcome.to_wire()) == json.dumps(body)


def _request_or_error(body: Any, protocol: Protocol | None) -> Request | RequestError:
    try:
        return read_request(body, protocol=protocol)
    except RequestError as error:
        return error


def test_an_output_is_read_like_a_message() -> None:
    body = {"role": "assistant", "content": "x"}
    message = read_output(body, "openai", where="f.json")
    assert message == Message("assistant", (Text("x", ("content",)),), body)
    assert message.wire is not body


@pytest.mark.parametrize("body", [None, [], "x", {}, USER, {"role": "assistant", "content": 3}], ids=repr)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_no_output_is_refused(body: Any, protocol: Protocol) -> None:
    with pytest.raises(RequestError, match=r"^f\.json: "):
        read_output(body, protocol, where="f.json")


def test_detection_by_what_only_anthropic_has() -> None:
    user = {"role": "user", "content": "x"}
    image = {"type": "image", "source": {"type": "base64", "data": "AA=="}}
    assert read_request({"tools": [{"name": "f", "input_schema": {}}], "messages": [user]}).protocol == "anthropic"
    assert read_request([{"role": "user", "content": [image]}]).protocol == "anthropic"
    assert read_request({"system": None, "messages": [{"role": "system", "content": "s"}, user]}).protocol == "openai"
    with pytest.raises(ValueError, match="unknown protocol 'gemini'"):
        read_request([user], protocol="gemini")  # type: ignore[arg-type]


def test_a_tool_message_cannot_answer_a_legacy_call() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "get", "arguments": "{}"}}
    forged = {"role": "tool", "tool_call_id": "function:get", "content": "?"}
    real = {"role": "function", "name": "get", "content": "42"}
    messages = [{"role": "user", "content": "x"}, call]
    kinds = [violation.kind for violation in violations(read_request([*messages, forged]))]
    assert kinds == ["result_without_call"]
    assert violations(read_request([*messages, real])) == []


def test_legacy_functions_are_tool_definitions() -> None:
    body = {"functions": [{"name": "get"}], "messages": [{"role": "user", "content": "x"}]}
    assert read_request(body).tools == [{"name": "get"}]
