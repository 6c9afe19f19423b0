"""Stock runs low: which item, from which supplier, at what price; place the order in the database within the rules."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import COLORS, CONSENT, PRODUCTS, number, numbers, write_files
from drsr.offline.sandbox.workshop.workspace import read_database, write_database


def prepare(dice: Random, root: Path) -> Scenario:
    aisle = dice.randrange(20, 400)
    names = [
        f"{color} {product}" for color, product in zip(dice.sample(COLORS, 3), dice.sample(PRODUCTS, 3), strict=True)
    ]
    items, suppliers = numbers(dice, 3, 3), [f"S{digits}" for digits in numbers(dice, 2, 3)]
    minimum = [dice.randrange(8, 40) for _ in names]
    stock = [minimum[0] - dice.randrange(2, 7), *(low + dice.randrange(1, 30) for low in minimum[1:])]
    price, amount = dice.randrange(3, 50), dice.randrange(3, 10) * 12
    rows = [(item, name, aisle, have, low) for item, name, have, low in zip(items, names, stock, minimum, strict=True)]
    dice.shuffle(rows)
    offers = [(items[0], suppliers[0], price), (items[0], suppliers[1], price + dice.randrange(2, 9))]
    offers += [(item, suppliers[2], dice.randrange(3, 50)) for item in items[1:]]
    dice.shuffle(offers)
    write_database(
        root,
        {
            "items (item INTEGER, name TEXT, aisle INTEGER, stock INTEGER, minimum INTEGER)": rows,
            "offers (item INTEGER, supplier TEXT, price INTEGER)": offers,
            "orders (item INTEGER, supplier TEXT, amount INTEGER)": [],
        },
    )
    gate = number(dice, 2)
    rules = [f"Usual amount: {amount}", f"Deliver to gate {gate}", "Take the cheapest offer."]
    dice.shuffle(rules)
    write_files(root, {"ordering.txt": "\n".join(rules)})
    truth = {"item": items[0], "supplier": suppliers[0], "amount": str(amount)}
    truth |= {"price": str(price), "gate": f"gate {gate}"}
    return Scenario(dice.choice(FAMILY.prompts).format(aisle=aisle), truth, (dice.choice(CONSENT),))


def _item(mind: Mind) -> str | None:
    """The item with less stock than its minimum, from the table, or as it was named since."""
    table = mind.output("items")
    if table is None:
        return mind.search(r"item = (\d{3})", r"[Ii]tem (\d{3})\b", r"VALUES \((\d{3}),")
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return next(item for item, _, stock, minimum in rows if int(stock) < int(minimum))


def _offer(mind: Mind) -> list[str] | None:
    """Supplier and price of the cheapest offer."""
    table = mind.output("offers")
    if table is None:
        stated = mind.search(r"(S\d+ at \d+)[.?]")
        return stated.split(" at ") if stated else None
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return min(rows, key=lambda row: int(row[1]))


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    expected = (int(truth["item"]), truth["supplier"], int(truth["amount"]))
    return read_database(outcome.root, "SELECT item, supplier, amount FROM orders") == [expected]


FAMILY = read_family(__file__, prepare, done, item=_item, offer=_offer)
