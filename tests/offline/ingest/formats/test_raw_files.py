"""Zero runs misread: every call and result of five runs of each source, against a few lines that know only the file.

Each `raw_...` below takes a parsed file and yields its runs as (tool, arguments, result) in order; the result is None
where nobody answered. None of them uses anything of drsr.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.store.locations import open_location
from tests.trajectory_files import trajectories_folder

Call = tuple[str, Any, str | None]
RUNS = 5


def plain(content: Any) -> str:
    """The text of a content, whatever parts it is made of."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("content") or "") for part in content)
    return "" if content is None else str(content)


def loads(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def by_order(said: list[tuple[list[tuple[str, Any]], list[str]]]) -> list[Call]:
    """Turns of calls and, behind them, as many results as there are."""
    run: list[Call] = []
    for calls, results in said:
        answers = [*results, *[None] * len(calls)]
        run += [(tool, arguments, answer) for (tool, arguments), answer in zip(calls, answers, strict=False)]
    return run


def turns(
    messages: list[Any], calls_of: Callable[[Any], list[tuple[str, Any]]], result_of: Callable[[Any], Any]
) -> list[Call]:
    said: list[tuple[list[tuple[str, Any]], list[str]]] = []
    for message in messages:
        calls, result = calls_of(message), result_of(message)
        if calls:
            said.append((calls, []))
        elif result is not None and said:
            said[-1][1].append(result)
    return by_order(said)


def chat_calls(message: Any) -> list[tuple[str, Any]]:
    return [
        (call["function"]["name"], loads(call["function"]["arguments"])) for call in message.get("tool_calls") or []
    ]


def chat_result(message: Any) -> str | None:
    return plain(message["content"]) if message["role"] == "tool" else None


def raw_tau(value: Any) -> Iterator[list[Call]]:
    for run in value:
        if any(message["role"] == "assistant" for message in run["traj"]):
            yield turns(run["traj"], chat_calls, chat_result)


def raw_tau2(value: Any) -> Iterator[list[Call]]:
    for run in value["simulations"]:
        messages = [part for message in run["messages"] for part in message.get("tool_messages") or [message]]
        own = [message for message in messages if message.get("requestor", "assistant") != "user"]
        if any(message["role"] == "assistant" for message in own):
            yield turns(
                [message for message in own if message["role"] in ("assistant", "tool")],
                lambda message: [(call["name"], call["arguments"]) for call in message.get("tool_calls") or []],
                chat_result,
            )


def raw_agentdojo(value: Any) -> Iterator[list[Call]]:
    yield turns(
        value["messages"],
        lambda message: [(call["function"], call["args"]) for call in message.get("tool_calls") or []],
        lambda message: (message["error"] or plain(message["content"])) if message["role"] == "tool" else None,
    )


def raw_intercode(value: Any) -> Iterator[list[Call]]:
    for run in value.values():
        tool, argument = ("sql", "query") if run["environment"] == "ic_sql" else ("bash", "command")
        history = run["turn_history"]
        if history["actions"]:
            yield [
                (tool, {argument: action}, str(seen))
                for action, seen in zip(history["actions"], history["observations"], strict=True)
            ]


def raw_autopenbench(value: Any) -> Iterator[list[Call]]:
    run: list[Call] = []
    for step in value["steps"]:
        action = step["action"].removeprefix("Action: ")
        if action != "str()":
            tool, _, rest = action.strip().partition("(")
            seen = step["observation"].removeprefix("Observation: ")
            run.append((tool, {"input": rest.removesuffix(")")}, seen))
    yield run


def raw_inspect(value: Any) -> Iterator[list[Call]]:
    for sample in value["samples"]:
        kept = sample.get("attachments") or {}

        def full(text: Any, kept: dict[str, str] = kept) -> Any:
            if isinstance(text, dict):
                return {key: full(inner) for key, inner in text.items()}
            return kept.get(text.removeprefix("attachment://"), text) if isinstance(text, str) else text

        yield turns(
            sample["messages"],
            lambda message: [(call["function"], full(call["arguments"])) for call in message.get("tool_calls") or []],
            lambda message: full(plain(message["content"])) if message["role"] == "tool" else None,
        )


def raw_mini(value: Any) -> Iterator[list[Call]]:
    def calls(message: Any) -> list[tuple[str, Any]]:
        blocks = re.findall(r"```(?:bash|mswea_bash_command)\s*\n(.*?)\n?```", plain(message["content"]), re.DOTALL)
        return [("bash", {"command": blocks[0]})] if message["role"] == "assistant" and len(blocks) == 1 else []

    messages = value["messages"][2:]
    submission = value["info"].get("submission")
    if messages[-1]["role"] == "user" and messages[-1]["content"] == submission:
        messages = messages[:-1]
    yield turns(messages, calls, lambda message: plain(message["content"]) if message["role"] == "user" else None)


def raw_completion(value: Any) -> Iterator[list[Call]]:
    yield turns(value["messages"], chat_calls, chat_result)


def raw_openhands_v0(value: Any) -> Iterator[list[Call]]:
    run: list[Call] = []
    for event in value["history"]:
        calls = [
            call["function"]
            for choice in ((event.get("tool_call_metadata") or {}).get("model_response") or {}).get("choices", [])
            for call in choice["message"].get("tool_calls") or []
            if call["id"] == event["tool_call_metadata"]["tool_call_id"]
        ]
        if "action" in event:
            run += [(call["name"], loads(call["arguments"]), None) for call in calls]
        elif calls and run and run[-1][2] is None:
            run[-1] = (*run[-1][:2], event["content"])
    yield run


def raw_swe_agent(value: Any) -> Iterator[list[Call]]:
    """Demonstrations stay in: their commands and observations are calls and results, too."""
    run: list[Call] = []
    before: Any = None
    for message in value["history"]:
        demo = message.get("is_demo") is True
        if message["role"] == "assistant":
            calls = chat_calls(message)
            if not calls and (message.get("action") or "").strip():
                calls = [("bash", {"command": message["action"].rstrip("\n")})]
            run += [(*call, None) for call in calls]
            before = (demo, bool(calls)) if not message.get("tool_calls") else None
        else:
            answers = message["role"] == "tool" or message.get("tool_call_ids") or before == (demo, True)
            if answers and message["role"] != "system":
                run[-1] = (*run[-1][:2], plain(message["content"]))
            before = None
    yield run


def raw_moatless(value: Any) -> Iterator[list[Call]]:
    """The last node's request is the whole history; its answer is the last call."""
    node = [node for node in value["nodes"] if (node.get("completions") or {}).get("build_action")][-1]
    completion = node["completions"]["build_action"]
    messages = [*completion["input"], {"role": "assistant", "content": completion["response"]["content"]}]
    uses: dict[str, Call] = {}
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                uses[block["id"]] = (block["name"], block["input"], None)
            elif block["type"] == "tool_result":
                uses[block["tool_use_id"]] = (*uses[block["tool_use_id"]][:2], plain(block["content"]))
    yield list(uses.values())


def raw_pi(value: Any) -> Iterator[list[Call]]:
    """A session; one that was compacted on its way is left out, for it gives several runs."""
    if any(entry["type"] == "compaction" for entry in value):
        return
    uses: dict[str, Call] = {}
    for entry in value:
        message = entry.get("message") or {}
        if message.get("role") == "assistant":
            for block in message["content"]:
                if block["type"] == "toolCall":
                    uses[block["id"]] = (block["name"], block["arguments"], None)
        elif message.get("role") == "toolResult" and message["toolCallId"] in uses:
            uses[message["toolCallId"]] = (*uses[message["toolCallId"]][:2], plain(message["content"]))
    yield list(uses.values())


FEWER = ("docent-inspect-ctf",)
"""Sources of fewer runs."""
ELSEWHERE = {"openclaw-sessions"}
"""Its side branches take more than a few lines: test_openclaw_branches.py compares them with a script of their own."""

RAW: dict[str, Callable[[Any], Iterator[list[Call]]]] = {
    "agentdojo": raw_agentdojo,
    "agentdojo-llama33": raw_agentdojo,
    "autopenbench": raw_autopenbench,
    "docent-inspect-ctf": raw_inspect,
    "inspect-log": raw_inspect,
    "intercode": raw_intercode,
    "mini-swe-agent-gemini3": raw_mini,
    "moatless-tools": raw_moatless,
    "openhands-codeact-0.15": raw_completion,
    "openhands-v0": raw_openhands_v0,
    "pi-coding-agent": raw_pi,
    "swe-agent-demos": raw_swe_agent,
    "swe-agent-v0": raw_swe_agent,
    "tau-bench": raw_tau,
    "tau-bench-retail-avaljotsingh": raw_tau,
    "tau-bench-retail-xuanfeiren": raw_tau,
    "tau2-adaptive-airline": raw_tau2,
    "tau2-bench": raw_tau2,
    "tau2-bench-airline-retail": raw_tau2,
}


def understood(trajectory: Trajectory) -> list[Call]:
    """The calls of a trajectory in order, each with the first result behind it that bears its id."""
    run: list[tuple[str, Call]] = []

    def answer(call_id: str, content: Any) -> None:
        place = next(n for n, (own, call) in enumerate(run) if own == call_id and call[2] is None)
        run[place] = (call_id, (*run[place][1][:2], plain(content)))

    for message in trajectory.request["messages"]:
        for call in message.get("tool_calls") or []:
            run.append((call["id"], (call["function"]["name"], loads(call["function"]["arguments"]), None)))
        if message["role"] == "tool":
            answer(message["tool_call_id"], message["content"])
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                run.append((block["id"], (block["name"], block["input"], None)))
            elif block["type"] == "tool_result":
                answer(block["tool_use_id"], block["content"])
    return [call for _, call in run]


def raw_values(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines()]
        return [lines] if "type" in lines[0] else lines
    return [json.loads(text)]


@pytest.mark.parametrize("source", RAW)
def test_every_call_has_the_result_that_the_file_gives_it(source: str) -> None:
    folder = trajectories_folder()
    if folder is None or not (folder / source).is_dir():
        pytest.skip("the recorded runs are not on this machine")
    compared = 0
    files = [file for file in gather(open_location(str(folder / source))) if not file.location.endswith(".txt")]
    for file in files[:: max(1, len(files) // (RUNS + 1))]:
        raw = [run for value in raw_values(Path(file.location)) for run in RAW[source](value)]
        read_runs = [item for item in read(file) if isinstance(item, Trajectory)]
        if not raw:
            continue
        assert len(read_runs) == len(raw), file.location
        for trajectory, expected in list(zip(read_runs, raw, strict=True))[:: max(1, len(raw) // RUNS)]:
            assert understood(trajectory) == expected, trajectory.external_id
            compared += len(expected) > 0
    assert compared >= min(RUNS, len(files)) or source in FEWER


def test_every_folder_is_compared() -> None:
    folder = trajectories_folder()
    if folder is None:
        pytest.skip("the recorded runs are not on this machine")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set(RAW) | ELSEWHERE
