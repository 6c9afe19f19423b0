"""Two records are one customer: keep the older, move orders, drop the other, log the merge with the clerk's code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, number, numbers, people, write_files
from drsr.offline.sandbox.workshop.workspace import DATABASE

_TOOLS = ("read", "log", "sql")
_PROMPTS = (
    "{name} is in the table customers (id, name, phone, city) twice. Merge the records: the smaller id stays, orders "
    "(number, customer) move over, the other record goes, and you log '<kept>,<dropped>,<code>' with the code "
    "of {clerk} from clerks.txt. Tell me the id that is left, the phone and how many orders moved.",
    "We have two entries for {name} in the table customers (id, name, phone, city). Keep the one with the smaller id, "
    "reassign the orders (number, customer) of the other, delete it and log '<kept>,<dropped>,<code>' "
    "(code of {clerk}, see clerks.txt). Report the id that is left, the phone and the orders moved.",
    "Clean up the duplicate of {name} in the table customers (id, name, phone, city): smaller id wins, orders (number, "
    "customer) follow, the rest is deleted. Log it as '<kept>,<dropped>,<code>', code of {clerk} as in "
    "clerks.txt. Then name the id that is left, the phone and how many orders moved.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
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
    with closing(sqlite3.connect(root / DATABASE)) as database:
        database.execute("CREATE TABLE customers (id INTEGER, name TEXT, phone TEXT, city TEXT)")
        database.execute("CREATE TABLE orders (number INTEGER, customer INTEGER)")
        database.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", records)
        database.executemany("INSERT INTO orders VALUES (?, ?)", orders)
        database.commit()
    codes = {clerk: f"{clerk[0]}{number(dice, 3)}" for clerk in clerks}
    lines = [f"{clerk} has code {code}" for clerk, code in codes.items()]
    dice.shuffle(lines)
    write_files(
        root,
        {
            "clerks.txt": "\n".join(lines),
        },
    )
    truth = {"kept": kept, "dropped": dropped, "moved": str(moved), "code": codes[clerks[0]], "phone": phone}
    return Scenario(dice.choice(_PROMPTS).format(name=names[0], clerk=clerks[0]), truth)


def _name(mind: Mind) -> str:
    return mind.prompt(r"([A-Z]\w+ [A-Z]\w+) (?:is )?in the table")


def _clerk(mind: Mind) -> str:
    return mind.prompt(r"code of ([A-Z]\w+)\b")


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


IDS = Fact("records", _ids)
PHONE = said("records", r"^\d{3} \| (0\d{4})$")
MOVED = said("reassign", r"^(\d+) rows changed")
CODE = Fact("clerks", lambda m: m.search(rf"^{_clerk(m)} has code (\S+)$", r"^\d{3},\d{3},(\S+)$"))


@move
def records(m: Mind) -> Message:
    return m.say(
        ["Both records of {name}.", "How do the two entries look?", "Looking for {name} in the customers."],
        call("sql", query=f"SELECT id, phone FROM customers WHERE name = '{_name(m)}'"),
        name=_name(m),
    )


@move
def count(m: Mind) -> Message:
    return m.say(
        ["How large is the table?", "Counting the customers first."],
        call("sql", query="SELECT count(*) FROM customers"),
    )


@move
def wrong_table(m: Mind) -> Message:
    return m.say(
        ["Are there invoices, too, that point to the record?", "Checking for invoices as well."],
        call("sql", query="SELECT count(*) FROM invoices"),
    )


@move
def clerks(m: Mind) -> Message:
    return m.say(
        ["The code of {clerk} goes into the log.", "Which code does {clerk} have?", "Reading the list of clerks."],
        call("read", path="clerks.txt"),
        clerk=_clerk(m),
    )


@move
def reassign(m: Mind) -> Message:
    kept, dropped = m(IDS)
    return m.say(
        ["{kept} and {dropped} are one. Moving the orders.", "Moving the orders.", "Reassigning them to {kept}."],
        call("sql", query=f"UPDATE orders SET customer = {kept} WHERE customer = {dropped}"),
        kept=kept,
        dropped=dropped,
    )


@move
def drop(m: Mind) -> Message:
    return m.say(
        ["Now the duplicate can go.", "Deleting it."],
        call("sql", query=f"DELETE FROM customers WHERE id = {m(IDS)[1]}"),
    )


@move
def log(m: Mind) -> Message:
    kept, dropped = m(IDS)
    return m.say(
        ["Logging the merge.", "And the log."],
        call("log", line=f"{kept},{dropped},{m(CODE)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Only {kept} is left, phone {phone}; {moved} orders moved.",
        "Merged into {kept} (phone {phone}), orders moved: {moved}.",
        "Moved {moved} orders to {kept}, phone {phone}.",
        brief=(
            "The two records are one now; {kept} is the one that stayed.",
            "Done: everything belongs to {kept} now, and the merge is logged.",
        ),
        kept=m(IDS)[0],
        phone=PHONE,
        moved=MOVED,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([records, clerks], [clerks, records]))
    if dice.random() < 0.2:
        look.insert(dice.randrange(3), dice.choice((count, wrong_table)))
    work = dice.choice(([reassign, drop, log], [reassign, log, drop]))
    return mix(dice, [*look, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / DATABASE)) as database:
        left = database.execute("SELECT id FROM customers").fetchall()
        stray = database.execute("SELECT count(*) FROM orders WHERE customer = ?", (truth["dropped"],)).fetchone()
    merged = (int(truth["kept"]),) in left and (int(truth["dropped"]),) not in left and stray == (0,)
    line = ",".join(truth[name] for name in ("kept", "dropped", "code"))
    logged = outcome.last_line("log.txt") == line
    return merged and logged and outcome.answer_names("kept", "phone", "moved", brief=("kept",))


FAMILY = Family(
    domain="office",
    name="duplicate_customer",
    role="You keep the customer database tidy. One statement at a time, and log every merge. Orders are moved before "
    "a record is deleted, never after. The log names the record that stays first, and the code of the clerk who asked "
    "for the merge last.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
