"""A job crashes on one record: find the record, fill in the documented default, rerun, note the result."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, FIRST_NAMES, NOUNS, numbers, write_files

_FIELDS = ("weight", "height", "rows", "volume", "stops", "length", "slots", "credits")
_TOOLS = ("read", "log", "replace", "run")
_PROMPTS = (
    "{script}.py crashes. Repair the data (not the script): give the broken record in {data}.txt the default from "
    "defaults.txt, run it again and log '<record> <default> <result>'. Tell me record, result and the "
    "data's owner.",
    "The nightly job {script}.py stopped with an error. Please find the faulty record in {data}.txt, set the "
    "documented default (defaults.txt), rerun, log '<record> <default> <result>', and report record, "
    "result and owner.",
    "Can you get {script}.py to run again? One record of {data}.txt lacks a field; defaults.txt knows what to put "
    "in. Afterwards log '<record> <default> <result>' and name record, result and the owner of the data.",
)
_SCRIPT = """import pathlib
total = 0
for line in pathlib.Path("{data}.txt").read_text().splitlines():
    record = dict(part.split("=") for part in line.split()[1:])
    total += int(record["{field}"])
print("total:", total)
"""


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    script, data = dice.sample(NOUNS, 2)
    field, *other_fields = dice.sample(_FIELDS, 3)
    ids = [f"{data[0]}{digits}" for digits in numbers(dice, 3, 5)]
    values = [dice.randrange(20, 900) for _ in ids]
    broken, default = dice.randrange(len(ids)), dice.randrange(20, 900)
    records = [
        f"{key} site={dice.choice(CITIES)}" + ("" if place == broken else f" {field}={value}")
        for place, (key, value) in enumerate(zip(ids, values, strict=True))
    ]
    total = sum(values) - values[broken] + default
    owner = dice.choice(FIRST_NAMES)
    defaults = [f"{name}: {dice.randrange(20, 900)}" for name in other_fields] + [f"{field}: {default}"]
    dice.shuffle(defaults)
    write_files(
        root,
        {
            f"{script}.py": _SCRIPT.format(data=data, field=field),
            f"{data}.txt": "\n".join(records),
            "defaults.txt": "\n".join([*defaults, f"The data belongs to {owner}"]),
        },
    )
    truth = {"record": ids[broken], "default": str(default), "total": str(total), "owner": owner}
    return Scenario(dice.choice(_PROMPTS).format(script=script, data=data), truth)


def _script(mind: Mind) -> str:
    return mind.prompt(r"\b(\w+)\.py")


def _data(mind: Mind) -> str:
    return mind.prompt(r"(?:in|of) (\w+)\.txt")


FIELD = said("crash", r"KeyError: '(\w+)'", r"grep -v (\w+) ")
RECORD = said(
    "broken", r"^(\w\d{3}) site=\w+$", r"[Rr]ecord (\w\d{3})\b", r"^(\w\d{3}) \w+=\d+$", r"^(\w\d{3}) \d+ \d+$"
)
DEFAULT = Fact("crash.1", lambda m: m.search(rf"^{m(FIELD)}: (\d+)$", rf"^\w\d{{3}} {m(FIELD)}=(\d+)$"))
TOTAL = said("rerun", r"^total: (\d+)")
OWNER = said("crash.1", r"belongs to (\w+)$")


@move
def crash(m: Mind) -> Message:
    return m.say(
        ["Let me see it crash, and read the defaults.", "The error and the defaults.", "I reproduce the problem."],
        call("run", command=f"python {_script(m)}.py"),
        call("read", path="defaults.txt"),
    )


@move
def sizes(m: Mind) -> Message:
    return m.say(
        ["How many records are there?", "A look at the size of the data."],
        call("run", command=f"wc -l {_data(m)}.txt"),
    )


@move
def broken(m: Mind) -> Message:
    return m.say(
        ["Looking for records without {field}.", "Which record lacks the field?", "The culprit has no {field}."],
        call("run", command=f"grep -v {m(FIELD)} {_data(m)}.txt"),
        thinks=["The KeyError names {field}; grep -v shows the lines that do not have it."],
        field=FIELD,
    )


@move
def repair(m: Mind) -> Message:
    return m.say(
        ["Record {record} gets {default}.", "Filling in the default.", "Repairing {record}."],
        call("replace", path=f"{_data(m)}.txt", old=m(RECORD), new=f"{m(RECORD)} {m(FIELD)}={m(DEFAULT)}"),
        record=RECORD,
        default=DEFAULT,
    )


@move
def rerun(m: Mind) -> Message:
    return m.say(["Does it run now?", "Second try."], call("run", command=f"python {_script(m)}.py"))


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Logging the repair.", "It printed {total}."],
        call("log", line=f"{m(RECORD)} {m(DEFAULT)} {m(TOTAL)}"),
        total=TOTAL,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Record {record} had no {field}. Result {total}, owner {owner}.",
        "It runs again: {total} after repairing {record}. Owner: {owner}.",
        "Tell {owner} that {record} was incomplete; the job gives {total}.",
        brief=(
            "It runs again: {record} is repaired and the result is {total}.",
            "Done. {record} is complete now, and the job gives {total}.",
        ),
        record=RECORD,
        field=FIELD,
        total=TOTAL,
        owner=OWNER,
    )


def plan(dice: Random) -> list[Move]:
    side = [sizes] if dice.random() < 0.25 else []
    return mix(dice, [crash, *side, broken, repair, rerun, log, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    line = f"{truth['record']} {truth['default']} {truth['total']}"
    logged = outcome.last_line("log.txt") == line
    return logged and outcome.answer_names(
        "record",
        "total",
        "owner",
        brief=(
            "record",
            "total",
        ),
    )


FAMILY = Family(
    domain="code",
    name="crash",
    role="You keep the nightly jobs alive. Reproduce, find the cause, repair the smallest thing. Scripts belong to "
    "other people and are not yours to change; data may be completed from the documented defaults, and from nothing "
    "else. Every repair is logged in one line.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
