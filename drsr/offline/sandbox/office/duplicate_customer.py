"""Two records are one customer: keep the older, move orders, drop the other, log the merge with the clerk's code."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, number, numbers, people, write_files
from drsr.offline.sandbox.workshop.workspace import read_database, write_database


def prepare(dice: Random, root: Path) -> Scenario:
    names, clerks = people(dice, 4), [name.split()[0] for name in people(dice, 2)]
    ids = sorted(numbers(dice, 3, 5))
    kept, dropped = ids[dice.randrange(0, 2)], ids[dice.randrange(3, 5)]
    phone, cities = f"0{number(dice, 4)}", dice.sample(CITIES, 5)
    rest = [key for key in ids if key not in (kept, dropped)]
    records = [(kept, names[0], phone, cities[0]), (dropped, names[0], "", cities[1])]
    records += [(key, names[1 + n], f"0{number(dice, 4)}", cities[n + 2]) for n, key in enumerate(rest)]
    dice.shuffle(records)
    moved = dice.randrange(2, 6)
    orders = [(digits, dropped) for digits in numbers(dice, 4, moved)]
    orders += [(digits, dice.choice([kept, *rest])) for digits in numbers(dice, 3, 4)]
    dice.shuffle(orders)
    tables = {"customers (id INTEGER, name TEXT, phone TEXT, city TEXT)": records}
    write_database(root, tables | {"orders (number INTEGER, customer INTEGER)": orders})
    codes = {clerk: f"{clerk[0]}{number(dice, 3)}" for clerk in clerks}
    lines = [f"{clerk} has code {code}" for clerk, code in codes.items()]
    dice.shuffle(lines)
    write_files(root, {"clerks.txt": "\n".join(lines)})
    truth = {"kept": kept, "dropped": dropped, "moved": str(moved), "code": codes[clerks[0]], "phone": phone}
    return Scenario(dice.choice(FAMILY.prompts).format(name=names[0], clerk=clerks[0]), truth)


def _ids(mind: Mind) -> list[str] | None:
    """The two ids, smaller first, from the records or as they were used since."""
    records = mind.output("records")
    if records is not None:
        found = sorted(line.split(" | ")[0] for line in records.splitlines()[1:])
        if len(found) == 2:
            return found
    stated = mind.search(
        r"^(\d{3},\d{3}),\w\d{3}$", r"SET customer = (\d{3} WHERE customer = \d{3})", r"(\d{3} and \d{3}) are one"
    )
    return sorted(part for part in stated.replace(",", " ").split() if part.isdigit()) if stated else None


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    left = [str(key) for (key,) in read_database(outcome.root, "SELECT id FROM customers")]
    stray = read_database(outcome.root, f"SELECT number FROM orders WHERE customer = {truth['dropped']}")
    return truth["kept"] in left and truth["dropped"] not in left and not stray


FAMILY = read_family(__file__, prepare, done, ids=_ids)
