"""Rename a function as decided in a list: in the code, and in a table that only a check finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, filler_lines, number, write_files

_VERBS = ("fetch", "load", "build", "merge", "check", "parse", "print", "store")
_CHECK = """import hashlib, pathlib, re, sys
source = "".join(path.read_text() for path in sorted(pathlib.Path("lib").glob("*.py")))
defined = set(re.findall(r"^def (\\w+)", source, re.M))
for line in pathlib.Path("{table}.txt").read_text().splitlines():
    if line.split()[1] not in defined:
        sys.exit("error: {table}.txt lists " + line.split()[1])
print("ok, stamp", hashlib.sha256(source.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
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
    return Scenario(dice.choice(FAMILY.prompts).format(old=old), truth)


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    texts = [outcome.text(truth[name]) for name in ("file", "table")]
    return all(truth["new"] in text and truth["old"] not in text for text in texts)


FAMILY = read_family(__file__, prepare, done)
