"""Small documents of the formats that teams keep their runs in, written for these tests after the public documentation.

All of them tell the same run where the format can: a system text, a task, a call, its result, an answer.
"""

from __future__ import annotations

from typing import Any

from tests.offline.ingest.formats.files import as_json, as_lines, text_call

Json = dict[str, Any]

SYSTEM, TASK, ANSWER = "You fix bicycles.", "The chain squeaks.", "Oil it."
CHAT: list[Json] = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": TASK},
    {"role": "assistant", "content": None, "tool_calls": [text_call("look", {"part": "chain"}, "c1")]},
    {"role": "tool", "tool_call_id": "c1", "content": "rusty"},
    {"role": "assistant", "content": ANSWER},
]
TOOL: Json = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}

SHAREGPT: Json = {
    "id": "bike-1",
    "system": SYSTEM,
    "tools": as_json([{"name": "look", "parameters": {"type": "object"}}]).decode(),
    "conversations": [
        {"from": "human", "value": TASK},
        {"from": "function_call", "value": '{"name": "look", "arguments": {"part": "chain"}}'},
        {"from": "observation", "value": "rusty"},
        {"from": "gpt", "value": ANSWER},
    ],
}


def generation(number: int, trace: str, sent: Any, received: Any, **more: Any) -> Json:
    """A Langfuse observation of a model call."""
    return {
        "id": f"{trace}-{number}",
        "traceId": trace,
        "type": "GENERATION",
        "name": "chat",
        "startTime": f"2026-01-01T00:00:{number:02d}.000Z",
        "model": "m",
        "input": sent,
        "output": received,
        "parentObservationId": "span",
        **more,
    }


LANGFUSE_OBSERVATIONS: list[Json] = [
    {"id": "span", "traceId": "tr-1", "type": "SPAN", "startTime": "2026-01-01T00:00:00Z", "input": TASK},
    generation(1, "tr-1", CHAT[:2], CHAT[2]),
    {"id": "t", "traceId": "tr-1", "type": "TOOL", "startTime": "2026-01-01T00:00:02Z", "output": "rusty"},
    generation(3, "tr-1", {"messages": CHAT[:4], "tools": [TOOL]}, CHAT[4]),
]
LANGFUSE: Json = {
    "id": "tr-1",
    "timestamp": "2026-01-01T00:00:00Z",
    "projectId": "p",
    "sessionId": "talk-1",
    "input": TASK,
    "output": ANSWER,
    "scores": [],
    "observations": LANGFUSE_OBSERVATIONS,
}


def constructed(name: str, content: Any, **more: Any) -> Json:
    """A LangChain message as LangSmith stores it."""
    path = ["langchain", "schema", "messages", name]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, **more}}


LANGCHAIN: list[Json] = [
    constructed("SystemMessage", SYSTEM, type="system"),
    constructed("HumanMessage", TASK, type="human"),
    constructed(
        "AIMessage",
        "",
        type="ai",
        tool_calls=[{"name": "look", "args": {"part": "chain"}, "id": "c1", "type": "tool_call"}],
        invalid_tool_calls=[],
    ),
    constructed("ToolMessage", "rusty", type="tool", tool_call_id="c1"),
    constructed("AIMessage", ANSWER, type="ai", tool_calls=[]),
]


def model_run(number: int, sent: list[Json], received: Json) -> Json:
    """A LangSmith run of type llm."""
    return {
        "id": f"run-{number}",
        "name": "ChatModel",
        "run_type": "llm",
        "trace_id": "root-1",
        "parent_run_id": "root-1",
        "dotted_order": f"20260101T00000{number}Zroot-1",
        "start_time": f"2026-01-01T00:00:0{number}",
        "inputs": {"messages": [sent]},
        "outputs": {"generations": [[{"text": "", "type": "ChatGeneration", "message": received}]]},
        "extra": {"invocation_params": {"tools": [TOOL]}, "metadata": {"thread_id": "thread-1"}},
    }


LANGSMITH: list[Json] = [
    {
        "id": "root-1",
        "run_type": "chain",
        "trace_id": "root-1",
        "parent_run_id": None,
        "dotted_order": "20260101T000000Zroot-1",
        "inputs": {"input": TASK},
        "outputs": {"output": ANSWER},
    },
    model_run(1, LANGCHAIN[:2], LANGCHAIN[2]),
    model_run(2, LANGCHAIN[:4], LANGCHAIN[4]),
]


def payload(number: int, sent: list[Json], received: Json, trace: str = "lite-1") -> Json:
    """A call as LiteLLM's StandardLoggingPayload has it."""
    return {
        "id": f"chatcmpl-{number}",
        "trace_id": trace,
        "call_type": "acompletion",
        "status": "success",
        "model": "m",
        "startTime": 1_767_225_600.0 + number,
        "endTime": 1_767_225_601.0 + number,
        "messages": sent,
        "response": {"id": f"chatcmpl-{number}", "object": "chat.completion", "choices": [{"message": received}]},
        "model_parameters": {"tools": [TOOL], "temperature": 0},
        "metadata": {"user_api_key_hash": "x"},
    }


