"""An access log shows an injected query that worked: whose session was it, how is it graded, file an incident."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import COMPANIES, filler_lines, hexadecimal, number, numbers, people, write_files
from drsr.offline.sandbox.workshop.workspace import read_database, write_database

_REPLIES = ("Yes, but grade it {grade}.", "Go ahead, with {grade}.", "Please do, as {grade}.")
_FINE = ("Yes, file it.", "Go ahead.", "Agreed.")


def prepare(dice: Random, root: Path) -> Scenario:
    tokens = [hexadecimal(dice, 4) for _ in range(4)]
    requests = [f"r{digits}" for digits in numbers(dice, 3, 5)]
    owners = people(dice, 4)
    page = dice.choice(("/orders", "/invoices", "/reviews", "/addresses"))
    log = [
        f"{requests[0]} {tokens[0]} {page}?id=1+OR+1=1 200",
        f"{requests[1]} {tokens[1]} {page}?id=1+OR+1=1 403",
        f"{requests[2]} {tokens[2]} {page}?id=7+OR+2=2 500",
        *(f"{requests[3 + n]} {tokens[n + 1]} {page}?id={number(dice, 3)} 200" for n in range(2)),
    ]
    dice.shuffle(log)
    usual, asked = dice.sample(("S1", "S2", "S3", "S4"), 2)
    corrected = dice.random() < 0.5
    write_files(
        root,
        {
            "access.log": "\n".join(log),
            "runbook.md": f"Injection with data loss: grade {usual}\nWithout data loss: grade S5\n"
            f"{filler_lines(dice, 1)[0]}",
        },
    )
    sessions = list(zip(tokens, owners, strict=True))
    write_database(root, {"sessions (token TEXT, owner TEXT)": sessions, "incidents (request TEXT, grade TEXT)": []})
    truth = {"request": requests[0], "owner": owners[0], "grade": asked if corrected else usual}
    reply = dice.choice(_REPLIES).format(grade=asked) if corrected else dice.choice(_FINE)
    return Scenario(
        dice.choice(FAMILY.prompts).format(shop=f"{dice.choice(COMPANIES)} {number(dice, 2)}"), truth, (reply,)
    )


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    filed = read_database(outcome.root, "SELECT request, grade FROM incidents")
    return filed == [(truth["request"], truth["grade"])]


FAMILY = read_family(__file__, prepare, done)
