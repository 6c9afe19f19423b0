"""Stock runs low: which item, from which supplier, at what price; place the order in the database within the rules."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import COLORS, CONSENT, PRODUCTS, number, numbers, write_files
from drsr.offline.sandbox.workshop.workspace import DATABASE

_TOOLS = ("list", "read", "sql")
_PROMPTS = (
    "Something in aisle {aisle} is below its minimum. Find it in the table items (item, name, aisle, stock, minimum), "
    "order the usual amount (ordering.txt) from the cheapest supplier (table offers: item, supplier, price) by a row "
    "in the table orders (item, supplier, amount), after asking me. Tell me item, price and gate.",
    "Please restock aisle {aisle}: look up what fell below the minimum (table items: item, name, aisle, stock, "
    "minimum), follow ordering.txt, insert the order for the cheapest of the table offers (item, supplier, price) into "
    "orders (item, supplier, amount). Ask me before that. Report item, price and gate.",
    "Aisle {aisle} needs a reorder. Check the table items (item, name, aisle, stock, minimum) for the one under its "
    "minimum, choose the cheapest of offers (item, supplier, price), place it (table orders: item, supplier, amount) "
    "as ordering.txt wants, once I agreed, and give me item, price and gate.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    aisle = dice.randrange(20, 400)
    names = [
        f"{color} {product}" for color, product in zip(dice.sample(COLORS, 3), dice.sample(PRODUCTS, 3), strict=True)
    ]
    items, suppliers = numbers(dice, 3, 3), [f"S{digits}" for digits in numbers(dice, 2, 3)]
    minimum = [dice.randrange(8, 40) for _ in names]
    stock = [minimum[0] - dice.randrange(2, 7), *(low + dice.randrange(1, 30) for low in minimum[1:])]
    price, amount = dice.randrange(3, 50), dice.randrange(3, 10) * 12
    with closing(sqlite3.connect(root / DATABASE)) as database:
        database.execute("CREATE TABLE items (item INTEGER, name TEXT, aisle INTEGER, stock INTEGER, minimum INTEGER)")
        database.execute("CREATE TABLE offers (item INTEGER, supplier TEXT, price INTEGER)")
        database.execute("CREATE TABLE orders (item INTEGER, supplier TEXT, amount INTEGER)")
        rows = [
            (item, name, aisle, have, low) for item, name, have, low in zip(items, names, stock, minimum, strict=True)
        ]
        dice.shuffle(rows)
        database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
        offers = [(items[0], suppliers[0], price), (items[0], suppliers[1], price + dice.randrange(2, 9))]
        offers += [(item, suppliers[2], dice.randrange(3, 50)) for item in items[1:]]
        dice.shuffle(offers)
        database.executemany("INSERT INTO offers VALUES (?, ?, ?)", offers)
        database.commit()
    gate = number(dice, 2)
    rules = [f"Usual amount: {amount}", f"Deliver to gate {gate}", "Take the cheapest offer."]
    dice.shuffle(rules)
    write_files(root, {"ordering.txt": "\n".join(rules)})
    truth = {"item": items[0], "supplier": suppliers[0], "amount": str(amount)}
    truth |= {"price": str(price), "gate": f"gate {gate}"}
    return Scenario(dice.choice(_PROMPTS).format(aisle=aisle), truth, (dice.choice(CONSENT),))


def _aisle(mind: Mind) -> str:
    return mind.prompt(r"[Aa]isle (\d+)")


def _low_item(mind: Mind) -> str | None:
    """The item with less stock than its minimum, from the table, or as it was named since."""
    table = mind.output("items")
    if table is None:
        return mind.search(r"item = (\d{3})", r"[Ii]tem (\d{3})\b", r"VALUES \((\d{3}),")
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return next(item for item, _, stock, minimum in rows if int(stock) < int(minimum))


def _best_offer(mind: Mind) -> list[str] | None:
    """Supplier and price of the cheapest offer."""
    table = mind.output("offers")
    if table is None:
        stated = mind.search(r"(S\d+ at \d+)[.?]")
        return stated.split(" at ") if stated else None
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return min(rows, key=lambda row: int(row[1]))


ITEM = Fact("items", _low_item)
OFFER = Fact("offers", _best_offer)
AMOUNT = said("rules", r"Usual amount: (\d+)", r"VALUES \(\d+, 'S\d+', (\d+)\)")
PRICE = Fact("offers", lambda m: m(OFFER)[1])
GATE = said("rules", r"Deliver to gate (\d+)")


@move
def rules(m: Mind) -> Message:
    return m.say(
        ["The ordering rules first.", "How are orders placed here?", "Let me read what the rules say."],
        call("read", path="ordering.txt"),
    )


@move
def wrong_column(m: Mind) -> Message:
    return m.say(
        ["Everything in aisle {aisle}.", "Maybe there is a column for the shelf."],
        call("sql", query=f"SELECT item FROM items WHERE shelf = {_aisle(m)}"),
        aisle=_aisle(m),
    )


@move
def items(m: Mind) -> Message:
    return m.say(
        ["Stock and minimum of aisle {aisle}.", "What is in that aisle?", "Comparing stock with minimum."],
        call("sql", query=f"SELECT item, name, stock, minimum FROM items WHERE aisle = {_aisle(m)}"),
        aisle=_aisle(m),
    )


@move
def offers(m: Mind) -> Message:
    return m.say(
        ["Item {item} is below its minimum. Who offers it?", "Found it. Now the offers.", "What would it cost?"],
        call("sql", query=f"SELECT supplier, price FROM offers WHERE item = {m(ITEM)}"),
        thinks=["Only item {item} has less than its minimum."],
        item=ITEM,
    )


@question
def ask(m: Mind) -> Message:
    supplier, price = m(OFFER)
    return m.tell(
        "Order item {item} from {supplier} at {price}?",
        "Item {item}, by {supplier} at {price}. All right?",
        item=ITEM,
        supplier=supplier,
        price=price,
    )


@move
def order(m: Mind) -> Message:
    return m.say(
        ["Placing the order.", "Ordering {amount} pieces."],
        call("sql", query=f"INSERT INTO orders VALUES ({m(ITEM)}, '{m(OFFER)[0]}', {m(AMOUNT)})"),
        amount=AMOUNT,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Item {item} is ordered at {price} a piece, for gate {gate}.",
        "I ordered item {item}, {price} each; it comes to gate {gate}.",
        "Expect item {item} at gate {gate}, {price} each.",
        brief=(
            "The order is placed: {amount} pieces of item {item}.",
            "Done, item {item} is on its way, {amount} pieces.",
        ),
        item=ITEM,
        price=PRICE,
        gate=GATE,
        amount=AMOUNT,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([rules, items, offers], [items, rules, offers], [items, offers, rules]))
    if dice.random() < 0.2:
        look.insert(0, wrong_column)
    return mix(dice, [*look, ask, order, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / DATABASE)) as database:
        placed = database.execute("SELECT item, supplier, amount FROM orders").fetchall()
    expected = (int(truth["item"]), truth["supplier"], int(truth["amount"]))
    return placed == [expected] and outcome.answer_names("item", "price", "gate", brief=("item",))


FAMILY = Family(
    domain="office",
    name="reorder",
    role="You run the stockroom's paperwork. The database is the only truth; ordering.txt has the rules. One order "
    "per shortage, from the cheapest supplier. Do not change stock figures: they are counted by hand.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
