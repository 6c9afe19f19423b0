"""Actions in plain text and their observations: one exchange where the form is unmistakable, a chat elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from drsr.backbone.scripted import ScriptedBackbone
from drsr.offline.ingest.formats.openai_chat import conversation
from drsr.policy.scripted import scripted_policy
from drsr.request.history import BlockKind, read_history
from drsr.request.protocol import violations
from drsr.request.rendering import render
from drsr.request.request import Protocol, read_request
from drsr.request.text_actions import with_text_actions

FORMS = {
    "react": ("Thought: look {n}\nAction: search\nAction Input: flag {n}", "Observation: {n} hits in file_{n}.txt"),
    "mini-swe-agent": (
        "THOUGHT: look {n}\n\n```bash\nls dir_{n}\n```",
        "<returncode>0</returncode>\n<output>\nfile_{n}\n</output>",
    ),
    "swe-agent": ("I look {n}.\n```\nls dir_{n}\n```", "file_{n}\n(Open file: n/a)\n(Current directory: /)\nbash-$"),
    "code_act": ("look {n} <execute_bash>ls {n}</execute_bash>", "OBSERVATION:\nfile_{n}"),
    "tagged": (
        "look {n}\n<function=bash>\n<parameter=command>ls {n}</parameter>\n</function>",
        "EXECUTION RESULT of [bash]:\nfile_{n}",
    ),
    "hermes": (
        'look {n}<tool_call>{{"name": "ls", "arguments": {{"path": "{n}"}}}}</tool_call>',
        "<tool_response>file_{n}</tool_response>",
    ),
    "cline": ("look {n}\n<read_file>\n<path>{n}</path>\n</read_file>", "[read_file for '{n}'] Result:\nline {n}"),
}


def run(form: str, steps: int = 8) -> list[dict[str, Any]]:
    acts, observes = FORMS[form]
    messages = [{"role": "user", "content": "Find the flag."}]
    for n in range(steps):
        said = " and so on, word after word" * 8
        messages.append({"role": "assistant", "content": acts.format(n=n)})
        messages.append({"role": "user", "content": observes.format(n=f"{n}{said}")})
    return messages


def in_blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("form", FORMS)
def test_an_action_and_its_observation_are_one_exchange(form: str, protocol: Protocol) -> None:
    messages = run(form) if protocol == "openai" else in_blocks(run(form))
    request = with_text_actions(read_request(messages, protocol=protocol))
    assert request.to_wire() == messages
    assert violations(request) == []
    for step in read_history(request).steps:
        (block,) = step.blocks
        assert block.kind is BlockKind.TOOL_EXCHANGE
        assert {ref.message for ref in block.parts} == {step.message, step.message + 1}
        assert step.complete


@pytest.mark.parametrize("form", [form for form in FORMS if form != "swe-agent"])
def test_it_reads_as_it_does_when_it_is_ingested(form: str) -> None:
    """The same tokens as those that labels were measured on."""
    tokenizer = ScriptedBackbone().tokenizer
    online = render(with_text_actions(read_request(run(form))), tokenizer)
    offline = render(read_request(conversation(run(form)), protocol="openai"), tokenizer)
    assert online.token_ids.tolist() == offline.token_ids.tolist()


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize("form", FORMS)
def test_pruning_removes_pairs_and_keeps_the_speakers_in_turn(form: str, protocol: Protocol) -> None:
    messages = run(form) if protocol == "openai" else in_blocks(run(form))
    decision = scripted_policy().prune(messages, format=protocol, session=None)
    assert decision.pruned
    kept = [messages.index(message) for message in decision.messages]
    assert kept == sorted(kept)
    assert len(kept) < len(messages)
    assert all((number in kept) == (number + 1 in kept) for number in range(1, len(messages), 2))
    assert [message["role"] for message in decision.messages[::2]] == ["user"] * (len(kept) // 2 + 1)


def test_a_session_finds_the_pairs_again() -> None:
    policy, messages, gone = scripted_policy(), run("react", 14), list[Any]()
    for steps in range(6, 15):
        asked = messages[: 1 + 2 * steps]
        decision = policy.prune(asked)
        assert not [message for message in gone if message in decision.messages]
        gone = [message for message in asked if message not in decision.messages]
        assert len(gone) % 2 == 0
    assert gone


PERSON = "Thanks. What does the second line do?"


@pytest.mark.parametrize(
    "messages",
    [
        [{**message, "content": PERSON} if message["role"] == "user" else message for message in run(form)]
        for form in FORMS
    ],
)
def test_what_a_person_says_is_no_observation(messages: list[dict[str, Any]]) -> None:
    request = read_request(messages)
    assert with_text_actions(request) is request


def test_requests_with_tool_calls_are_left_alone() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [
        *run("react", 3),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]
    request = read_request(messages)
    assert with_text_actions(request) is request


def test_an_observation_with_an_image_stays_and_several_actions_are_one_call() -> None:
    messages = in_blocks(run("react", 2))
    messages[2]["content"].append(
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    )
    history = read_history(with_text_actions(read_request(messages, protocol="anthropic")))
    assert [step.blocks[0].opaque for step in history.steps] == [True, False]
    twice = run("tagged", 1)
    twice[1]["content"] *= 2
    (step,) = read_history(with_text_actions(read_request(twice))).steps
    assert len(step.blocks) == 1


@pytest.mark.parametrize("value", ['{"a": NaN}', '{"a": "\\ud800"}', "[1]", "{", "[" * 5000])
def test_arguments_that_are_no_json_object_are_input(value: str) -> None:
    messages = run("react", 1)
    messages[1]["content"] = f"Action: search\nAction Input: {value}"
    asked = with_text_actions(read_request(messages))
    assert [part.arguments for part in asked.messages[1].parts] == [{"input": value}]  # type: ignore[union-attr]