LITELLM: list[Json] = [payload(1, CHAT[:2], CHAT[2]), payload(2, CHAT[:4], CHAT[4])]
REQUEST_RESPONSE: list[Json] = [
    {
        "request": {"model": "m", "messages": CHAT[:length], "tools": [TOOL]},
        "response": {"choices": [{"message": CHAT[length]}]},
    }
    for length in (2, 4)
]


def _input_text(role: str, text: str) -> Json:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


RESPONSES: list[Json] = [
    {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "instructions": SYSTEM,
        "previous_response_id": None,
        "input": [_input_text("user", TASK)],
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"part":"chain"}'},
        ],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    },
    {
        "id": "resp_2",
        "object": "response",
        "status": "completed",
        "instructions": SYSTEM,
        "previous_response_id": "resp_1",
        "input": [{"type": "function_call_output", "call_id": "c1", "output": "rusty"}],
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
            }
        ],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    },
]
CONTENTS: list[Json] = [
    {"role": "user", "parts": [{"text": TASK}]},
    {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"part": "chain"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "rusty"}}}]},
    {"role": "model", "parts": [{"text": ANSWER}]},
]
GEMINI: Json = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": CONTENTS,
    "tools": [{"functionDeclarations": [{"name": "look", "description": "Looks.", "parameters": {"type": "object"}}]}],
}
VERCEL_V4: list[Json] = [
    {"id": "u1", "role": "user", "content": TASK},
    {
        "id": "a1",
        "role": "assistant",
        "content": ANSWER,
        "toolInvocations": [
            {"state": "result", "toolCallId": "c1", "toolName": "look", "args": {"part": "chain"}, "result": "rusty"}
        ],
    },
]
VERCEL_V5: list[Json] = [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": TASK}]},
    {
        "id": "a1",
        "role": "assistant",
        "metadata": {},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "state": "done"},
            {
                "type": "tool-look",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"part": "chain"},
                "output": "rusty",
            },
            {"type": "step-start"},
            {"type": "text", "text": ANSWER, "state": "done"},
        ],
    },
]
AUTOGEN_04: list[Json] = [
    {"source": "user", "models_usage": None, "metadata": {}, "content": TASK, "type": "TextMessage"},
    {
        "source": "mechanic",
        "models_usage": {"prompt_tokens": 1, "completion_tokens": 1},
        "content": [{"id": "c1", "name": "look", "arguments": '{"part": "chain"}'}],
        "type": "ToolCallRequestEvent",
    },
    {
        "source": "mechanic",
        "content": [{"content": "rusty", "name": "look", "call_id": "c1", "is_error": False}],
        "type": "ToolCallExecutionEvent",
    },
    {"source": "mechanic", "content": "rusty", "type": "ToolCallSummaryMessage"},
    {"source": "user", "content": "So?", "type": "TextMessage"},
    {"source": "mechanic", "content": ANSWER, "type": "TextMessage"},
]
AG2: list[Json] = [
    {"content": TASK, "role": "assistant", "name": "user_proxy"},
    {
        "content": "",
        "tool_calls": [text_call("look", {"part": "chain"}, "c1"), text_call("look", {"part": "bell"}, "c2")],
        "role": "assistant",
        "name": "mechanic",
    },
    {
        "content": "rusty\n\nloud",
        "tool_responses": [
            {"tool_call_id": "c2", "role": "tool", "content": "loud"},
            {"tool_call_id": "c1", "role": "tool", "content": "rusty"},
        ],
        "role": "tool",
        "name": "user_proxy",
    },
    {"content": ANSWER, "role": "user", "name": "mechanic"},
]
SMOLAGENTS: list[Json] = [
    {"task": TASK, "task_images": None},
    {
        "step_number": 1,
        "timing": {"start_time": 1.0, "end_time": 2.0},
        "model_input_messages": [
            {"role": "system", "content": [{"type": "text", "text": SYSTEM}]},
            {"role": "user", "content": [{"type": "text", "text": f"New task:\n{TASK}"}]},
        ],
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "python_interpreter", "arguments": "look()"}}
        ],
        "error": None,
        "model_output": "Thought: I look.\n<code>\nlook()\n</code>",
        "code_action": "look()",
        "observations": "Execution logs:\nrusty",
        "action_output": None,
        "is_final_answer": False,
    },
    {
        "step_number": 2,
        "timing": {"start_time": 3.0, "end_time": 4.0},
        "model_input_messages": None,
        "tool_calls": [
            {"id": "call_2", "type": "function", "function": {"name": "final_answer", "arguments": {"answer": ANSWER}}}
        ],
        "error": None,
        "model_output": "",
        "code_action": None,
        "observations": None,
        "action_output": ANSWER,
        "is_final_answer": True,
    },
]
PYDANTIC_AI: list[Json] = [
    {
        "parts": [
            {"content": SYSTEM, "timestamp": "t", "part_kind": "system-prompt"},
            {"content": TASK, "timestamp": "t", "part_kind": "user-prompt"},
        ],
        "instructions": None,
        "kind": "request",
    },
    {
        "parts": [
            {"content": "hm", "part_kind": "thinking"},
            {"tool_name": "look", "args": {"part": "chain"}, "tool_call_id": "c1", "part_kind": "tool-call"},
        ],
        "model_name": "m",
        "kind": "response",
    },
    {
        "parts": [{"tool_name": "look", "content": "rusty", "tool_call_id": "c1", "part_kind": "tool-return"}],
        "kind": "request",
    },
    {"parts": [{"content": ANSWER, "part_kind": "text"}], "kind": "response"},
]
GEMINI_CLI_HEAD: Json = {"sessionId": "cli-1", "projectHash": "h", "startTime": "t", "lastUpdated": "t"}
GEMINI_CLI_MESSAGES: list[Json] = [
    {"id": "m1", "timestamp": "t", "type": "user", "content": [{"text": TASK}]},
    {
        "id": "m2",
        "timestamp": "t",
        "type": "gemini",
        "content": "I look.",
        "thoughts": [{"subject": "Chain", "description": "It may be dry.", "timestamp": "t"}],
        "toolCalls": [
            {
                "id": "c1",
                "name": "look",
                "args": {"part": "chain"},
                "result": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": "rusty"}}}],
                "status": "success",
                "timestamp": "t",
            }
        ],
        "model": "m",
    },
    {"id": "m3", "timestamp": "t", "type": "gemini", "content": ANSWER},
]
CONVERSE: Json = {
    "system": [{"text": SYSTEM}],
    "messages": [
        {"role": "user", "content": [{"text": TASK}]},
        {
            "role": "assistant",
            "content": [
                {"text": "I look."},
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"part": "chain"}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rusty"}], "status": "success"}}],
        },
    ],
    "toolConfig": {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]},
    "output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}},
}

