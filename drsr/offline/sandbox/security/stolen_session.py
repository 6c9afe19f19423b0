"""An access log shows an injected query that worked: whose session was it, how is it graded, file an incident."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import COMPANIES, filler_lines, hexadecimal, number, numbers, people, write_files
from drsr.offline.sandbox.workshop.workspace import DATABASE

_TOOLS = ("read", "sql", "run")
_PROMPTS = (
    "The access.log of the {shop} shop (request, token, path, status) shows attempts to inject SQL. Find the request "
    "that succeeded and whose session it was (table sessions: token, owner), and insert into incidents (request, "
    "grade) as runbook.md says. Ask me before you file it. Report owner, request and grade.",
    "Look into the injection attempts on {shop} (access.log: request, token, path, status). One of them worked. Find "
    "the owner of its session (table sessions: token, owner), propose it to me, add a row to the table incidents "
    "(request, grade; see runbook.md), and tell me owner, request and grade.",
    "Somebody tried SQL injection on the shop of {shop}. Which request in access.log (request, token, path, status) "
    "got data out, and through whose session (table sessions: token, owner)? Check with me, file the incident (table "
    "incidents: request, grade per runbook.md), then sum up owner, request and grade.",
)
_REPLIES = ("Yes, but grade it {grade}.", "Go ahead, with {grade}.", "Please do, as {grade}.")
_FINE = ("Yes, file it.", "Go ahead.", "Agreed.")


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
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
    with closing(sqlite3.connect(root / DATABASE)) as database:
        database.execute("CREATE TABLE sessions (token TEXT, owner TEXT)")
        database.execute("CREATE TABLE incidents (request TEXT, grade TEXT)")
        database.executemany("INSERT INTO sessions VALUES (?, ?)", zip(tokens, owners, strict=True))
        database.commit()
    truth = {"request": requests[0], "owner": owners[0], "grade": asked if corrected else usual}
    reply = dice.choice(_REPLIES).format(grade=asked) if corrected else dice.choice(_FINE)
    return Scenario(dice.choice(_PROMPTS).format(shop=f"{dice.choice(COMPANIES)} {number(dice, 2)}"), truth, (reply,))


REQUEST = said("attempts", r"^(r\d+) \w+ \S+OR\+\d=\d 200$", r"[Rr]equest (r\d{3})", r"VALUES \('(r\d{3})'")
TOKEN = said("attempts", r"^r\d+ (\w+) \S+OR\+\d=\d 200$", r"token = '(\w+)'")
OWNER = said("session", r"^owner\n(\w+ \w+)$", r"(?:belongs to|session of) ([A-Z]\w+ [A-Z]\w+)")
GRADE = said("runbook", r"(?:but grade it|with|as) (S[1-4])\.$", r"with data loss: grade (S\d)", r", '(S\d)'\)$")


@move
def attempts(m: Mind) -> Message:
    return m.say(
        ["Let me filter the log for injected conditions.", "Which requests carry an injected condition?"],
        call("run", command="grep OR access.log"),
    )


@move
def wrong_column(m: Mind) -> Message:
    return m.say(
        ["Looking the session up by its id.", "Sessions probably have an id column."],
        call("sql", query="SELECT owner FROM sessions WHERE id = 1"),
    )


@move
def session(m: Mind) -> Message:
    return m.say(
        ["Only {request} returned data. Whose session is that?", "The one with status 200 matters.", "Whose is it?"],
        call("sql", query=f"SELECT owner FROM sessions WHERE token = '{m(TOKEN)}'"),
        thinks=["Status 403 and 500 mean that it failed. {request} got 200."],
        request=REQUEST,
    )


@move
def runbook(m: Mind) -> Message:
    return m.say(
        ["The runbook has the grades.", "How is such an incident graded?", "What does the runbook want?"],
        call("read", path="runbook.md"),
    )


@question
def ask(m: Mind) -> Message:
    return m.tell(
        "Request {request} worked; it belongs to {owner}. Shall I file it?",
        "It was {request}, by a session of {owner}. File it?",
        request=REQUEST,
        owner=OWNER,
    )


@move
def incident(m: Mind) -> Message:
    return m.say(
        ["Filing it.", "Now the incident."],
        call("sql", query=f"INSERT INTO incidents VALUES ('{m(REQUEST)}', '{m(GRADE)}')"),
    )


@move
def verify(m: Mind) -> Message:
    return m.say(["Is it there?", "A last look."], call("sql", query="SELECT count(*) FROM incidents"))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{request} got data out through a session of {owner}; filed with grade {grade}.",
        "{owner}, request {request}, incident grade {grade}.",
        "Filed with grade {grade}: {owner}, request {request}.",
        brief=(
            "The incident is filed: request {request}, grade {grade}.",
            "Done, {request} is on record with grade {grade}.",
        ),
        owner=OWNER,
        request=REQUEST,
        grade=GRADE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([attempts, session, runbook], [runbook, attempts, session], [attempts, runbook, session]))
    if dice.random() < 0.15:
        look.insert(1, wrong_column)
    ending = [ask, incident, verify] if dice.random() < 0.15 else [ask, incident]
    return mix(dice, [*look, *ending, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / DATABASE)) as database:
        filed = database.execute("SELECT request, grade FROM incidents").fetchall()
    return filed == [(truth["request"], truth["grade"])] and outcome.answer_names(
        "owner",
        "request",
        "grade",
        brief=(
            "request",
            "grade",
        ),
    )


FAMILY = Family(
    domain="security",
    name="stolen_session",
    role="You investigate attacks on a web shop. You may read logs and work on the account database. Only a request "
    "with status 200 got data out; others were refused or broke. Incidents are graded by the runbook unless the user "
    "says otherwise, and filed once.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
