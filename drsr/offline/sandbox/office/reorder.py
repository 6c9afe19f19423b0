"""Stock runs low: which item, from which supplier, at what price; place the order in the database within the rules."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import (
    COLORS,
    COMPANIES,
    PRODUCTS,
    filler_lines,
    mail_address,
    money,
    number,
    numbers,
    write_files,
)

_TOOLS = ("list_dir", "read_file", "sql")
_PROMPTS = (
    "Something in aisle {aisle} is below its minimum. Find it in stock.db, order the usual amount "
    "(policy/ordering.txt) from its supplier by a row in the table orders (item, supplier, amount, account), and "
    "tell me item, total price, contact.",
    "Please restock aisle {aisle}: look up in stock.db what fell below the minimum, follow policy/ordering.txt, "
    "insert the order into the table orders (item, supplier, amount, account). Report item number, total price "
    "and supplier contact.",
    "Aisle {aisle} needs a reorder. Check stock.db for the item under its minimum, place an order (table orders: "
    "item, supplier, amount, account) as policy/ordering.txt wants, and give me the item, what it costs, and whom "
    "to write to.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    aisle = dice.randrange(20, 400)
    names = [
        f"{color} {product}" for color, product in zip(dice.sample(COLORS, 5), dice.sample(PRODUCTS, 5), strict=True)
    ]
    items, suppliers = numbers(dice, 5, 5), [f"S{digits}" for digits in numbers(dice, 3, 4)]
    companies = dice.sample(COMPANIES, 4)
    minimum = [dice.randrange(8, 40) for _ in names]
    stock = [minimum[0] - dice.randrange(2, 7), *(low + dice.randrange(1, 30) for low in minimum[1:])]
    price = dice.randrange(300, 5_000)
    amount, account = dice.randrange(3, 10) * 12, f"{number(dice, 4)}-{number(dice, 2)}"
    with closing(sqlite3.connect(root / "stock.db")) as database:
        database.execute("CREATE TABLE items (item INTEGER, name TEXT, aisle INTEGER, stock INTEGER, minimum INTEGER)")
        database.execute("CREATE TABLE offers (item INTEGER, supplier TEXT, price TEXT)")
        database.execute("CREATE TABLE suppliers (supplier TEXT, company TEXT, contact TEXT)")
        database.execute("CREATE TABLE orders (item INTEGER, supplier TEXT, amount INTEGER, account TEXT)")
        rows = [
            (item, name, aisle, have, low) for item, name, have, low in zip(items, names, stock, minimum, strict=True)
        ]
        dice.shuffle(rows)
        database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
        offers = [
            (items[0], suppliers[0], money(price)),
            (items[0], suppliers[1], money(price + dice.randrange(50, 400))),
        ]
        offers += [(item, suppliers[2], money(dice.randrange(300, 5_000))) for item in items[1:3]]
        dice.shuffle(offers)
        database.executemany("INSERT INTO offers VALUES (?, ?, ?)", offers)
        contacts = [(s, company, mail_address(company)) for s, company in zip(suppliers, companies, strict=True)]
        database.executemany("INSERT INTO suppliers VALUES (?, ?, ?)", contacts)
        database.commit()
    rules = [f"Usual amount per order: {amount}", f"Account to charge: {account}", "Take the cheapest offer."]
    dice.shuffle(rules)
    write_files(root, {"policy/ordering.txt": "\n".join([*rules, *filler_lines(dice, 1)])})
    truth = {"item": items[0], "supplier": suppliers[0], "amount": str(amount), "account": account}
    truth |= {"total": money(price * amount), "contact": mail_address(companies[0])}
    return Scenario(dice.choice(_PROMPTS).format(aisle=aisle), truth)


def _aisle(mind: Mind) -> str:
    return mind.prompt(r"[Aa]isle (\d+)")


def _low_item(mind: Mind) -> str | None:
    """The item with less stock than its minimum, from the table, or as it was named since."""
    table = mind.output("items")
    if table is None:
        return mind.search(r"item = (\d{5})", r"[Ii]tem (\d{5})\b")
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return next(item for item, _, stock, minimum in rows if int(stock) < int(minimum))


def _best_offer(mind: Mind) -> list[str] | None:
    """Supplier and price of the cheapest offer."""
    table = mind.output("offers")
    if table is None:
        stated = mind.search(r"cheapest is (S\d+ at [\d.]+\d)")
        return stated.split(" at ") if stated else None
    rows = [line.split(" | ") for line in table.splitlines()[1:]]
    return min(rows, key=lambda row: float(row[1]))


def _total(mind: Mind) -> str:
    unit, amount = mind(OFFER)[1].split("."), int(mind(AMOUNT))
    return money((int(unit[0]) * 100 + int(unit[1])) * amount)


ITEM = Fact("items", _low_item)
OFFER = Fact("offers", _best_offer)
AMOUNT = said("rules", r"Usual amount per order: (\d+)", r"VALUES \(\d+, 'S\d+', (\d+),")
ACCOUNT = said("rules", r"Account to charge: (\S+)", r"VALUES \(\d+, 'S\d+', \d+, '(\S+)'\)")
CONTACT = Fact("contact", lambda m: m.search(rf"^{m(OFFER)[0]} \| .+ \| (\S+@\S+)$"))


@move
def rules(m: Mind) -> Message:
    return m.say(
        ["The ordering rules first.", "How are orders placed here?", "Let me read what the policy says."],
        call("read_file", path="policy/ordering.txt"),
    )


@move
def tables(m: Mind) -> Message:
    return m.say(
        ["Which tables are there?", "An overview of the database."],
        call("sql", database="stock.db", query="SELECT name FROM sqlite_master ORDER BY name"),
    )


@move
def wrong_column(m: Mind) -> Message:
    return m.say(
        ["Everything in aisle {aisle}.", "Maybe there is a column for the shelf."],
        call("sql", database="stock.db", query=f"SELECT item FROM items WHERE shelf = {_aisle(m)}"),
        aisle=_aisle(m),
    )


@move
def items(m: Mind) -> Message:
    query = f"SELECT item, name, stock, minimum FROM items WHERE aisle = {_aisle(m)}"
    return m.say(
        ["Stock and minimum of aisle {aisle}.", "What is in that aisle?", "Comparing stock with minimum."],
        call("sql", database="stock.db", query=query),
        aisle=_aisle(m),
    )


@move
def offers(m: Mind) -> Message:
    return m.say(
        ["Item {item} is below its minimum. Who offers it?", "Found it. Now the offers.", "What would it cost?"],
        call("sql", database="stock.db", query=f"SELECT supplier, price FROM offers WHERE item = {m(ITEM)}"),
        thinks=["Only item {item} has less than its minimum."],
        item=ITEM,
    )


@move
def contact(m: Mind) -> Message:
    supplier, price = m(OFFER)
    return m.say(
        ["The cheapest is {supplier} at {price}. Who is that?", "Looking up the supplier.", "Whom do we write to?"],
        call("sql", database="stock.db", query=f"SELECT * FROM suppliers WHERE supplier = '{supplier}'"),
        supplier=supplier,
        price=price,
    )


@move
def order(m: Mind) -> Message:
    values = f"({m(ITEM)}, '{m(OFFER)[0]}', {m(AMOUNT)}, '{m(ACCOUNT)}')"
    return m.say(
        ["Placing the order.", "Ordering {amount} pieces on account {account}.", "Now the order itself."],
        call("sql", database="stock.db", query=f"INSERT INTO orders VALUES {values}"),
        amount=AMOUNT,
        account=ACCOUNT,
    )


@move
def verify(m: Mind) -> Message:
    return m.say(
        ["Is it in the table?", "Reading it back."], call("sql", database="stock.db", query="SELECT * FROM orders")
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Item {item} is ordered, {amount} pieces for {total} in total. The supplier's contact is {contact}.",
        "I ordered {amount} of item {item}; that is {total}. Write to {contact} with any question.",
        "{contact} will deliver {amount} pieces of item {item} for {total}.",
        item=ITEM,
        amount=AMOUNT,
        total=_total(m),
        contact=CONTACT,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(
        ([rules, tables, items], [tables, items, rules], [rules, wrong_column, items], [wrong_column, tables, items])
    )
    late = [] if rules in look else [rules]
    ending = [order, verify, answer] if dice.random() < 0.3 else [order, answer]
    return mix(dice, [*look, offers, contact, *late, *ending], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / "stock.db")) as database:
        placed = database.execute("SELECT item, supplier, amount, account FROM orders").fetchall()
    expected = (int(truth["item"]), truth["supplier"], int(truth["amount"]), truth["account"])
    return placed == [expected] and outcome.answer_names("item", "total", "contact")


FAMILY = Family(
    domain="office",
    name="reorder",
    system="You run the stockroom's paperwork. The database is the only truth; the policy has the rules.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
