"""Rename a function as decided in a list: every use in the code, and one in a table that only a check finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, filler_lines, hexadecimal, number, people, write_files

_VERBS = ("fetch", "load", "build", "merge", "check", "parse", "print", "store")
_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "Rename the function {old} as decided in docs/naming.md, everywhere. tools/check.py must pass in the end. Add "
    "'<old> <new> <version>' to docs/renamed.txt, the version being the one in VERSION. Tell me new name, files "
    "and stamp.",
    "We agreed on a new name for {old} (see docs/naming.md). Please change all uses, make tools/check.py pass, "
    "and extend docs/renamed.txt by '<old> <new> <version>' (VERSION has it). Report the new name, the files and "
    "the check's stamp.",
    "{old} gets a new name, docs/naming.md says which. Apply it to the whole tree until tools/check.py is "
    "content, then write '<old> <new> <version>' (from VERSION) to docs/renamed.txt. Answer with new name, "
    "touched files and stamp.",
)
_CHECK = '''"""Every name that is called or listed must be defined."""

import hashlib
import pathlib
import re
import sys

source = "".join(path.read_text() for path in sorted(pathlib.Path("lib").glob("*.py")))
defined = set(re.findall(r"^def (\\w+)", source, re.M))
for used in re.findall(r"^    return ([a-z]+_\\w+)\\(", source, re.M):
    if used not in defined:
        sys.exit(f"error: {used} is called but not defined")
for line in pathlib.Path("conf/{table}.txt").read_text().splitlines():
    if line.split()[1] not in defined:
        sys.exit(f"error: conf/{table}.txt lists {line.split()[1]}, which is not defined")
print("ok, stamp", hashlib.sha256(source.encode()).hexdigest()[:6])
'''


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    nouns, verbs = dice.sample(NOUNS, 9), dice.sample(_VERBS, 4)
    old, new = f"{verbs[0]}_{nouns[0]}", f"{verbs[1]}_{nouns[1]}"
    first, second, third, table = nouns[2], nouns[3], nouns[4], nouns[5]
    version = f"{dice.randrange(1, 9)}.{dice.randrange(1, 30)}.{dice.randrange(1, 30)}"
    decisions = [f"{old} becomes {new}", f"{verbs[2]}_{nouns[6]} becomes {verbs[3]}_{nouns[7]}", f"{nouns[8]} stays"]
    dice.shuffle(decisions)
    write_files(
        root,
        {
            f"lib/{first}.py": f"def {old}(count):\n    return abs(count - {number(dice, 3)})",
            f"lib/{second}.py": f"from lib.{first} import {old}\n\n\ndef {verbs[2]}_{second}(count):\n"
            f"    return {old}(count + {number(dice, 2)})",
            f"lib/{third}.py": f"def {verbs[3]}_{third}(count):\n    return abs(count * {number(dice, 2)})",
            f"conf/{table}.txt": f"daily {verbs[2]}_{second}\nweekly {old}\nyearly {verbs[3]}_{third}",
            "docs/naming.md": "\n".join(
                [f"Decided by {' and '.join(people(dice, 2))}:", *decisions, *filler_lines(dice, 1)]
            ),
            "docs/renamed.txt": f"{nouns[8]}_{hexadecimal(dice, 3)} {nouns[8]} {number(dice, 1)}.0.{number(dice, 1)}",
            "tools/check.py": _CHECK.replace("{table}", table),
            "VERSION": version,
        },
    )
    truth = {"old": old, "new": new, "version": version, "first": f"lib/{first}.py", "second": f"lib/{second}.py"}
    return Scenario(dice.choice(_PROMPTS).format(old=old), truth | {"table": f"conf/{table}.txt"})


def _old(mind: Mind) -> str:
    return mind.prompt(r"\b([a-z]+_[a-z]+)\b")


NEW = Fact("naming", lambda m: m.search(rf"{_old(m)} becomes (\w+)", rf"py\n{_old(m)}\n(\w+)$", r"new name is (\w+)"))
DEFINED_IN = Fact("naming.1", lambda m: m.search(rf"^(lib/\w+\.py):\d+:def {_old(m)}\(", r"defined in (\S+\.py)"))
CALLED_IN = Fact("naming.1", lambda m: m.search(rf"^(lib/\w+\.py):\d+:    return {_old(m)}\(", r"called in (\S+\.py)"))
TABLE = said("check_tree", r"error: (conf/\w+\.txt) lists", r"^(conf/\w+\.txt)\n")
VERSION = said("version", r"^(\d+\.\d+\.\d+)$", r"renamed\.txt\n\w+ \w+ (\S+)$")
STAMP = said("recheck", r"ok, stamp (\w+)")


@move
def naming(m: Mind) -> Message:
    return m.say(
        ["What was decided, and where is it used?", "The decision on {old}, and all its uses.", "Finding every use."],
        call("read_file", path="docs/naming.md"),
        call("run", command=f"grep -rn {_old(m)} lib | sort"),
        old=_old(m),
    )


@move
def version(m: Mind) -> Message:
    return m.say(
        ["The version, for the note later.", "Which version are we at?", "I will need the version and the old notes."],
        call("read_file", path="VERSION"),
        call("read_file", path="docs/renamed.txt"),
    )


@move
def tree(m: Mind) -> Message:
    return m.say(["What else is in the library?", "A look at lib."], call("run", command="ls lib"))


@move
def rename_uses(m: Mind) -> Message:
    return m.say(
        ["It is defined in {defined_in} and called in {called_in}.", "Both files at once.", "The new name is {new}."],
        call("replace_text", path=m(DEFINED_IN), old=_old(m), new=m(NEW)),
        call("replace_text", path=m(CALLED_IN), old=_old(m), new=m(NEW)),
        thinks=["{old} becomes {new} where it is defined and where it is called."],
        defined_in=DEFINED_IN,
        called_in=CALLED_IN,
        old=_old(m),
        new=NEW,
    )


@move
def check_tree(m: Mind) -> Message:
    return m.say(["Does the check pass?", "Running the check."], call("run", command="python tools/check.py"))


@move
def rename_in_table(m: Mind) -> Message:
    return m.say(
        ["A table lists it as well.", "So {table} needs the change, too.", "One more place."],
        call("replace_text", path=m(TABLE), old=_old(m), new=m(NEW)),
        table=TABLE,
    )


@move
def recheck(m: Mind) -> Message:
    return m.say(
        ["Checking again.", "And now?", "Once more, for the stamp."], call("run", command="python tools/check.py")
    )


@move
def note(m: Mind) -> Message:
    return m.say(
        ["The note on the rename.", "Adding the line with version {version}.", "Last thing: docs/renamed.txt."],
        call("append_line", path="docs/renamed.txt", line=f"{_old(m)} {m(NEW)} {m(VERSION)}"),
        version=VERSION,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{old} is now {new} in {first}, {second} and {table}. The check passes with stamp {stamp}.",
        "Renamed to {new}. Touched: {first}, {second}, {table}. Stamp: {stamp}.",
        "Stamp {stamp}. The new name {new} is used in {first}, {second} and {table}.",
        old=_old(m),
        new=NEW,
        first=DEFINED_IN,
        second=CALLED_IN,
        table=TABLE,
        stamp=STAMP,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([naming, version], [version, naming], [naming], [naming, tree]))
    late = [] if version in look else [version]
    ending = [recheck, *late, note] if dice.random() < 0.6 else [*late, note, recheck]
    return mix(dice, [*look, rename_uses, check_tree, rename_in_table, *ending, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    paths = ("first", "second", "table")
    renamed = all(
        truth["new"] in outcome.text(truth[name]) and truth["old"] not in outcome.text(truth[name]) for name in paths
    )
    noted = outcome.text("docs/renamed.txt").splitlines()[-1]
    right_note = noted == f"{truth['old']} {truth['new']} {truth['version']}"
    return renamed and right_note and outcome.answer_names("new", *paths)


FAMILY = Family(
    domain="code",
    name="rename",
    system="You refactor a small library. Names are decided by the team and applied by you, completely.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
