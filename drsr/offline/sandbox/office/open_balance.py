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
    cents,
    filler_lines,
    money,
    number,
    numbers,
    people,
    write_files,
)

_TOOLS = ("read_file", "write_file", "run")
_PROMPTS = (
    "Mail {mail} in inbox/ asks for an account balance. Work out what is open for that customer, less the "
    "discount for the city as in policy/terms.txt, write outbox/{mail} with the amount and our reference, and "
    "tell me the sum.",
    "Please answer inbox/{mail}: the customer wants to know what is left to pay. Mind the discount in "
    "policy/terms.txt. Put the reply into outbox/{mail} with amount and reference, then give me both.",
    "Someone wrote to us ({mail}, see inbox/). They need the total of their open invoices after discount "
    "(policy/terms.txt knows). Reply in outbox/{mail}, stating amount and reference, and report amount and "
    "reference here.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    mails = [f"m{digits}.txt" for digits in numbers(dice, 4, 3)]
    companies, ids = dice.sample(COMPANIES, 5), [f"C{digits}" for digits in numbers(dice, 4, 5)]
    cities, clerks = dice.sample(CITIES, 5), people(dice, 5)
    customer = dice.randrange(5)
    amounts = [dice.randrange(2_000, 90_000) // 100 * 100 for _ in range(3)]
    open_rows = [
        f"{number(dice, 5)},{ids[customer]},{money(amount)},open" for amount in amounts[: dice.randrange(2, 4)]
    ]
    other_rows = [f"{number(dice, 5)},{ids[customer]},{money(dice.randrange(900, 90_000))},paid"]
    other_rows += [
        f"{number(dice, 5)},{ids[other]},{money(dice.randrange(900, 90_000))},{dice.choice(('open', 'paid'))}"
        for other in range(5)
        if other != customer
    ]
    rows = open_rows + other_rows
    dice.shuffle(rows)
    discounts = [dice.choice((2, 3, 4, 5, 6, 8)) for _ in cities]
    terms = [f"{city}: {percent} percent" for city, percent in zip(cities, discounts, strict=True)]
    reference = f"{dice.choice('ABDFGHK')}{number(dice, 3)}/{number(dice, 2)}"
    total = sum(cents(row.split(",")[2]) for row in open_rows)
    write_files(
        root,
        {
            f"inbox/{mails[0]}": f"From: {clerks[customer]}, {companies[customer]}\nSubject: balance\n"
            f"{filler_lines(dice, 1)[0]} Could you send us the total of what is open?",
            f"inbox/{mails[1]}": f"From: {clerks[(customer + 1) % 5]}\nSubject: visit\n{filler_lines(dice, 1)[0]}",
            "data/customers.csv": "\n".join(
                ["id,name,city", *(f"{i},{n},{c}" for i, n, c in zip(ids, companies, cities, strict=True))]
            ),
            "data/invoices.csv": "\n".join(["invoice,customer,amount,state", *rows]),
            "policy/terms.txt": "\n".join([*terms, f"Our reference this quarter: {reference}"]),
        },
    )
    truth = {
        "mail": mails[0],
        "amount": money(total * (100 - discounts[customer]) // 100),
        "reference": reference,
        "company": companies[customer],
    }
    return Scenario(dice.choice(_PROMPTS).format(mail=mails[0]), truth)


def _mail(mind: Mind) -> str:
    return mind.prompt(r"\b(m\d{4}\.txt)")


COMPANY = said("letter", r"From: \w+ \w+, (.+)$", r"^grep '(\D+)' data/customers", r"^Dear (\w+ \w+),")
CUSTOMER = Fact(
    "customer", lambda m: m.search(rf"^(C\d{{4}}),{m(COMPANY)},", r"grep (C\d{4}) data/", r"customer (C\d{4})")
)
CITY = Fact("customer", lambda m: m.search(rf"^C\d{{4}},{m(COMPANY)},(\w+)$", r"in (\w+), so"))
PERCENT = Fact("terms", lambda m: m.search(rf"^{m(CITY)}: (\d+) percent", r"discount of (\d+) percent"))
REFERENCE = said("terms", r"reference this quarter: (\S+)$", r"reference is (\S+)\.$")


def _amount(mind: Mind) -> str | None:
    """The open invoices of the customer, added up, less the discount; or as it was written since."""
    invoices = mind.output("invoices")
    if invoices is None:
        return mind.search(r"is (\d+\.\d\d) after")
    rows = [line.split(",") for line in invoices.splitlines()]
    total = sum(cents(row[2]) for row in rows if row[1:2] == [mind(CUSTOMER)] and row[3] == "open")
    return money(total * (100 - int(mind(PERCENT))) // 100)


AMOUNT = Fact("invoices", _amount)


@move
def letter(m: Mind) -> Message:
    return m.say(
        ["Reading the mail.", "Who is asking, and for what?", "Let me open {mail}."],
        call("read_file", path=f"inbox/{_mail(m)}"),
        mail=_mail(m),
    )


@move
def inbox(m: Mind) -> Message:
    return m.say(
        ["Are there more mails from them?", "Let me look into the inbox and the data folder."],
        call("run", command="ls inbox"),
        call("run", command="ls data"),
    )


@move
def customer(m: Mind) -> Message:
    return m.say(
        [
            "Which customer number does {company} have?",
            "Looking up the customer.",
            "Finding them in the customer list.",
        ],
        call("run", command=f"grep '{m(COMPANY)}' data/customers.csv"),
        company=COMPANY,
    )


@move
def terms(m: Mind) -> Message:
    return m.say(
        ["They are in {city}, so I need the terms for that city.", "Which discount applies?", "Now the terms."],
        call("read_file", path="policy/terms.txt"),
        city=CITY,
    )


@move
def invoices(m: Mind) -> Message:
    return m.say(
        ["All invoices of customer {customer}.", "Now their invoices.", "Which of their invoices are open?"],
        call("run", command=f"grep {m(CUSTOMER)} data/invoices.csv"),
        thinks=["I only add up rows that are open, and only those of {customer}."],
        customer=CUSTOMER,
    )


@move
def wrong_file(m: Mind) -> Message:
    return m.say(
        ["There may be a prepared balance already.", "Maybe somebody has computed balances before."],
        call("read_file", path="data/balances.csv"),
    )


@move
def reply(m: Mind) -> Message:
    content = (
        f"Dear {m(COMPANY)},\nyour open balance is {m(AMOUNT)} after a discount of {m(PERCENT)} percent.\n"
        f"Our reference is {m(REFERENCE)}."
    )
    return m.say(
        ["Writing the reply.", "That makes {amount}. Here is the letter.", "Now the answer to {company}."],
        call("write_file", path=f"outbox/{_mail(m)}", content=content),
        amount=AMOUNT,
        company=COMPANY,
    )


@move
def proofread(m: Mind) -> Message:
    return m.say(["Proofreading.", "Does the letter read well?"], call("run", command=f"head -n 1 outbox/{_mail(m)}"))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{company} still has to pay {amount}. The reply is in the outbox under reference {reference}.",
        "The open amount is {amount} (reference {reference}); the letter to {company} is written.",
        "Reference {reference}: I answered {company} that {amount} is open.",
        company=COMPANY,
        amount=AMOUNT,
        reference=REFERENCE,
    )


def plan(dice: Random) -> list[Move]:
    opening = [letter, inbox] if dice.random() < 0.3 else [letter]
    middle = dice.choice(([customer, terms, invoices], [terms, customer, invoices], [customer, invoices, terms]))
    if dice.random() < 0.3:
        middle = [*middle[:2], wrong_file, middle[2]]
    ending = [reply, proofread, answer] if dice.random() < 0.3 else [reply, answer]
    return mix(dice, [*opening, *middle, *ending], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    reply_text = outcome.text(f"outbox/{truth['mail']}")
    stated = all(truth[name] in reply_text for name in ("amount", "reference", "company"))
    return stated and outcome.answer_names("amount", "reference")


FAMILY = Family(
    domain="office",
    name="open_balance",
    system="You are the accounts clerk's assistant. Figures must be right to the cent.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
