"""The tools as a request describes them: names, parameters, and what they do."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def tool_schemas(names: tuple[str, ...]) -> list[Json]:
    """Return the `tools` field of an OpenAI chat request, in the order of `names`."""
    return [_SCHEMAS[name] for name in names]


def _tool(name: str, description: str, *parameters: str) -> Json:
    """One tool, all of whose parameters are strings.

    Names are one word: they stand in every call, and what stands behind a deleted Block is computed again for each
    deletion set. Descriptions stand in front of all Blocks and are computed once.
    """
    properties = {parameter: {"type": "string"} for parameter in parameters}
    parameter_schema = {"type": "object", "properties": properties}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameter_schema},
    }


_SCHEMAS: dict[str, Json] = {
    schema["function"]["name"]: schema
    for schema in (
        _tool("list", "Names of the files in a folder.", "path"),
        _tool("read", "Show a text file.", "path"),
        _tool("write", "Write a text file, replacing what was there.", "path", "text"),
        _tool("log", "Add one line to log.txt.", "line"),
        _tool("replace", "Replace a text wherever it occurs in a file.", "path", "old", "new"),
        _tool("run", "Run a command: grep, head, sort, diff, python, pytest and the like.", "command"),
        _tool("sql", "Run one SQL statement on the database.", "query"),
        _tool("open", "Open a page of the site and show it as text.", "path"),
        _tool("post", "Send a form: its path and its fields, as in /form?name=value&other=value.", "form"),
    )
}

PARAMETERS = {name: tuple(schema["function"]["parameters"]["properties"]) for name, schema in _SCHEMAS.items()}
"""The names of each tool's parameters, in order."""
