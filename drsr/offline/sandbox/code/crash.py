"""An export script crashes on one record: find the record, fill in the documented default, rerun, note the result."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, filler_lines, mail_address, number, numbers, people, write_files

_FIELDS = ("weight", "height", "rows", "volume", "stops", "length", "slots", "credits")
_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "tools/{script}.py crashes. Repair the data (not the script): give the broken record the default from "
    "docs/defaults.md, run it again and put '<record> <default> <result>' into repairs.log. Tell me record, "
    "result and the data's owner.",
    "The nightly job tools/{script}.py stopped with an error. Please find the faulty record, set the documented "
    "default (docs/defaults.md), rerun, log '<record> <default> <result>' in repairs.log, and report record, "
    "result and owner.",
    "Can you get tools/{script}.py to run again? One record lacks a field; docs/defaults.md knows what to put in. "
    "Afterwards add '<record> <default> <result>' to repairs.log and name record, result and the person who owns "
    "the data.",
)
_SCRIPT = '''"""Add up one field over all records."""

import json
import pathlib

total = 0
for line in pathlib.Path("data/{data}.jsonl").read_text().splitlines():
    record = json.loads(line)
    total += record["{field}"]
print("total {field}:", total)
'''


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    script, data = dice.sample(NOUNS, 2)
    field, *other_fields = dice.sample(_FIELDS, 4)
    ids = [f"{data[0]}{digits}" for digits in numbers(dice, 4, 5)]
    values = [dice.randrange(20, 900) for _ in ids]
    records = [{"id": key, field: value, "site": dice.choice(CITIES)} for key, value in zip(ids, values, strict=True)]
    broken, default = dice.randrange(len(ids)), dice.randrange(20, 900)
    del records[broken][field]
    total = sum(values) - values[broken] + default
    owners = {
        name: mail_address(owner) for name, owner in zip([data, *dice.sample(CITIES, 2)], people(dice, 3), strict=True)
    }
    defaults = [f"{name}: {dice.randrange(20, 900)}" for name in other_fields] + [f"{field}: {default}"]
    dice.shuffle(defaults)
    write_files(
        root,
        {
            f"tools/{script}.py": _SCRIPT.format(data=data, field=field),
            f"data/{data}.jsonl": "\n".join(json.dumps(record) for record in records),
            "data/owners.txt": "\n".join(f"{name}.jsonl {owner}" for name, owner in sorted(owners.items())),
            "docs/defaults.md": "\n".join(["Defaults for missing fields", *defaults, *filler_lines(dice, 1)]),
            "repairs.log": f"{dice.choice('kqz')}{number(dice, 4)} {number(dice, 3)} {number(dice, 4)}",
        },
    )
    truth = {"record": ids[broken], "default": str(default), "total": str(total), "owner": owners[data]}
    return Scenario(dice.choice(_PROMPTS).format(script=script), truth)


def _script(mind: Mind) -> str:
    return mind.prompt(r"tools/(\w+)\.py")


FIELD = said("crash", r"KeyError: '(\w+)'", r"records? without (\w+)", r"total (\w+): \d+")
DATA = said("crash.1", r"Path\(\"data/(\w+)\.jsonl\"\)", r"data/(\w+)\.jsonl")
RECORD = said("broken", r'^\d+:\{"id": "(\w+)", "site"', r"record (\w\d{4}) (?:has|lacks)", r'^"id": "(\w+)",$')
DEFAULT = Fact("defaults", lambda m: m.search(rf"^{m(FIELD)}: (\d+)$", rf'"{m(FIELD)}": (\d+),$'))
TOTAL = said("rerun", r"^total \w+: (\d+)")
OWNER = Fact("owner", lambda m: m.search(rf"^{m(DATA)}\.jsonl (\S+@\S+)$"))


@move
def crash(m: Mind) -> Message:
    return m.say(
        [
            "Let me see it crash, and read it.",
            "The error and the code, side by side.",
            "First I reproduce the problem.",
        ],
        call("run", command=f"python tools/{_script(m)}.py"),
        call("read_file", path=f"tools/{_script(m)}.py"),
    )


@move
def defaults(m: Mind) -> Message:
    return m.say(
        ["Which defaults are documented?", "Reading the defaults.", "Now the default for {field}."],
        call("read_file", path="docs/defaults.md"),
        field=FIELD,
    )


@move
def owner(m: Mind) -> Message:
    return m.say(
        ["Who owns that file?", "The owners are listed next to the data.", "Whom does the data belong to?"],
        call("read_file", path="data/owners.txt"),
    )


@move
def sizes(m: Mind) -> Message:
    return m.say(
        ["How many records are there?", "A look at the size of the data."],
        call("run", command=f"wc -l data/{m(DATA)}.jsonl"),
        call("run", command="ls data"),
    )


@move
def broken(m: Mind) -> Message:
    return m.say(
        ["Looking for records without {field}.", "Which record lacks the field?", "The culprit has no {field}."],
        call("run", command=f"grep -n -v {m(FIELD)} data/{m(DATA)}.jsonl"),
        thinks=["The KeyError names {field}; grep -v shows the lines that do not have it."],
        field=FIELD,
    )


@move
def repair(m: Mind) -> Message:
    old = f'"id": "{m(RECORD)}",'
    return m.say(
        ["The record {record} lacks it; the default is {default}.", "Filling in the default.", "Repairing {record}."],
        call("replace_text", path=f"data/{m(DATA)}.jsonl", old=old, new=f'{old} "{m(FIELD)}": {m(DEFAULT)},'),
        record=RECORD,
        default=DEFAULT,
    )


@move
def rerun(m: Mind) -> Message:
    return m.say(
        ["Does it run now?", "Again, please.", "Second try."], call("run", command=f"python tools/{_script(m)}.py")
    )


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Logging the repair.", "It printed {total}. Into the log with it.", "One line for repairs.log."],
        call("append_line", path="repairs.log", line=f"{m(RECORD)} {m(DEFAULT)} {m(TOTAL)}"),
        total=TOTAL,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Record {record} had no {field}. With the default the result is {total}. The data belongs to {owner}.",
        "It runs again: total {total} after repairing {record}. Owner of the data: {owner}.",
        "{owner} should know that {record} was incomplete; the job now gives {total}.",
        record=RECORD,
        field=FIELD,
        total=TOTAL,
        owner=OWNER,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([crash, defaults], [defaults, crash]))
    side = dice.choice(([owner, broken], [broken, owner], [owner, sizes, broken]))
    return mix(dice, [*look, *side, repair, rerun, log, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    logged = outcome.text("repairs.log").splitlines()[-1]
    right = logged == f"{truth['record']} {truth['default']} {truth['total']}"
    return right and outcome.answer_names("record", "total", "owner")


FAMILY = Family(
    domain="code",
    name="crash",
    system="You keep the nightly jobs alive. Reproduce, find the cause, repair the smallest thing.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