TEAM_DOCUMENTS: dict[str, tuple[str, bytes, list[Any]]] = {
    "sharegpt": ("sharegpt", as_lines([SHAREGPT]), [SHAREGPT]),
    "langfuse_trace": ("langfuse", as_json(LANGFUSE), [LANGFUSE]),
    "langfuse_observations": ("langfuse", as_lines(LANGFUSE_OBSERVATIONS), LANGFUSE_OBSERVATIONS),
    "langsmith": ("langsmith", as_lines(LANGSMITH), LANGSMITH),
    "litellm": ("litellm", as_lines(LITELLM), LITELLM),
    "request_response": ("request_response", as_lines(REQUEST_RESPONSE), REQUEST_RESPONSE),
    "openai_responses": ("openai_responses", as_lines(RESPONSES), RESPONSES),
    "gemini": ("gemini", as_json(GEMINI), [GEMINI]),
    "gemini_contents": ("gemini_contents", as_json(CONTENTS), CONTENTS),
    "vercel_v4": ("vercel_ui", as_json(VERCEL_V4), [VERCEL_V4]),
    "vercel_object": ("vercel_ui", as_json({"id": "chat", "messages": VERCEL_V5}), [{"messages": VERCEL_V5}]),
    "vercel_v5": ("vercel_ui_messages", as_json(VERCEL_V5), VERCEL_V5),
    "autogen_04": ("autogen_messages", as_json(AUTOGEN_04), AUTOGEN_04),
    "autogen_result": (
        "autogen",
        as_json({"messages": AUTOGEN_04, "stop_reason": None}),
        [{"messages": AUTOGEN_04, "stop_reason": None}],
    ),
    "ag2": ("autogen", as_json(AG2), [AG2]),
    "smolagents": ("smolagents", as_json({"steps": SMOLAGENTS, "output": ANSWER}), [{"steps": SMOLAGENTS}]),
    "smolagents_steps": ("smolagents_steps", as_json(SMOLAGENTS), SMOLAGENTS),
    "pydantic_ai": ("pydantic_ai", as_json({"messages": PYDANTIC_AI}), [{"messages": PYDANTIC_AI}]),
    "pydantic_ai_messages": ("pydantic_ai_messages", as_json(PYDANTIC_AI), PYDANTIC_AI),
    "gemini_cli": (
        "gemini_cli",
        as_json({**GEMINI_CLI_HEAD, "messages": GEMINI_CLI_MESSAGES}),
        [{**GEMINI_CLI_HEAD, "messages": GEMINI_CLI_MESSAGES}],
    ),
    "gemini_cli_lines": (
        "gemini_cli",
        as_lines([GEMINI_CLI_HEAD, *GEMINI_CLI_MESSAGES]),
        [GEMINI_CLI_HEAD, GEMINI_CLI_MESSAGES[1]],
    ),
    "bedrock_converse": ("bedrock_converse", as_json(CONVERSE), [CONVERSE]),
}
"""By name the reader, the file, and the records that the reader is shown."""
