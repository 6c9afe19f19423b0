"""A customer asks what is still to be paid: find the customer, add up open invoices, take off the discount, answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import (
    CITIES,
    COMPANIES,
    FIRST_NAMES,
    filler_lines,
    number,
    numbers,
    write_files,
)

_TOOLS = ("read", "log", "run")
_PROMPTS = (
    "Mail {mail} in inbox/ asks for an account balance. Work out what is open for that customer (customers.csv: id, "
    "name, city; invoices.csv: customer, state, amount), less the discount for the city as in terms.txt, log "
    "'<company> <amount> <reference>', and tell me who asked, the amount and the reference.",
    "Please answer inbox/{mail}: the customer (customers.csv: id, name, city) wants to know what is left to pay "
    "(invoices.csv: customer, state, amount). Mind the discount in terms.txt. Log the answer as '<company> <amount> "
    "<reference>', then give me the person who asked, amount and reference.",
    "Someone wrote to us ({mail}, see inbox/). They need the total of their open invoices (customers.csv: id, name, "
    "city; invoices.csv: customer, state, amount) after discount (terms.txt knows). Log '<company> <amount> "
    "<reference>', and report the person who asked, amount and reference here.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    mail = f"m{number(dice, 3)}"
    companies = [company.split()[0] for company in dice.sample(COMPANIES, 4)]
    ids, cities = [f"C{digits}" for digits in numbers(dice, 3, 4)], dice.sample(CITIES, 4)
    customer = dice.randrange(4)
    amounts = [dice.randrange(2, 90) * 100 for _ in range(2)]
    rows = [f"{ids[customer]},open,{amount}" for amount in amounts] + [f"{ids[customer]},paid,{number(dice, 3)}"]
    rows += [f"{ids[other]},open,{number(dice, 3)}" for other in range(4) if other != customer]
    dice.shuffle(rows)
    discounts = [dice.randrange(2, 10) for _ in cities]
    person = dice.choice(FIRST_NAMES)
    references = [f"{dice.choice('ABDFGHK')}{digits}" for digits in numbers(dice, 3, 4)]
    write_files(
        root,
        {
            f"inbox/{mail}": f"From: {person}, {companies[customer]}\n"
            f"{filler_lines(dice, 1)[0]} Could you send us the total of what is open?",
            "customers.csv": "\n".join(f"{i},{n},{c}" for i, n, c in zip(ids, companies, cities, strict=True)),
            "invoices.csv": "\n".join(rows),
            "terms.txt": "\n".join(
                f"{city}: {percent} percent, reference {reference}"
                for city, percent, reference in zip(cities, discounts, references, strict=True)
            ),
        },
    )
    amount = str(sum(amounts) * (100 - discounts[customer]) // 100)
    truth = {"amount": amount, "reference": references[customer], "company": companies[customer]}
    truth["person"] = person
    return Scenario(dice.choice(_PROMPTS).format(mail=mail), truth)


def _mail(mind: Mind) -> str:
    return mind.prompt(r"\b(m\d{3})\b")


PERSON = said("letter", r"^From: (\w+), ")
COMPANY = said("letter", r"^From: \w+, (\w+)$", r"^grep ([A-Z][a-z]+) customers", r"^([A-Z]\w+) \d+ [A-Z]\d{3}$")
CUSTOMER = Fact(
    "customer", lambda m: m.search(rf"^(C\d{{3}}),{m(COMPANY)},", r"grep (C\d{3}),open", r"customer (C\d{3})")
)
CITY = Fact("customer", lambda m: m.search(rf"^C\d{{3}},{m(COMPANY)},(\w+)$", r"^grep (\w+) terms"))
PERCENT = Fact("terms", lambda m: m.search(rf"^{m(CITY)}: (\d+) percent"))
REFERENCE = Fact("terms", lambda m: m.search(rf"^{m(CITY)}: .*reference (\S+)$", r"^[A-Z]\w+ \d+ ([A-Z]\d{3})$"))


def _amount(mind: Mind) -> str | None:
    """The open invoices of the customer, added up, less the discount; or as it was written since."""
    invoices = mind.output("invoices")
    if invoices is None:
        return mind.search(r"^[A-Z]\w+ (\d+) [A-Z]\d{3}$")
    rows = [line.split(",") for line in invoices.splitlines()]
    total = sum(int(row[2]) for row in rows)
    return str(total * (100 - int(mind(PERCENT))) // 100)


AMOUNT = Fact("invoices", _amount)


@move
def letter(m: Mind) -> Message:
    return m.say(
        ["Reading the mail.", "Who is asking, and for what?", "Let me open {mail}."],
        call("read", path=f"inbox/{_mail(m)}"),
        mail=_mail(m),
    )


@move
def customer(m: Mind) -> Message:
    return m.say(
        ["Which number does {company} have?", "Looking up the customer.", "Finding them in the customer list."],
        call("run", command=f"grep {m(COMPANY)} customers.csv"),
        company=COMPANY,
    )


@move
def terms(m: Mind) -> Message:
    return m.say(
        ["They are in {city}. Which discount applies?", "Now the terms."],
        call("run", command=f"grep {m(CITY)} terms.txt"),
        city=CITY,
    )


@move
def invoices(m: Mind) -> Message:
    return m.say(
        ["All invoices of customer {customer}.", "Now their invoices.", "Which of their invoices are open?"],
        call("run", command=f"grep {m(CUSTOMER)},open invoices.csv"),
        thinks=["I only add up rows that are open, and only those of {customer}."],
        customer=CUSTOMER,
    )


@move
def wrong_file(m: Mind) -> Message:
    return m.say(
        ["There may be a prepared balance already.", "Maybe somebody has computed balances before."],
        call("read", path="balances.csv"),
    )


@move
def reply(m: Mind) -> Message:
    return m.say(
        ["Logging the answer.", "Now the answer to {company}."],
        call("log", line=f"{m(COMPANY)} {m(AMOUNT)} {m(REFERENCE)}"),
        company=COMPANY,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{person} can be told: {amount} is open, reference {reference}.",
        "The open amount is {amount} (reference {reference}); {person} asked.",
        "Reference {reference}: the answer to {person} is {amount}.",
        brief=(
            "The answer is logged: {amount} is open, reference {reference}.",
            "Done. They owe {amount}, our reference is {reference}.",
        ),
        person=PERSON,
        amount=AMOUNT,
        reference=REFERENCE,
    )


def plan(dice: Random) -> list[Move]:
    middle = [letter, customer, invoices, terms]
    if dice.random() < 0.15:
        middle.insert(2, wrong_file)
    return mix(dice, [*middle, reply, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    line = " ".join(truth[name] for name in ("company", "amount", "reference"))
    logged = outcome.last_line("log.txt") == line
    return logged and outcome.answer_names(
        "person",
        "amount",
        "reference",
        brief=(
            "amount",
            "reference",
        ),
    )


FAMILY = Family(
    domain="office",
    name="open_balance",
    role="You are the accounts clerk's assistant. Figures must be right to the last credit. Customers are known by "
    "their number, invoices carry that number, and only rows marked open count. The discount depends on the city. An "
    "answer is one line: company, amount and our reference.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
