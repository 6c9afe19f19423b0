"""A customer asks what is still to be paid: find the customer, add up open invoices, take off the discount, answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import (
    CITIES,
    COMPANIES,
    FIRST_NAMES,
    filler_lines,
    number,
    numbers,
    write_files,
)


def prepare(dice: Random, root: Path) -> Scenario:
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
    return Scenario(dice.choice(FAMILY.prompts).format(mail=mail), truth)


def _amount(mind: Mind) -> str | None:
    """The open invoices of the customer, added up, less the discount; or as it was written since."""
    invoices = mind.output("invoices")
    if invoices is None:
        return mind.search(r"^[A-Z]\w+ (\d+) [A-Z]\d{3}$")
    rows = [line.split(",") for line in invoices.splitlines()]
    total = sum(int(row[2]) for row in rows)
    return str(total * (100 - int(mind["percent"])) // 100)


FAMILY = read_family(__file__, prepare, amount=_amount)
