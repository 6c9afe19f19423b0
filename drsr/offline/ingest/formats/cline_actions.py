"""Cline's and Roo Code's way of acting in text: one tool per message, as tags with the parameters in tags of their own.

    <read_file>
    <path>wheel.py</path>
    </read_file>

The environment answers with `[read_file for 'wheel.py'] Result:` and what came of it.
"""

from __future__ import annotations

import re

_TOOLS = (
    *("execute_command", "read_file", "write_to_file", "replace_in_file", "search_files", "list_files", "apply_diff"),
    *("list_code_definition_names", "browser_action", "use_mcp_tool", "access_mcp_resource", "insert_content"),
    *("ask_followup_question", "attempt_completion", "new_task", "plan_mode_respond", "load_mcp_documentation"),
    *("search_and_replace", "switch_mode", "update_todo_list", "fetch_instructions", "codebase_search", "web_fetch"),
)
_OPENING = re.compile(f"<({'|'.join(_TOOLS)})>")
_PARAMETER = re.compile(r"<(\w+)>")
begins_reply = re.compile(r"\[\w[^\n]*\] Result:").match


def parse(text: str) -> tuple[str, str, dict[str, str]] | None:
    """Return what a text says before its tool, the tool's name and its parameters; None where it uses none."""
    start = _OPENING.search(text)
    if start is None:
        return None
    name = start[1]
    end = text.rfind(f"</{name}>", start.end())
    if end < 0:
        return None
    return text[: start.start()].strip(), name, _parameters(text[start.end() : end])


def _parameters(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    start = _PARAMETER.search(body)
    while start is not None:
        end = body.find(f"</{start[1]}>", start.end())
        if end < 0:
            return found
        found[start[1]] = body[start.end() : end].strip("\n")
        start = _PARAMETER.search(body, end)
    return found
