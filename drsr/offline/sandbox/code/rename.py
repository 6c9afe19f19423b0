"""Rename a function as decided in a list: in the code, and in a table that only a check finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, filler_lines, number, write_files

_VERBS = ("fetch", "load", "build", "merge", "check", "parse", "print", "store")
_TOOLS = ("read", "replace", "run")
_PROMPTS = (
    "Rename the function {old} as decided in naming.md, everywhere. check.py must pass in the end. Tell me the new "
    "name, who decided it and the stamp of the check.",
    "We agreed on a new name for {old} (see naming.md). Please change all uses and make check.py pass. Report the new "
    "name, whose decision it was and the check's stamp.",
    "{old} gets a new name, naming.md says which. Apply it to the whole tree until check.py is content. Answer with "
    "the new name, the person who decided, and the stamp.",
)
_CHECK = """import hashlib, pathlib, re, sys
source = "".join(path.read_text() for path in sorted(pathlib.Path("lib").glob("*.py")))
defined = set(re.findall(r"^def (\\w+)", source, re.M))
for line in pathlib.Path("{table}.txt").read_text().splitlines():
    if line.split()[1] not in defined:
        sys.exit("error: {table}.txt lists " + line.split()[1])
print("ok, stamp", hashlib.sha256(source.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    nouns, verbs = dice.sample(NOUNS, 8), dice.sample(_VERBS, 4)
    old, new = f"{verbs[0]}_{nouns[0]}", f"{verbs[1]}_{nouns[1]}"
    first, second, table = nouns[2:5]
    decider = dice.choice(FIRST_NAMES)
    decisions = [f"{old} becomes {new}", f"{verbs[2]}_{nouns[5]} becomes {verbs[3]}_{nouns[6]}", f"{nouns[7]} stays"]
    dice.shuffle(decisions)
    write_files(
        root,
        {
            f"lib/{first}.py": f"def {old}(count):\n    return abs(count - {number(dice, 3)})",
            f"lib/{second}.py": f"def {verbs[3]}_{second}(count):\n    return abs(count * {number(dice, 2)})",
            f"{table}.txt": f"weekly {old}\nyearly {verbs[3]}_{second}",
            "naming.md": "\n".join([f"Decided by {decider}:", *decisions, *filler_lines(dice, 1)]),
            "check.py": _CHECK.replace("{table}", table),
        },
    )
    truth = {"old": old, "new": new, "decider": decider, "file": f"lib/{first}.py", "table": f"{table}.txt"}
    return Scenario(dice.choice(_PROMPTS).format(old=old), truth)


def _old(mind: Mind) -> str:
    return mind.prompt(r"\b([a-z]+_[a-z]+)\b")


NEW = Fact("naming", lambda m: m.search(rf"{_old(m)} becomes (\w+)", rf"\n{_old(m)}\n(\w+)$", r"new name is (\w+)"))
DECIDER = said("naming", r"Decided by (\w+):")
FILE = Fact(
    "naming.1", lambda m: m.search(rf"^(lib/\w+\.py):def {_old(m)}\(", r"defined in (\S+\.py)", r"^(lib/\w+\.py)$")
)
TABLE = said("check_tree", r"error: (\w+\.txt) lists", r"^(\w+\.txt)\n")
STAMP = said("recheck", r"ok, stamp (\w+)")


@move
def naming(m: Mind) -> Message:
    return m.say(
        ["What was decided, and where is it used?", "The decision on {old}, and its uses.", "Finding every use."],
        call("read", path="naming.md"),
        call("run", command=f"grep -r {_old(m)} lib"),
        old=_old(m),
    )


@move
def tree(m: Mind) -> Message:
    return m.say(["What else is in the library?", "A look at lib."], call("run", command="ls lib"))


@move
def rename_definition(m: Mind) -> Message:
    return m.say(
        ["It is defined in {file}.", "The new name is {new}.", "Renaming the definition."],
        call("replace", path=m(FILE), old=_old(m), new=m(NEW)),
        thinks=["{old} becomes {new} where it is defined, then the check shows the rest."],
        file=FILE,
        old=_old(m),
        new=NEW,
    )


@move
def check_tree(m: Mind) -> Message:
    return m.say(["Does the check pass?", "Running the check."], call("run", command="python check.py"))


@move
def rename_in_table(m: Mind) -> Message:
    return m.say(
        ["A table lists it as well.", "So {table} needs it, too."],
        call("replace", path=m(TABLE), old=_old(m), new=m(NEW)),
        table=TABLE,
    )


@move
def recheck(m: Mind) -> Message:
    return m.say(["Checking again.", "And now?"], call("run", command="python check.py"))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "It is {new} now, as {decider} decided; stamp {stamp}.",
        "Renamed to {new} (decided by {decider}). Stamp: {stamp}.",
        "Stamp {stamp}. {decider}'s name {new} is used everywhere.",
        brief=(
            "Everything is renamed to {new}, and the check gave stamp {stamp}.",
            "Done: {new} is used everywhere, stamp {stamp}.",
        ),
        new=NEW,
        decider=DECIDER,
        stamp=STAMP,
    )


def plan(dice: Random) -> list[Move]:
    look = [naming, tree] if dice.random() < 0.2 else [naming]
    return mix(dice, [*look, rename_definition, check_tree, rename_in_table, recheck, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    renamed = all(
        truth["new"] in outcome.text(truth[name]) and truth["old"] not in outcome.text(truth[name])
        for name in ("file", "table")
    )
    return renamed and outcome.answer_names("new", "decider", brief=("new",))


FAMILY = Family(
    domain="code",
    name="rename",
    role="You refactor a small library. Names are decided by the team and applied by you, completely. The code lies "
    "in lib, tables that list functions lie next to it, and check.py knows whether they fit together. Its stamp goes "
    "into every report. Do not rename anything that nobody decided on.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
