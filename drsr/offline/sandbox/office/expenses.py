"""Audit a month of expenses: which receipt exceeds its limit, who must sign, and what the user decides on the limit."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import (
    TEAMS,
    cents,
    filler_lines,
    mail_address,
    money,
    number,
    numbers,
    people,
    write_files,
)

_KINDS = ("hotel", "taxi", "meals", "books", "tools", "phone")
_MONTHS = ("january", "march", "april", "june", "august", "october", "november")
_TOOLS = ("list_dir", "read_file", "write_file")
_PROMPTS = (
    "Audit the {team} expenses of {month}: which receipt is over its limit, by how much, and who has to sign? "
    "Write reports/{month}.txt with receipt, excess and the signer's mail address. Ask me about the limit before "
    "you write.",
    "In {month} one of the {team} receipts went over the limit. Find it, and write receipt, excess and signer's "
    "mail address to reports/{month}.txt. Check with me first whether the limit stands.",
    "Please go through expenses/{month}.csv (team {team}). One claim exceeds its limit. I want "
    "reports/{month}.txt with receipt, excess and signer (mail address), but confirm the limit with me "
    "beforehand.",
)
_RAISED = (
    "The limit for {kind} was raised to {limit} last week, use that.",
    "Not quite: {kind} is allowed up to {limit} now. Please use the new limit.",
    "We agreed on {limit} for {kind}, so take that instead.",
)
_STANDS = ("Yes, the limit stands.", "That limit is right, go ahead.", "Correct, no change there.")


class Claim(NamedTuple):
    receipt: str
    person: str
    kind: str
    amount: str


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    team, month = f"{dice.choice(TEAMS)}-{number(dice, 2)}", dice.choice(_MONTHS)
    kinds = dice.sample(_KINDS, 4)
    limits = {kind: dice.randrange(40, 400) * 100 for kind in kinds}
    names, signers = people(dice, 5), people(dice, 6)[3:]
    receipts = [f"R{digits}" for digits in numbers(dice, 5, 5)]
    over = dice.randrange(3_000, 9_000)
    claims = [Claim(receipts[0], names[0], kinds[0], money(limits[kinds[0]] + over))]
    claims += [
        Claim(receipt, dice.choice(names), kind, money(limits[kind] - dice.randrange(500, 3_900)))
        for receipt, kind in zip(receipts[1:], kinds, strict=True)
    ]
    dice.shuffle(claims)
    raised = dice.random() < 0.5
    new_limit = limits[kinds[0]] + dice.randrange(5, 25) * 100
    staff = [f"{name}: signed off by {signers[place % 3]}" for place, name in enumerate(names)]
    dice.shuffle(staff)
    write_files(
        root,
        {
            f"expenses/{month}.csv": "\n".join(["receipt,person,kind,amount", *(",".join(claim) for claim in claims)]),
            "expenses/limits.txt": "\n".join(f"{kind} up to {money(limits[kind])}" for kind in sorted(kinds)),
            "staff/signing.txt": "\n".join([*staff, filler_lines(dice, 1)[0]]),
            f"reports/{'may' if month == 'june' else 'june'}.txt": f"receipt: R{number(dice, 5)}\nexcess: 0.00",
        },
    )
    limit = new_limit if raised else limits[kinds[0]]
    excess = money(limits[kinds[0]] + over - limit)
    truth = {"month": month, "receipt": receipts[0], "excess": excess, "signer": mail_address(signers[0])}
    reply = dice.choice(_RAISED).format(kind=kinds[0], limit=money(new_limit)) if raised else dice.choice(_STANDS)
    return Scenario(dice.choice(_PROMPTS).format(team=team, month=month), truth, (reply,))


def _month(mind: Mind) -> str:
    return mind.prompt(rf"\b({'|'.join(_MONTHS)})\b")


def _claim(mind: Mind) -> Claim | None:
    """The claim over its limit, from table and limits, or as it was stated in the question."""
    table, limits = mind.output("claims"), mind.output("limits")
    if table is None or limits is None:
        stated = mind.search(r"(R\d{5} by \w+ \w+ \(\w+, \d+\.\d\d\))")
        return Claim(*stated.rstrip(")").replace(" by ", ", ").replace(" (", ", ").split(", ")) if stated else None
    allowed = dict(line.split(" up to ") for line in limits.splitlines())
    claims = [Claim(*line.split(",")) for line in table.splitlines()[1:]]
    return next(claim for claim in claims if cents(claim.amount) > cents(allowed[claim.kind]))


CLAIM = Fact("limits claims", _claim)


def _limit(mind: Mind) -> str | None:
    kind = mind(CLAIM).kind
    return mind.search(
        rf"for {kind} was raised to (\d+\.\d\d)",
        rf"{kind} is allowed up to (\d+\.\d\d)",
        rf"agreed on (\d+\.\d\d) for {kind}",
        rf"^{kind} up to (\d+\.\d\d)",
        rf"limit for {kind} is (\d+\.\d\d)",
    )


LIMIT = Fact("limits", _limit)
SIGNER = Fact("signing", lambda m: m.search(rf"^{m(CLAIM).person}: signed off by (.+)$", r"(\w+ \w+) has to sign"))


def _excess(mind: Mind) -> str:
    return money(cents(mind(CLAIM).amount) - cents(mind(LIMIT)))


@move
def months(m: Mind) -> Message:
    return m.say(
        ["What is in the expenses folder?", "Which files do we have, and are there older reports?"],
        call("list_dir", path="expenses"),
        call("list_dir", path="reports"),
    )


@move
def claims(m: Mind) -> Message:
    return m.say(
        ["The receipts of {month}.", "Reading the claims.", "Now the table for {month}."],
        call("read_file", path=f"expenses/{_month(m)}.csv"),
        month=_month(m),
    )


@move
def limits(m: Mind) -> Message:
    return m.say(["And the limits.", "What is allowed per kind?"], call("read_file", path="expenses/limits.txt"))


@move
def signing(m: Mind) -> Message:
    return m.say(
        ["{receipt} is too high. Who signs for {person}?", "Who signs for whom?", "Looking up the signer."],
        call("read_file", path="staff/signing.txt"),
        receipt=m(CLAIM).receipt,
        person=m(CLAIM).person,
    )


@question
def ask(m: Mind) -> Message:
    claim = m(CLAIM)
    return m.tell(
        "It is {receipt} by {person} ({kind}, {amount}). The limit for {kind} is {limit}. Does it stand?",
        "I found {receipt} by {person} ({kind}, {amount}); the limit for {kind} is {limit}. Is that still right?",
        receipt=claim.receipt,
        person=claim.person,
        kind=claim.kind,
        amount=claim.amount,
        limit=LIMIT,
    )


@move
def report(m: Mind) -> Message:
    claim, signer = m(CLAIM), mail_address(m(SIGNER))
    content = f"receipt: {claim.receipt}\nexcess: {_excess(m)}\nsigner: {signer}"
    return m.say(
        ["Writing the report.", "That is {excess} too much.", "{signer} has to sign. Writing it down."],
        call("write_file", path=f"reports/{_month(m)}.txt", content=content),
        thinks=["The claim is {amount} and the limit {limit}, so the excess is {excess}."],
        amount=claim.amount,
        limit=LIMIT,
        excess=_excess(m),
        signer=SIGNER,
    )


@move
def proofread(m: Mind) -> Message:
    return m.say(["Reading it back.", "One look at the result."], call("read_file", path=f"reports/{_month(m)}.txt"))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Receipt {receipt} is {excess} over the limit; {signer} has to sign it.",
        "The report for {month} is written: {receipt}, excess {excess}, to be signed by {signer}.",
        "{signer} must sign {receipt}, which exceeds the limit by {excess}.",
        receipt=m(CLAIM).receipt,
        excess=_excess(m),
        signer=mail_address(m(SIGNER)),
        month=_month(m),
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([claims, limits], [limits, claims], [months, claims, limits], [limits, claims]))
    middle = dice.choice(([signing, ask], [ask, signing]))
    ending = [report, proofread, answer] if dice.random() < 0.3 else [report, answer]
    return mix(dice, [*look, *middle, *ending], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lines = outcome.text(f"reports/{truth['month']}.txt").splitlines()
    written = all(f"{name}: {truth[name]}" in lines for name in ("receipt", "excess", "signer"))
    return written and outcome.answer_names("receipt", "excess", "signer")


FAMILY = Family(
    domain="office",
    name="expenses",
    system="You check expense claims for the finance desk. Name amounts exactly and ask before you decide.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
