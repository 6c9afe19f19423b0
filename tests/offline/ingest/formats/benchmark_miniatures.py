"""Small documents in the forms of AgentDojo, InterCode, AutoPenBench and DA-Code, written for these tests."""

from __future__ import annotations

from typing import Any

from tests.offline.ingest.formats.files import as_json

Json = dict[str, Any]

AGENTDOJO: Json = {
    "suite_name": "garage",
    "pipeline_name": "mechanic-1",
    "user_task_id": "user_task_4",
    "injection_task_id": None,
    "attack_type": None,
    "injections": {},
    "utility": True,
    "security": True,
    "messages": [
        {"role": "system", "content": [{"type": "text", "content": None}]},
        {"role": "user", "content": [{"type": "text", "content": "Pump up both tyres."}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": "pump", "args": {"wheel": "front", "bar": 3}, "id": ""},
                {"function": "pump", "args": {"wheel": "rear", "bar": 4}, "id": ""},
            ],
        },
        {"role": "tool", "content": [{"type": "text", "content": "front: 3 bar"}], "tool_call_id": "", "error": None},
        {"role": "tool", "content": "", "tool_call_id": "", "error": "no such valve"},
        {"role": "assistant", "content": [{"type": "text", "content": "The front tyre is done."}], "tool_calls": None},
    ],
}
INTERCODE: Json = {
    "0": {
        "environment": "ic_sql",
        "dataset": "./data/bikes.json",
        "task_id": 17,
        "query": "How many bicycles are there?",
        "turn_history": {"actions": ["SHOW TABLES", "SELECT COUNT(*) FROM bikes"], "observations": ["bikes", 12]},
        "summary": {"max_reward": 1.0},
    }
}
AUTOPENBENCH: Json = {
    "steps": [
        {"thought": "Thought: None", "action": "Action: str()", "observation": "Observation: Open the shed."},
        {
            "thought": "Thought: Try the door.",
            "action": "Action: ExecuteBash(machine='shed' cmd='knock')",
            "observation": "Observation: nobody",
        },
    ]
}
DA_CODE: Json = {
    "finished": True,
    "steps": 2,
    "result": "table.csv",
    "Task": "Count the bicycles.",
    "system_message": "You analyse data.",
    "trajectory": [
        {
            "observation": "You are in the folder now.",
            "thought": "Look around.",
            "action": 'Bash(code="""ls""")',
            "code": "ls",
            "response": "Thought: Look around.",
        },
        {
            "observation": "bikes.csv",
            "thought": "Count.",
            "action": 'Bash(code="""wc -l bikes.csv""")',
            "code": "wc -l bikes.csv",
            "response": "Thought: Count.",
        },
    ],
}
"""The observation of a step is what the agent saw before the action: read like SWE-agent's it answers the wrong one."""

BENCHMARK_DOCUMENTS: dict[str, tuple[str, bytes, list[Any]]] = {
    "agentdojo": ("agentdojo", as_json(AGENTDOJO), [AGENTDOJO]),
    "intercode": ("intercode", as_json(INTERCODE), [INTERCODE]),
    "autopenbench": ("autopenbench", as_json(AUTOPENBENCH), [AUTOPENBENCH]),
}
