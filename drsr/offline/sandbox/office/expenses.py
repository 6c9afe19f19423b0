"""Audit a month of expenses: which receipt exceeds its limit, who must sign, and what the user decides on the limit."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import FIRST_NAMES, TEAMS, number, numbers, write_files

_KINDS = ("hotel", "taxi", "meals", "books", "tools", "phone")
_MONTHS = ("january", "march", "april", "june", "august", "october", "november")
_TOOLS = ("list", "read", "log")
_PROMPTS = (
    "Audit the {team} expenses of {month} ({month}.csv: receipt, person, kind, amount): which receipt is over its "
    "limit in limits.txt, by how much, and who has to sign (signing.txt)? Log '<receipt> <excess> <signer>'. "
    "Ask me about the limit before you write.",
    "In {month} one of the {team} receipts went over the limit ({month}.csv, limits.txt). Find it, and log '<receipt> "
    "<excess> <signer>' (signing.txt knows who signs). Check with me first whether the limit stands. "
    "Tell me receipt, excess and signer.",
    "Please go through {month}.csv (team {team}). One claim exceeds its limit in limits.txt. I want the line "
    "'<receipt> <excess> <signer>' in the log, see signing.txt, but confirm the limit with me beforehand. Then "
    "report all three.",
)
_RAISED = ("It is {limit} now.", "No, {limit} since last week.", "We raised it to {limit}.")
_STANDS = ("Yes, it stands.", "That is right, go ahead.", "Correct.")


class Claim(NamedTuple):
    receipt: str
    person: str
    kind: str
    amount: str


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
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
    return Scenario(dice.choice(_PROMPTS).format(team=team, month=month), truth, (reply,))


def _month(mind: Mind) -> str:
    return mind.prompt(rf"\b({'|'.join(_MONTHS)})\.csv")


def _claim(mind: Mind) -> Claim | None:
    """The claim over its limit, from table and limits, or as it was stated in the question."""
    table, limits = mind.output("claims"), mind.output("limits")
    if table is None or limits is None:
        stated = mind.search(r"(R\d{3} by \w+, \w+ \d+)")
        return Claim(*stated.replace(" by", "").replace(",", "").split()) if stated else None
    allowed = dict(line.split(" up to ") for line in limits.splitlines())
    claims = [Claim(*line.split(",")) for line in table.splitlines()]
    return next(claim for claim in claims if int(claim.amount) > int(allowed[claim.kind]))


CLAIM = Fact("limits claims", _claim)
LIMIT = Fact(
    "limits",
    lambda m: m.search(
        r"^It is (\d+) now\.$",
        r"^No, (\d+) since last week\.$",
        r"^We raised it to (\d+)\.$",
        rf"^{m(CLAIM).kind} up to (\d+)",
        r"limit (?:is )?(\d+)",
    ),
)
SIGNER = Fact("signing", lambda m: m.search(rf"^{m(CLAIM).person}: signed by (\w+)$", r"^R\d{3} \d+ (\w+)$"))


def _excess(mind: Mind) -> str:
    return str(int(mind(CLAIM).amount) - int(mind(LIMIT)))


@move
def claims(m: Mind) -> Message:
    return m.say(
        ["The receipts of {month}.", "Reading the claims.", "Now the table for {month}."],
        call("read", path=f"{_month(m)}.csv"),
        month=_month(m),
    )


@move
def limits(m: Mind) -> Message:
    return m.say(["And the limits.", "What is allowed per kind?"], call("read", path="limits.txt"))


@move
def signing(m: Mind) -> Message:
    return m.say(
        ["Who signs for whom?", "Looking up the signer."],
        call("read", path="signing.txt"),
    )


@question
def ask(m: Mind) -> Message:
    claim = m(CLAIM)
    return m.tell(
        "{receipt} by {person}, {kind} {amount}: the limit is {limit}. Right?",
        "I found {receipt} by {person}, {kind} {amount}. Is limit {limit} valid?",
        receipt=claim.receipt,
        person=claim.person,
        kind=claim.kind,
        amount=claim.amount,
        limit=LIMIT,
    )


@move
def report(m: Mind) -> Message:
    return m.say(
        ["Writing the report.", "That is {excess} too much."],
        call("log", line=f"{m(CLAIM).receipt} {_excess(m)} {m(SIGNER)}"),
        excess=_excess(m),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Receipt {receipt} of {person} is {excess} over; {signer} has to sign.",
        "{receipt} ({kind}): excess {excess}, to be signed by {signer}.",
        "{signer} must sign {receipt} for {person}, {excess} over.",
        brief=(
            "It is in the log: {receipt}, which is {excess} over the limit.",
            "Done: {receipt} is logged with an excess of {excess}.",
        ),
        receipt=m(CLAIM).receipt,
        person=m(CLAIM).person,
        kind=m(CLAIM).kind,
        excess=_excess(m),
        signer=SIGNER,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([claims, limits], [limits, claims]))
    return mix(dice, [*look, signing, ask, report, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    line = f"{truth['receipt']} {truth['excess']} {truth['signer']}"
    return outcome.last_line("log.txt") == line and outcome.answer_names(
        "receipt",
        "excess",
        "signer",
        brief=(
            "receipt",
            "excess",
        ),
    )


FAMILY = Family(
    domain="office",
    name="expenses",
    role="You check expense claims for the finance desk. Name amounts exactly and ask before you decide. Amounts are "
    "whole credits. A claim is over the limit when its amount is larger than what its kind allows; the excess is the "
    "difference. The user may know of a newer limit, and then that one counts.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
