"""Audit a month of expenses: which receipt exceeds its limit, who must sign, and what the user decides on the limit."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import FIRST_NAMES, TEAMS, number, numbers, write_files

_KINDS = ("hotel", "taxi", "meals", "books", "tools", "phone")
_MONTHS = ("january", "march", "april", "june", "august", "october", "november")
_RAISED = ("It is {limit} now.", "No, {limit} since last week.", "We raised it to {limit}.")
_STANDS = ("Yes, it stands.", "That is right, go ahead.", "Correct.")


class Claim(NamedTuple):
    receipt: str
    person: str
    kind: str
    amount: str


def prepare(dice: Random, root: Path) -> Scenario:
    team, month = f"{dice.choice(TEAMS)}-{number(dice, 2)}", dice.choice(_MONTHS)
    kinds = dice.sample(_KINDS, 3)
    limits = {kind: dice.randrange(40, 400) for kind in kinds}
    names, signers = dice.sample(FIRST_NAMES, 3), dice.sample(FIRST_NAMES, 3)
    receipts = [f"R{digits}" for digits in numbers(dice, 3, 4)]
    over = dice.randrange(30, 90)
    claims = [Claim(receipts[0], names[0], kinds[0], str(limits[kinds[0]] + over))]
    claims += [
        Claim(receipt, dice.choice(names), kind, str(limits[kind] - dice.randrange(5, 39)))
        for receipt, kind in zip(receipts[1:], kinds, strict=True)
    ]
    dice.shuffle(claims)
    raised = dice.random() < 0.5
    new_limit = limits[kinds[0]] + dice.randrange(5, 25)
    staff = [f"{name}: signed by {signer}" for name, signer in zip(names, signers, strict=True)]
    dice.shuffle(staff)
    write_files(
        root,
        {
            f"{month}.csv": "\n".join(",".join(claim) for claim in claims),
            "limits.txt": "\n".join(f"{kind} up to {limits[kind]}" for kind in sorted(kinds)),
            "signing.txt": "\n".join(staff),
        },
    )
    limit = new_limit if raised else limits[kinds[0]]
    truth = {"receipt": receipts[0], "excess": str(limits[kinds[0]] + over - limit), "signer": signers[0]}
    reply = dice.choice(_RAISED).format(limit=new_limit) if raised else dice.choice(_STANDS)
    return Scenario(dice.choice(FAMILY.prompts).format(team=team, month=month), truth, (reply,))


def _claim(mind: Mind) -> Claim | None:
    """The claim over its limit, from table and limits, or as it was stated in the question."""
    table, limits = mind.output("claims"), mind.output("limits")
    if table is None or limits is None:
        stated = mind.search(r"(R\d{3} by \w+, \w+ \d+)")
        return Claim(*stated.replace(" by", "").replace(",", "").split()) if stated else None
    allowed = dict(line.split(" up to ") for line in limits.splitlines())
    claims = [Claim(*line.split(",")) for line in table.splitlines()]
    return next(claim for claim in claims if int(claim.amount) > int(allowed[claim.kind]))


def _excess(mind: Mind) -> str:
    return str(int(mind["claim"].amount) - int(mind["limit"]))


FAMILY = read_family(__file__, prepare, claim=_claim, excess=_excess)
