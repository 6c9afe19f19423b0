"""Formats that are known but not read, and what to export in their place, which a list of keys would not say."""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.reader import dig

_CHAT = "one object per line with the whole run's `messages` (and `tools`) is read"
_BATCH = "OpenAI batch files keep requests and responses apart; join them by custom_id to lines of "


def advice(value: Any) -> str | None:
    """Return what this is and what to export instead, where it is known."""
    if not isinstance(value, dict):
        return None
    return next((told for keys, told in _KNOWN if _has(value, keys)), None)


def _has(value: dict[str, Any], keys: tuple[str, ...]) -> bool:
    return all(dig(value, *key.split(".")) is not None for key in keys)


_KNOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    *(
        (("custom_id", other), f'{_BATCH}{{"request": ..., "response": ...}}')
        for other in ("body", "response.body", "error")
    ),
    *(
        (
            keys,
            "a CrewAI result holds what tasks gave, not what models saw; trace the crew with OpenTelemetry "
            "(OpenInference, OpenLIT) or through LiteLLM, and read those spans or logs",
        )
        for keys in (("tasks_output", "raw"), ("task_name", "task", "agent", "output"))
    ),
    (
        ("info", "data.spans"),
        "an MLflow trace; export it as OTLP (MLFLOW_ENABLE_OTLP_EXPORTER, or to_otlp) and read those spans",
    ),
    (
        ("channel_values", "channel_versions"),
        "a LangGraph checkpoint holds an agent's state, not what its model saw; export its LangSmith runs of type llm",
    ),
    (
        ("schema_version", "agent", "steps"),
        f"an ATIF trajectory; convert its steps to chat messages: {_CHAT}",
    ),
    (
        ("object", "data", "first_id"),
        "a page of items of the OpenAI API; put the items as `input` beside the stored response that they belong to",
    ),
    (
        ("thread_id", "assistant_id", "object"),
        "an object of OpenAI's Assistants API, whose threads keep no calls; " + _CHAT,
    ),
    (
        ("chat_history",),
        "a chat history whose speakers have no names, so that nobody can tell whose roles these are (AutoGen's are "
        "relative); export it with `name`, or as a chat: " + _CHAT,
    ),
    *(
        (("ts", "type", kind), "Cline's window; api_conversation_history.json beside it has what the model saw")
        for kind in ("say", "ask")
    ),
    (("chosen", "rejected"), "pairs of preferred answers are not recorded runs; " + _CHAT),
    (("prompt", "completion"), "single prompts with their completions are not runs with a history; " + _CHAT),
    (("instruction", "output"), "single instructions with their outputs are not runs with a history; " + _CHAT),
    (("type", "data.content"), "a LangChain message; convert_to_openai_messages gives chat messages: " + _CHAT),
    (
        ("lc", "kwargs"),
        "a serialized LangChain object; convert_to_openai_messages gives chat messages: " + _CHAT,
    ),
)
