"""Two records are one customer: keep the older, move orders, drop the other, log the merge with the clerk's code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, filler_lines, mail_address, number, numbers, people, write_files

_TOOLS = ("read_file", "append_line", "sql")
_PROMPTS = (
    "{name} is in crm.db twice. Merge the records: the smaller id stays, orders move over, the other record goes, "
    "and merges.csv gets '<kept>,<dropped>,<orders moved>,<code>' with the code of {clerk}. Tell me ids, phone "
    "and order count.",
    "We have two entries for {name} in crm.db. Keep the one with the smaller id, reassign the orders of the "
    "other, delete it and add '<kept>,<dropped>,<orders moved>,<code>' to merges.csv ({clerk}'s code). Report "
    "ids, phone, orders moved.",
    "Clean up the duplicate of {name} in crm.db for {clerk}: smaller id wins, orders follow, the rest is deleted. "
    "Log it in merges.csv as '<kept>,<dropped>,<orders moved>,<code>'. Then name both ids, the phone and how many "
    "orders moved.",
)
_DB = "crm.db"


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    names, clerks = people(dice, 4), people(dice, 7)[4:]
    ids = sorted(numbers(dice, 4, 6))
    kept, dropped = ids[dice.randrange(0, 2)], ids[dice.randrange(3, 6)]
    phone, cities = f"0{number(dice, 3)}-{number(dice, 5)}", dice.sample(CITIES, 5)
    rest = [key for key in ids if key not in (kept, dropped)]
    records = [(kept, names[0], phone, cities[0]), (dropped, names[0], "", cities[0])]
    records += [
        (key, names[1 + n % 3], f"0{number(dice, 3)}-{number(dice, 5)}", cities[n + 1]) for n, key in enumerate(rest)
    ]
    dice.shuffle(records)
    moved = dice.randrange(2, 4)
    orders = [(number, dropped) for number in numbers(dice, 6, moved)]
    orders += [(number, dice.choice([kept, *rest])) for number in numbers(dice, 5, 4)]
    dice.shuffle(orders)
    with closing(sqlite3.connect(root / _DB)) as database:
        database.execute("CREATE TABLE customers (id INTEGER, name TEXT, phone TEXT, city TEXT)")
        database.execute("CREATE TABLE orders (number INTEGER, customer INTEGER)")
        database.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", records)
        database.executemany("INSERT INTO orders VALUES (?, ?)", orders)
        database.commit()
    codes = {clerk: f"{clerk[0]}{number(dice, 4)}" for clerk in clerks}
    lines = [f"{clerk} <{mail_address(clerk)}> code {code}" for clerk, code in codes.items()]
    write_files(
        root,
        {
            "clerks.txt": "\n".join([*lines, *filler_lines(dice, 1)]),
            "merges.csv": f"kept,dropped,orders,code\n{number(dice, 4)},{number(dice, 4)},1,{codes[clerks[1]]}",
        },
    )
    truth = {"kept": kept, "dropped": dropped, "moved": str(moved), "code": codes[clerks[0]], "phone": phone}
    return Scenario(dice.choice(_PROMPTS).format(name=names[0], clerk=clerks[0]), truth)


def _name(mind: Mind) -> str:
    return mind.prompt(r"([A-Z]\w+ [A-Z]\w+) (?:is )?in crm\.db")


def _clerk(mind: Mind) -> str:
    return mind.prompt(r"(?:code of |\(|for )([A-Z]\w+ [A-Z]\w+)(?:\.|'s|: smaller)")


def _ids(mind: Mind) -> list[str] | None:
    """The two ids, smaller first, from the records or as they were stated or used since."""
    records = mind.output("records")
    if records is not None:
        found = sorted(line.split(" | ")[0] for line in records.splitlines()[1:])
        if len(found) == 2:
            return found
    stated = mind.search(
        r"keep (\d{4} and drop \d{4})", r"SET customer = (\d{4} WHERE customer = \d{4})", r"merges\.csv\n(\d{4},\d{4})"
    )
    return sorted(part for part in stated.replace(",", " ").split() if part.isdigit()) if stated else None


IDS = Fact("records", _ids)
PHONE = said("records", r" \| (0\d+-\d+) \| ", r"phone (0\d+-\d+)")


def _moved(mind: Mind) -> str | None:
    """How many orders were moved: what the update said, or the list before it."""
    listed = mind.output("orders")
    if listed is not None and "no rows" not in listed:
        return str(len(listed.splitlines()) - 1)
    return mind.search(r"^ok, (\d+) rows changed", r"merges\.csv\n\d{4},\d{4},(\d+),")


MOVED = Fact("orders", _moved)
CODE = Fact("clerks", lambda m: m.search(rf"^{_clerk(m)} <\S+> code (\S+)$", r"merges\.csv\n\d+,\d+,\d+,(\S+)$"))


@move
def records(m: Mind) -> Message:
    return m.say(
        ["Both records of {name}.", "How do the two entries look?", "Looking for {name} in the customers."],
        call("sql", database=_DB, query=f"SELECT * FROM customers WHERE name = '{_name(m)}'"),
        name=_name(m),
    )


@move
def count(m: Mind) -> Message:
    return m.say(
        ["How large is the table?", "Counting customers and orders first."],
        call("sql", database=_DB, query="SELECT count(*) FROM customers"),
        call("sql", database=_DB, query="SELECT count(*) FROM orders"),
    )


@move
def wrong_table(m: Mind) -> Message:
    return m.say(
        ["Are there invoices, too, that point to the record?", "Checking for invoices as well."],
        call("sql", database=_DB, query="SELECT count(*) FROM invoices"),
    )


@move
def clerks(m: Mind) -> Message:
    return m.say(
        ["The code of {clerk} goes into the log.", "Which code does {clerk} have?", "Reading the list of clerks."],
        call("read_file", path="clerks.txt"),
        clerk=_clerk(m),
    )


@move
def orders(m: Mind) -> Message:
    return m.say(
        [
            "I keep {kept} and drop {dropped}. Which orders does the latter have?",
            "Now the orders of the record that goes.",
        ],
        call("sql", database=_DB, query=f"SELECT number FROM orders WHERE customer = {m(IDS)[1]} ORDER BY number"),
        kept=m(IDS)[0],
        dropped=m(IDS)[1],
    )


@move
def reassign(m: Mind) -> Message:
    kept, dropped = m(IDS)
    return m.say(
        ["Moving the orders.", "{moved} orders to move.", "Reassigning them to {kept}."],
        call("sql", database=_DB, query=f"UPDATE orders SET customer = {kept} WHERE customer = {dropped}"),
        moved=MOVED,
        kept=kept,
    )


@move
def drop(m: Mind) -> Message:
    return m.say(
        ["Now the duplicate can go.", "Deleting {dropped}.", "Removing the empty record."],
        call("sql", database=_DB, query=f"DELETE FROM customers WHERE id = {m(IDS)[1]}"),
        dropped=m(IDS)[1],
    )


@move
def log(m: Mind) -> Message:
    kept, dropped = m(IDS)
    return m.say(
        ["Logging the merge.", "A line for merges.csv, with code {code}.", "And the log."],
        call("append_line", path="merges.csv", line=f"{kept},{dropped},{m(MOVED)},{m(CODE)}"),
        thinks=["Order of the fields: kept, dropped, orders moved, code."],
        code=CODE,
    )


@move
def verify(m: Mind) -> Message:
    return m.say(
        ["Only one record should be left.", "Checking the result."],
        call("sql", database=_DB, query=f"SELECT count(*) FROM customers WHERE name = '{_name(m)}'"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{name} now has the single id {kept} with phone {phone}; {dropped} is gone and {moved} orders moved.",
        "Merged: {dropped} into {kept} (phone {phone}), orders moved: {moved}.",
        "Moved {moved} orders from {dropped} to {kept}. The phone on file is {phone}.",
        name=_name(m),
        kept=m(IDS)[0],
        dropped=m(IDS)[1],
        phone=PHONE,
        moved=MOVED,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([records, clerks, orders], [clerks, records, orders], [count, records, orders, clerks]))
    if dice.random() < 0.25:
        look = [*look, wrong_table]
    work = dice.choice(([reassign, drop, log], [reassign, log, drop]))
    ending = [verify, answer] if dice.random() < 0.3 else [answer]
    return mix(dice, [*look, *work, *ending], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / _DB)) as database:
        left = database.execute("SELECT id FROM customers").fetchall()
        stray = database.execute("SELECT count(*) FROM orders WHERE customer = ?", (truth["dropped"],)).fetchone()
    merged = (int(truth["kept"]),) in left and (int(truth["dropped"]),) not in left and stray == (0,)
    line = ",".join(truth[name] for name in ("kept", "dropped", "moved", "code"))
    logged = outcome.text("merges.csv").splitlines()[-1] == line
    return merged and logged and outcome.answer_names("kept", "dropped", "phone", "moved")


FAMILY = Family(
    domain="office",
    name="duplicate_customer",
    system="You keep the customer database tidy. One statement at a time, and log every merge.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
