"""Items of OpenAI's Responses form, put together into chat messages.

A model's turn is logged as several items: reasoning, a message, calls. They belong together until an output or another
speaker follows. Calls that the server answers itself (web search, image generation) have no call id and no recorded
result; they are left out. Encrypted reasoning has no text and leaves nothing.
"""

from __future__ import annotations

from typing import Any

from drsr.offline.ingest.formats.chat_form import Chat, joined, read_content, text_of, tool_call
from drsr.offline.ingest.trajectories import Json

ITEM_TYPES = frozenset(
    {
        *("reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
        *("local_shell_call", "local_shell_call_output", "web_search_call", "tool_search_call", "tool_search_output"),
    }
)


class Items:
    """Feeds items into a conversation; `flush` ends the turn at hand."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._content: Any = None
        self._reasoning: list[str] = []
        self._calls: list[Json] = []

    def add(self, item: Json) -> None:
        """One item, in order."""
        kind = str(item.get("type", "message"))
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            if self._calls:  # the next turn begins before the outputs of this one were logged
                self.flush()
            self._reasoning.append(_reasoning_text(item))
        elif kind.endswith("_output") and item.get("call_id"):
            self.flush()
            self._chat.result(item["call_id"], _output(item))
        elif kind.endswith("_call") and item.get("call_id"):
            self._calls.append(_call(item, kind))

    def flush(self) -> None:
        """The assistant's message from the items so far, if there are any."""
        reasoning = "\n\n".join(text for text in self._reasoning if text) or None
        self._chat.answer(self._content, self._calls, reasoning=reasoning)
        self._content, self._reasoning, self._calls = None, [], []

    def _message(self, item: Json) -> None:
        if item.get("role") != "assistant":
            self.flush()
            self._chat.say(str(item.get("role")), item.get("content"))
            return
        if self._calls:
            self.flush()
        self._content = joined(self._content, read_content(item.get("content"), "assistant"))


def _reasoning_text(item: Json) -> str:
    return text_of(item.get("content")) or text_of(item.get("summary"))


def _call(item: Json, kind: str) -> Json:
    call_id = str(item["call_id"])
    if kind == "custom_tool_call":
        return tool_call(item.get("name", ""), {"input": item.get("input")}, call_id)
    if "action" in item:
        return tool_call(item.get("name", kind.removesuffix("_call")), item["action"], call_id)
    return tool_call(item.get("name", kind.removesuffix("_call")), item.get("arguments"), call_id)


def _output(item: Json) -> Any:
    """The output as text or parts; an older form wraps it in an object."""
    output = item.get("output", item.get("tools"))
    if isinstance(output, dict) and isinstance(output.get("content"), str):
        return output["content"]
    return output
