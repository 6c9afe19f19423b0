"""A job crashes on one record: find the record, fill in the documented default, rerun, note the result."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, FIRST_NAMES, NOUNS, numbers, write_files

_FIELDS = ("weight", "height", "rows", "volume", "stops", "length", "slots", "credits")
_SCRIPT = """import pathlib
total = 0
for line in pathlib.Path("{data}.txt").read_text().splitlines():
    record = dict(part.split("=") for part in line.split()[1:])
    total += int(record["{field}"])
print("total:", total)
"""


def prepare(dice: Random, root: Path) -> Scenario:
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
    return Scenario(dice.choice(FAMILY.prompts).format(script=script, data=data), truth)


FAMILY = read_family(__file__, prepare)
