"""The tools as a request describes them: names and parameters."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def tool_schemas(names: tuple[str, ...]) -> list[Json]:
    """The `tools` field of an OpenAI chat request, in the order of `names`."""
    return [_SCHEMAS[name] for name in names]


def _tool(name: str, *parameters: str) -> Json:
    """One tool; `fields` is an object, every other parameter a string.

    Nothing is described: the names say it, and the definitions are part of every context that has to be computed.
    """
    properties = {parameter: {"type": "object" if parameter == "fields" else "string"} for parameter in parameters}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


_SCHEMAS: dict[str, Json] = {
    schema["function"]["name"]: schema
    for schema in (
        _tool("list_dir", "path"),
        _tool("read_file", "path"),
        _tool("write_file", "path", "content"),
        _tool("append_line", "path", "line"),
        _tool("replace_text", "path", "old", "new"),
        _tool("run", "command"),
        _tool("sql", "database", "query"),
        _tool("open_page", "path"),
        _tool("submit_form", "path", "fields"),
    )
}
