"""A small document of every format, written for these tests. What each holds is said where it is checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.offline.ingest.formats.benchmark_miniatures import BENCHMARK_DOCUMENTS
from tests.offline.ingest.formats.files import as_json, as_lines, text_call
from tests.offline.ingest.formats.team_miniatures import TEAM_DOCUMENTS

Json = dict[str, Any]


class Miniature(NamedTuple):
    """One file."""

    reader: str
    """The reader that must recognise it."""
    data: bytes
    records: list[Any]
    """What the file holds, as the readers are shown it."""
    runs: int = 1


CHAT: list[Json] = [
    {"role": "system", "content": "You fix bicycles."},
    {"role": "user", "content": "The chain squeaks."},
    {"role": "assistant", "content": None, "tool_calls": [text_call("look", {"part": "chain"}, "c1")]},
    {"role": "tool", "tool_call_id": "c1", "content": "rusty"},
    {"role": "assistant", "content": "Oil it."},
]
TAU_BENCH = [
    {"task_id": 7, "trial": trial, "reward": float(trial), "info": {"task": {"instruction": "x"}}, "traj": CHAT}
    for trial in (0, 1)
]
TAU2: Json = {
    "info": {"environment_info": {"domain_name": "bikes", "policy": "Be kind.", "tool_defs": None}},
    "tasks": [{"id": "3"}],
    "simulations": [
        {
            "id": "5b0f3f4e-sim",
            "task_id": "3",
            "trial": 0,
            "reward_info": {"reward": 1.0},
            "messages": [
                {"role": "assistant", "content": "Hello!", "tool_calls": None},
                {"role": "user", "content": "My phone is off.", "tool_calls": None},
                {
                    "role": "user",
                    "content": None,
                    "tool_calls": [{"id": "u1", "name": "switch_on", "arguments": {}, "requestor": "user"}],
                },
                {"role": "tool", "id": "u1", "content": "on", "requestor": "user"},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning": "Two things to check.",
                    "tool_calls": [
                        {"id": "a1", "name": "find", "arguments": {"user": "Ann"}, "requestor": "assistant"},
                        {"id": "a2", "name": "bill", "arguments": {"month": 5}, "requestor": "assistant"},
                    ],
                },
                {"role": "tool", "id": "a1", "content": "found", "requestor": "assistant"},
                {"role": "tool", "id": "a2", "content": "12.50", "requestor": "assistant"},
                {"role": "assistant", "content": "You owe 12.50.", "tool_calls": None},
            ],
        }
    ],
}
TAU2_SOLO: Json = TAU2 | {
    "tasks": [
        {"id": "3", "ticket": "The customer's bike has no light.  Find out why."},
        {"id": "3[PERSONA:Easy]", "ticket": "The customer's bike has no light. Find out why."},
    ],
    "simulations": [
        TAU2["simulations"][0] | {"messages": TAU2["simulations"][0]["messages"][4:], "id": name, "task_id": task}
        for name, task in (("5b0f3f4e-solo", "3"), ("5b0f3f4e-easy", "3[PERSONA:Easy]"))
    ],
}
"""Two tasks with one ticket, worked on by an agent alone."""
SWE_AGENT_TEXT: Json = {
    "environment": "swe_main",
    "trajectory": [],
    "info": {"exit_status": "submitted"},
    "history": [
        {"role": "system", "content": "You use a shell.", "agent": "primary"},
        {"role": "user", "content": "Demo task", "agent": "primary", "is_demo": True},
        {
            "role": "assistant",
            "content": "Demo thought\n```\nls\n```",
            "thought": "Demo thought\n",
            "action": "ls\n",
            "is_demo": True,
        },
        {"role": "user", "content": "demo.py", "is_demo": True},
        {
            "role": "assistant",
            "content": "Done\n```\nsubmit\n```",
            "thought": "Done",
            "action": "submit",
            "is_demo": True,
        },
        {"role": "user", "content": "Fix the bug in wheel.py", "agent": "primary"},
        {"role": "assistant", "content": "Look\n```\ncat wheel.py\n```", "thought": "Look", "action": "cat wheel.py\n"},
        {"role": "user", "content": "spokes = 0"},
        {"role": "assistant", "content": "Fixed\n```\nsubmit\n```", "thought": "Fixed", "action": "submit\n"},
    ],
}
SWE_AGENT_CALLS: Json = {
    "history": [
        {"role": "system", "content": "You use tools.", "message_type": "system_prompt"},
        {"role": "user", "content": [{"type": "text", "text": "Fix it"}], "message_type": "observation"},
        {
            "role": "assistant",
            "content": "I open it.",
            "thought": "I open it.",
            "action": "open wheel.py",
            "tool_calls": [text_call("open", {"path": "wheel.py"}, "s1")],
            "message_type": "action",
        },
        {"role": "tool", "content": "spokes = 0", "tool_call_ids": ["s1"], "message_type": "observation"},
        {"role": "assistant", "content": "Done.", "thought": "Done.", "action": "", "message_type": "action"},
    ],
    "replay_config": '{"problem_statement": {"id": "bikes__wheel-12"}}',
}
MINI_TEXT: Json = {
    "info": {"exit_status": "Submitted", "submission": "diff", "mini_version": "1.9.0"},
    "messages": [
        {"role": "system", "content": "One bash block per answer."},
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\nwheel.py\n</output>"},
        {"role": "assistant", "content": "No command here."},
        {"role": "user", "content": "Please give exactly one command."},
        {"role": "assistant", "content": "Done\n\n```bash\nsubmit\n```"},
        {"role": "user", "content": "diff"},
    ],
    "trajectory_format": "mini-swe-agent-1",
    "instance_id": "bikes__wheel-13",
}
MINI_CALLS: Json = {
    "info": {"mini_version": "2.0.0"},
    "messages": [
        {"role": "system", "content": "Use bash."},
        {"role": "user", "content": "Fix it"},
        {
            "role": "assistant",
            "content": "look",
            "tool_calls": [{"index": 0, **text_call("bash", {"command": "ls"}, "m1")}],
            "extra": {"actions": []},
        },
        {"role": "tool", "tool_call_id": "m1", "content": "wheel.py", "extra": {"returncode": 0}},
        {"role": "assistant", "content": "", "tool_calls": [text_call("bash", {"command": "submit"}, "m2")]},
        {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted"}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}
ANTHROPIC: Json = {
    "system": "You fix bicycles.",
    "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "The chain squeaks."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look first.", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"part": "chain"}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {"part": "wheel"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "rusty"},
                {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "round"}]},
                {"type": "text", "text": "Hurry."},
            ],
        },
        {"role": "assistant", "content": "Oil it."},
    ],
}
MOATLESS: Json = {
    "metadata": {"instance_id": "bikes__wheel-14"},
    "agent": {"system_prompt": "You search code."},
    "nodes": [
        {"node_id": 0, "message": "task"},
        {
            "node_id": 1,
            "parent_id": 0,
            "completions": {
                "build_action": {
                    "input": [{"role": "user", "content": "Find the wheel"}],
                    "response": {
                        "content": [{"type": "tool_use", "id": "x1", "name": "Abandoned", "input": {}}],
                        "role": "assistant",
                    },
                }
            },
        },
        {
            "node_id": 2,
            "parent_id": 0,
            "completions": {
                "build_action": {
                    "input": [
                        {"role": "user", "content": "Find the wheel"},
                        {
                            "role": "assistant",
                            "content": [{"type": "tool_use", "id": "c1", "name": "Find", "input": {"q": "wheel"}}],
                        },
                        {
                            "role": "user",
                            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "wheel.py"}],
                        },
                    ],
                    "response": {
                        "content": [
                            {"type": "text", "text": "There it is."},
                            {"type": "tool_use", "id": "c2", "name": "Finish", "input": {}},
                        ],
                        "role": "assistant",
                    },
                }
            },
        },
        {"node_id": 3, "parent_id": 2, "completions": {}},
    ],
}


def _response(response: str, *calls: Json) -> Json:
    message = {"role": "assistant", "content": "I act.", "tool_calls": list(calls)}
    return {"id": response, "choices": [{"message": message}]}


_TWO = _response("r1", text_call("execute_bash", {"command": "ls"}, "o1"), text_call("think", {"thought": "hm"}, "o2"))
_THREE = _response("r2", text_call("finish", {}, "o3"))
OPENHANDS_V0: Json = {
    "instance_id": "bikes__wheel-15",
    "instruction": "Fix it",
    "metadata": {},
    "history": [
        {
            "id": 0,
            "source": "agent",
            "action": "system",
            "args": {"content": "You are OpenHands.", "tools": [{"a": 1}]},
        },
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it", "image_urls": None}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "Fix it"}},
        {"id": 3, "source": "environment", "observation": "recall", "content": "Added context", "cause": 2},
        {
            "id": 4,
            "source": "agent",
            "action": "run",
            "args": {"command": "ls", "thought": "I act."},
            "tool_call_metadata": {"tool_call_id": "o1", "function_name": "execute_bash", "model_response": _TWO},
        },
        {
            "id": 5,
            "source": "agent",
            "action": "think",
            "args": {"thought": "hm"},
            "tool_call_metadata": {"tool_call_id": "o2", "function_name": "think", "model_response": _TWO},
        },
        {
            "id": 6,
            "source": "agent",
            "observation": "run",
            "content": "wheel.py",
            "cause": 4,
            "tool_call_metadata": {"tool_call_id": "o1", "function_name": "execute_bash", "model_response": _TWO},
        },
        {
            "id": 7,
            "source": "agent",
            "observation": "think",
            "content": "logged",
            "cause": 5,
            "tool_call_metadata": {"tool_call_id": "o2", "function_name": "think", "model_response": _TWO},
        },
        {"id": 8, "source": "agent", "observation": "error", "content": "That tool does not exist."},
        {
            "id": 9,
            "source": "agent",
            "action": "finish",
            "args": {},
            "tool_call_metadata": {"tool_call_id": "o3", "function_name": "finish", "model_response": _THREE},
        },
    ],
}
OPENHANDS_V0_EVENTS: list[Json] = [
    {"id": 0, "timestamp": "t0", "source": "user", "action": "message", "args": {"content": "Fix it"}},
    {
        "id": 1,
        "timestamp": "t1",
        "source": "agent",
        "action": "run",
        "args": {"command": "ls", "thought": "Look.", "hidden": False},
    },
    {"id": 2, "timestamp": "t2", "source": "agent", "observation": "run", "content": "wheel.py", "cause": 1},
    {"id": 3, "timestamp": "t3", "source": "agent", "action": "message", "args": {"content": "Done."}},
]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


OPENHANDS_SDK: list[Json] = [
    {
        "id": "e0",
        "timestamp": "2026-01-01T00:00:00",
        "source": "agent",
        "kind": "SystemPromptEvent",
        "system_prompt": _text("You are OpenHands."),
        "tools": [{"type": "function", "function": {"name": "terminal"}}],
    },
    {
        "id": "e1",
        "timestamp": "2026-01-01T00:00:01",
        "source": "user",
        "kind": "MessageEvent",
        "llm_message": {"role": "user", "content": [_text("Fix it")]},
        "extended_content": [_text("Remember the rules.")],
    },
    {
        "id": "e2",
        "timestamp": "2026-01-01T00:00:02",
        "source": "agent",
        "kind": "ActionEvent",
        "thought": [_text("Look at both.")],
        "reasoning_content": "hm",
        "tool_name": "terminal",
        "tool_call_id": "k1",
        "tool_call": {"id": "k1", "name": "terminal", "arguments": '{"command":"ls"}', "origin": "completion"},
        "llm_response_id": "resp1",
    },
    {
        "id": "e3",
        "timestamp": "2026-01-01T00:00:03",
        "source": "agent",
        "kind": "ActionEvent",
        "thought": [],
        "tool_name": "terminal",
        "tool_call_id": "k2",
        "tool_call": {"id": "k2", "name": "terminal", "arguments": '{"command":"pwd"}', "origin": "completion"},
        "llm_response_id": "resp1",
    },
    {
        "id": "e4",
        "timestamp": "2026-01-01T00:00:04",
        "source": "environment",
        "kind": "ObservationEvent",
        "tool_name": "terminal",
        "tool_call_id": "k1",
        "action_id": "e2",
        "observation": {"kind": "TerminalObservation", "content": [_text("wheel.py")]},
    },
    {
        "id": "e5",
        "timestamp": "2026-01-01T00:00:05",
        "source": "environment",
        "kind": "UserRejectObservation",
        "tool_name": "terminal",
        "tool_call_id": "k2",
        "action_id": "e3",
        "rejection_reason": "no",
    },
    {"id": "e6", "timestamp": "2026-01-01T00:00:06", "source": "user", "kind": "PauseEvent"},
    {
        "id": "e7",
        "timestamp": "2026-01-01T00:00:07",
        "source": "agent",
        "kind": "MessageEvent",
        "llm_message": {"role": "assistant", "content": [_text("Done.")]},
    },
]


def _rollout(kind: str, payload: Json) -> Json:
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def _item(**payload: Any) -> Json:
    return _rollout("response_item", payload)


CODEX: list[Json] = [
    _rollout("session_meta", {"id": "0199-codex", "cwd": "/w", "base_instructions": {"text": "You are Codex."}}),
    _item(type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>x"}]),
    _item(type="message", role="user", content=[{"type": "input_text", "text": "Fix it"}]),
    _rollout("event_msg", {"type": "user_message", "message": "Fix it"}),
    _rollout("turn_context", {"model": "gpt"}),
    _item(type="reasoning", summary=[{"type": "summary_text", "text": "Look first."}], encrypted_content="x"),
    _item(type="message", role="assistant", content=[{"type": "output_text", "text": "I look."}]),
    _item(type="function_call", name="shell", arguments='{"command":["ls"]}', call_id="f1"),
    _item(type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="f2", status="completed"),
    _item(type="function_call_output", call_id="f1", output="wheel.py"),
    _item(type="custom_tool_call_output", call_id="f2", output="ok"),
    _item(type="web_search_call", status="completed", action={"type": "search", "query": "wheel"}),
    _item(type="message", role="assistant", content=[{"type": "output_text", "text": "Done."}]),
]


def _line(kind: str, uuid: str, parent: str | None, message: Json, **more: Any) -> Json:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "sess-1", "message": message, **more}


def _claude(message_id: str, *blocks: Json) -> Json:
    return {"id": message_id, "role": "assistant", "type": "message", "content": list(blocks)}


CLAUDE_CODE: list[Json] = [
    {"type": "summary", "summary": "Bicycles", "leafUuid": "l0"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    _line("user", "l1", None, {"role": "user", "content": "Fix it"}),
    _line("assistant", "l2", "l1", _claude("msg_1", {"type": "thinking", "thinking": "hm", "signature": "s"})),
    _line(
        "assistant", "l3", "l2", _claude("msg_1", {"type": "tool_use", "id": "q1", "name": "Read", "input": {"f": 1}})
    ),
    _line(
        "user",
        "l4",
        "l3",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "q1", "content": "spokes"}]},
    ),
    _line(
        "assistant", "l5", "l3", _claude("msg_1", {"type": "tool_use", "id": "q2", "name": "Bash", "input": {"c": 2}})
    ),
    {"type": "progress", "uuid": "p", "sessionId": "sess-1"},
    _line(
        "user",
        "l6",
        "l5",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "q2", "content": [_text("round")]}]},
    ),
    _line("assistant", "l7", "l6", _claude("msg_2", _text("API Error")), isApiErrorMessage=True),
    _line("assistant", "l8", "l7", _claude("msg_3", _text("Done."))),
]


def _entry(kind: str, entry_id: str, parent: str | None, **more: Any) -> Json:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": "2026-01-01T00:00:00Z", **more}


def _pi_text(role: str, *content: Json, **more: Any) -> Json:
    return {"role": role, "content": list(content), **more}


PI: list[Json] = [
    {"type": "session", "version": 3, "id": "pi-1", "timestamp": "t", "cwd": "/w"},
    _entry("message", "a", None, message=_pi_text("user", _text("Fix it"))),
    _entry("message", "x", "a", message=_pi_text("assistant", _text("An abandoned branch."))),
    _entry("model_change", "b", "a", provider="p", modelId="m"),
    _entry(
        "message",
        "c",
        "b",
        message=_pi_text(
            "assistant",
            {"type": "thinking", "thinking": "hm"},
            _text("I look."),
            {"type": "toolCall", "id": "w1", "name": "read", "arguments": {"path": "wheel.py"}},
            {"type": "toolCall", "id": "w2", "name": "bash", "arguments": {"command": "ls"}},
        ),
    ),
    _entry(
        "message",
        "d",
        "c",
        message=_pi_text("toolResult", _text("spokes"), toolCallId="w1", toolName="read", isError=False),
    ),
    _entry("message", "e", "d", message={"role": "bashExecution", "command": "make", "output": "ok", "exitCode": 0}),
    _entry("message", "f", "e", message=_pi_text("assistant", stopReason="aborted")),
    _entry("message", "g", "f", message=_pi_text("assistant", _text("Done."))),
]
INSPECT: Json = {
    "version": 2,
    "status": "success",
    "eval": {"eval_id": "ev1", "task": "bikes", "model": "m"},
    "plan": {},
    "samples": [
        {
            "id": 5,
            "epoch": 1,
            "uuid": "sample-uuid",
            "input": "Fix it",
            "target": "",
            "scores": {"includes": {"value": "C"}},
            "attachments": {"abc": "a long task"},
            "messages": [
                {"role": "user", "content": "attachment://abc", "source": "input"},
                {
                    "role": "assistant",
                    "content": [{"type": "reasoning", "reasoning": "hm"}, _text("I look.")],
                    "tool_calls": [{"id": "i1", "function": "look", "arguments": {"part": "chain"}}],
                },
                {"role": "tool", "tool_call_id": "i1", "function": "look", "content": "", "error": {"message": "no"}},
                {"role": "assistant", "content": "Done."},
            ],
        }
    ],
}


def _attributes(prefix: str, messages: list[Json]) -> Json:
    flat: Json = {}
    for number, message in enumerate(messages):
        base = f"{prefix}.{number}.message"
        flat[f"{base}.role"] = message["role"]
        if message.get("content") is not None:
            flat[f"{base}.content"] = message["content"]
        if "tool_call_id" in message:
            flat[f"{base}.tool_call_id"] = message["tool_call_id"]
        for place, call in enumerate(message.get("tool_calls", [])):
            inner = f"{base}.tool_calls.{place}.tool_call"
            flat[f"{inner}.id"] = call["id"]
            flat[f"{inner}.function.name"] = call["function"]["name"]
            flat[f"{inner}.function.arguments"] = call["function"]["arguments"]
    return flat


def span(trace: str, start: int, sent: list[Json], received: list[Json]) -> Json:
    """A flat OpenInference span of a model call."""
    return {
        "name": "llm",
        "context": {"trace_id": trace, "span_id": f"s{start}"},
        "start_time": f"2026-01-01T00:00:{start:02d}",
        "attributes": {
            "openinference.span.kind": "LLM",
            **_attributes("llm.input_messages", sent),
            **_attributes("llm.output_messages", received),
        },
    }


OPEN_INFERENCE: list[Json] = [
    {"name": "agent", "context": {"trace_id": "0xabc"}, "attributes": {"openinference.span.kind": "AGENT"}},
    span("0xabc", 1, CHAT[:2], CHAT[2:3]),
    span("0xabc", 2, CHAT[:4], CHAT[4:]),
]
GEN_AI: Json = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "0xdef",
                            "spanId": "1",
                            "name": "chat m",
                            "startTimeUnixNano": "1",
                            "attributes": [
                                {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                                {
                                    "key": "gen_ai.system_instructions",
                                    "value": {"stringValue": '[{"type":"text","content":"You fix bicycles."}]'},
                                },
                                {
                                    "key": "gen_ai.input.messages",
                                    "value": {
                                        "stringValue": as_json(
                                            [
                                                {"role": "user", "parts": [{"type": "text", "content": "It squeaks."}]},
                                                {
                                                    "role": "assistant",
                                                    "parts": [
                                                        {"type": "reasoning", "content": "hm"},
                                                        {
                                                            "type": "tool_call",
                                                            "id": "g1",
                                                            "name": "look",
                                                            "arguments": {},
                                                        },
                                                    ],
                                                },
                                                {
                                                    "role": "tool",
                                                    "parts": [
                                                        {"type": "tool_call_response", "id": "g1", "response": "rusty"}
                                                    ],
                                                },
                                            ]
                                        ).decode()
                                    },
                                },
                                {
                                    "key": "gen_ai.output.messages",
                                    "value": {
                                        "stringValue": '[{"role":"assistant","parts":[{"type":"text",'
                                        '"content":"Oil it."}],"finish_reason":"stop"}]'
                                    },
                                },
                            ],
                        }
                    ]
                }
            ]
        }
    ]
}
SANDBOX: Json = {
    "drsr_sandbox": 1,
    "id": "sandbox-1-0000",
    "task": "code/chain/1",
    "domain": "code",
    "reward": 1.0,
    "request": {"messages": CHAT, "tools": [{"type": "function", "function": {"name": "look"}}]},
}

AGENTDOJO: Json = {
    "suite_name": "office",
    "pipeline_name": "some-model",
    "user_task_id": "user_task_3",
    "injection_task_id": "injection_task_1",
    "attack_type": "important_instructions",
    "injections": {},
    "messages": [
        {"role": "system", "content": [{"type": "text", "content": None}]},
        {"role": "user", "content": [{"type": "text", "content": "When is the fair?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": "find_day", "args": {"name": "fair"}, "id": ""},
                {"function": "find_place", "args": {"name": "fair"}, "id": None},
            ],
        },
        {"role": "tool", "content": "May 4", "tool_call_id": "", "tool_call": {}, "error": None},
        {"role": "tool", "content": "", "tool_call_id": None, "tool_call": {}, "error": "ValueError: no such place"},
        {"role": "assistant", "content": "On May 4.", "tool_calls": None},
    ],
    "utility": True,
    "security": False,
}
INTERCODE: Json = {
    "4": {
        "environment": "ic_bash",
        "dataset": "./data/nl2bash/nl2bash_fs_2.json",
        "task_id": 4,
        "query": "Count the lines of a.txt.",
        "turn_history": {"actions": ["ls", "wc -l a.txt"], "observations": ["a.txt", "3 a.txt"], "rewards": [0.0, 1.0]},
        "summary": {"max_reward": 1.0},
    },
    "5": {
        "environment": "ic_sql",
        "dataset": "./data/spider/dev.json",
        "task_id": 5,
        "query": "How many?",
        "turn_history": {"actions": ["SELECT 1"], "observations": ["[(1,)]"], "rewards": [1.0]},
        "summary": {"max_reward": 1.0},
    },
}
AUTOPENBENCH: Json = {
    "steps": [
        {"thought": "Thought: ", "action": "Action: str()", "observation": "Observation: Find the door."},
        {
            "thought": "Thought: I look around.",
            "action": "Action: ExecuteBash(machine='a' cmd='ls')",
            "observation": "Observation: door.txt",
            "summary": "Summary: looked",
        },
        {
            "thought": "Thought: ",
            "action": "Action: FinalAnswer(flag='x')",
            "observation": "Observation: right",
        },
    ]
}

MINIATURES: dict[str, Miniature] = {
    "AgentDojo": Miniature("agentdojo", as_json(AGENTDOJO), [AGENTDOJO]),
    "InterCode": Miniature("intercode", as_json(INTERCODE), [INTERCODE], runs=2),
    "AutoPenBench": Miniature("autopenbench", as_json(AUTOPENBENCH), [AUTOPENBENCH]),
    "openai_list": Miniature("openai_chat", as_json(CHAT), [CHAT]),
    "openai_object": Miniature("openai_chat", as_json({"messages": CHAT}), [{"messages": CHAT}]),
    "openai_lines": Miniature("openai_chat", as_lines([{"messages": CHAT}] * 3), [{"messages": CHAT}] * 3, 3),
    "openai_lists": Miniature("openai_chat", as_lines([CHAT] * 2), [CHAT] * 2, 2),
    "openai_message_lines": Miniature("openai_chat", as_lines(CHAT), [CHAT]),
    "tau_bench": Miniature("tau_bench", as_json(TAU_BENCH), TAU_BENCH, 2),
    "tau2_bench": Miniature("tau2_bench", as_json(TAU2), [TAU2]),
    "tau2_solo": Miniature("tau2_solo", as_json(TAU2_SOLO), [TAU2_SOLO], 2),
    "swe_agent_text": Miniature("swe_agent", as_json(SWE_AGENT_TEXT), [SWE_AGENT_TEXT]),
    "swe_agent_calls": Miniature("swe_agent", as_json(SWE_AGENT_CALLS), [SWE_AGENT_CALLS]),
    "mini_text": Miniature("mini_swe_agent", as_json(MINI_TEXT), [MINI_TEXT]),
    "mini_calls": Miniature("mini_swe_agent", as_json(MINI_CALLS), [MINI_CALLS]),
    "anthropic": Miniature("anthropic_messages", as_json(ANTHROPIC), [ANTHROPIC]),
    "anthropic_list": Miniature("anthropic_messages", as_json(ANTHROPIC["messages"]), [ANTHROPIC["messages"]]),
    "moatless": Miniature("moatless", as_json(MOATLESS), [MOATLESS]),
    "openhands_v0": Miniature("openhands_v0", as_lines([OPENHANDS_V0]), [OPENHANDS_V0]),
    "openhands_v0_events": Miniature("openhands_v0_events", as_json(OPENHANDS_V0_EVENTS), OPENHANDS_V0_EVENTS),
    "openhands_sdk": Miniature("openhands_sdk", as_lines(OPENHANDS_SDK), OPENHANDS_SDK),
    "codex": Miniature("codex", as_lines(CODEX), CODEX),
    "claude_code": Miniature("claude_code", as_lines(CLAUDE_CODE), CLAUDE_CODE),
    "pi": Miniature("pi", as_lines(PI), PI),
    "inspect": Miniature("inspect_log", as_json(INSPECT), [INSPECT]),
    "inspect_sample": Miniature("inspect_log", as_json(INSPECT["samples"][0]), INSPECT["samples"]),
    "open_inference": Miniature("otel", as_lines(OPEN_INFERENCE), OPEN_INFERENCE),
    "gen_ai": Miniature("otel", as_json(GEN_AI), [GEN_AI]),
    "sandbox": Miniature("sandbox", as_lines([SANDBOX]), [SANDBOX]),
}
MINIATURES |= {name: Miniature(*document) for name, document in TEAM_DOCUMENTS.items()}
MINIATURES |= {name: Miniature(*document) for name, document in BENCHMARK_DOCUMENTS.items()}
