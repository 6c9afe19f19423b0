"""An access log shows an injected query that worked: whose session was it, end it, and file an incident."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import COMPANIES, filler_lines, hexadecimal, number, numbers, people, write_files

_TOOLS = ("read_file", "sql", "run")
_PROMPTS = (
    "The access log of the {shop} shop shows attempts to inject SQL. Find the request that succeeded, end that "
    "session in accounts.db, and insert an incident (request, user_id, grade) as the runbook says. Report user, "
    "request id and incident grade.",
    "Look into the injection attempts on {shop} (logs/access.log). One of them worked. Deactivate its session "
    "(accounts.db), add a row to the table incidents with request, user_id and grade, and tell me user, request "
    "id and grade.",
    "Somebody tried SQL injection on the shop of {shop}. Which request got data out, and through whose session? "
    "Close the session in accounts.db, file the incident there (request, user_id, grade per runbook), then sum up "
    "user, request id and grade.",
)
_REPLIES = (
    "Yes, close it. Use grade {grade} though, the customer is under contract.",
    "Go ahead, but grade it {grade}, this is not the first time.",
    "Please do. The grade should be {grade} this time.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    tokens = [hexadecimal(dice, 8) for _ in range(5)]
    requests = [f"r{digits}" for digits in numbers(dice, 5, 7)]
    names, ids = people(dice, 5), numbers(dice, 3, 5)
    page = dice.choice(("/orders", "/invoices", "/reviews", "/addresses"))
    log = [
        f"{requests[0]} {tokens[0]} GET {page}?id=1'+OR+1=1 200 {dice.randrange(40_000, 90_000)}",
        f"{requests[1]} {tokens[1]} GET {page}?id=1'+OR+1=1 403 {number(dice, 3)}",
        f"{requests[2]} {tokens[2]} GET {page}?id=7'+OR+2=2 500 {number(dice, 3)}",
        *(f"{requests[3 + n]} {tokens[n + 1]} GET {page}?id={number(dice, 4)} 200 {number(dice, 4)}" for n in range(4)),
    ]
    dice.shuffle(log)
    usual, asked = dice.sample(("S1", "S2", "S3", "S4"), 2)
    corrected = dice.random() < 0.5
    write_files(
        root,
        {
            "logs/access.log": "\n".join(log),
            "runbook.md": f"Injection with data loss: grade {usual}.\nInjection without data loss: grade S5.\n"
            f"Tell the user within {dice.randrange(12, 72)} hours.\n{filler_lines(dice, 1)[0]}",
        },
    )
    with closing(sqlite3.connect(root / "accounts.db")) as database:
        database.execute("CREATE TABLE sessions (token TEXT, user_id INTEGER, active INTEGER)")
        database.execute("CREATE TABLE users (user_id INTEGER, full_name TEXT, phone TEXT)")
        database.execute("CREATE TABLE incidents (request TEXT, user_id INTEGER, grade TEXT)")
        database.executemany("INSERT INTO sessions VALUES (?, ?, 1)", zip(tokens, ids, strict=True))
        phones = [f"0{number(dice, 3)}-{number(dice, 5)}" for _ in names]
        database.executemany("INSERT INTO users VALUES (?, ?, ?)", zip(ids, names, phones, strict=True))
        database.commit()
    truth = {
        "token": tokens[0],
        "request": requests[0],
        "user": names[0],
        "id": ids[0],
        "grade": asked if corrected else usual,
    }
    ok = dice.choice(("Yes, please close it.", "Fine with me, go ahead.", "Agreed, end it."))
    reply = dice.choice(_REPLIES).format(grade=asked) if corrected else ok
    return Scenario(dice.choice(_PROMPTS).format(shop=f"{dice.choice(COMPANIES)} {number(dice, 2)}"), truth, (reply,))


_HIT = r"OR\+\d=\d 200 \d+"
REQUEST = said("attempts", rf"^(r\d+) \w+ GET \S+{_HIT}", r"request (r\d{5})", r"VALUES \('(r\d{5})'")
TOKEN = said("attempts", rf"^r\d+ (\w+) GET \S+{_HIT}", r"token = '(\w+)'", r"[Ss]ession ([0-9a-f]{8})\b")
USER_ID = Fact("session", lambda m: m.search(rf"^{m(TOKEN)} \| (\d+) \| [01]$", r"user_id = (\d+)", r"user (\d{3})\b"))
USER = said("user", r"^(\w+ \w+) \| 0\d+-\d+$", r"(?:belongs to|of) ([A-Z]\w+ [A-Z]\w+)[. ]+(?:Shall|was)")
GRADE = said(
    "runbook", r"(?:Use grade|grade it|grade should be) (S\d)", r"with data loss: grade (S\d)", r", '(S\d)'\)$"
)


@move
def attempts(m: Mind) -> Message:
    return m.say(
        ["Let me filter the log for injected conditions.", "Which requests carry an injected condition?"],
        call("run", command="grep OR+ logs/access.log"),
    )


@move
def tables(m: Mind) -> Message:
    return m.say(
        ["What does the database look like?", "The tables of the account database."],
        call("sql", database="accounts.db", query="SELECT name FROM sqlite_master ORDER BY name"),
    )


@move
def wrong_column(m: Mind) -> Message:
    return m.say(
        ["Looking the session up by its id.", "Sessions probably have an id column."],
        call("sql", database="accounts.db", query="SELECT user_id FROM sessions WHERE id = 1"),
    )


@move
def session(m: Mind) -> Message:
    return m.say(
        ["Only {request} returned data. Whose session is that?", "The one with status 200 matters: session {token}."],
        call("sql", database="accounts.db", query=f"SELECT * FROM sessions WHERE token = '{m(TOKEN)}'"),
        thinks=["Status 403 and 500 mean that it failed. {request} got 200 and many bytes."],
        request=REQUEST,
        token=TOKEN,
    )


@move
def user(m: Mind) -> Message:
    return m.say(
        ["And who is user {id}?", "Now the name behind it.", "Getting name and phone of the user."],
        call("sql", database="accounts.db", query=f"SELECT full_name, phone FROM users WHERE user_id = {m(USER_ID)}"),
        id=USER_ID,
    )


@move
def runbook(m: Mind) -> Message:
    return m.say(
        ["The runbook has the grades.", "How is such an incident graded?", "What does the runbook want?"],
        call("read_file", path="runbook.md"),
    )


@question
def ask(m: Mind) -> Message:
    return m.tell(
        "The request {request} used the session {token}; it belongs to {user}. Shall I close that session?",
        "Session {token} of {user} was used for request {request}. May I end it now?",
        request=REQUEST,
        token=TOKEN,
        user=USER,
    )


@move
def incident(m: Mind) -> Message:
    values = f"('{m(REQUEST)}', {m(USER_ID)}, '{m(GRADE)}')"
    return m.say(
        [
            "Closing {token} and filing the incident.",
            "Both statements now.",
            "Ending it; grade {grade} for the incident.",
        ],
        call("sql", database="accounts.db", query=f"UPDATE sessions SET active = 0 WHERE token = '{m(TOKEN)}'"),
        call("sql", database="accounts.db", query=f"INSERT INTO incidents (request, user_id, grade) VALUES {values}"),
        token=TOKEN,
        grade=GRADE,
    )


@move
def verify(m: Mind) -> Message:
    return m.say(
        ["Is the session really closed?", "A last look at both tables."],
        call("sql", database="accounts.db", query=f"SELECT active FROM sessions WHERE token = '{m(TOKEN)}'"),
        call("sql", database="accounts.db", query="SELECT count(*) FROM incidents"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "It was the account of {user}: request {request} got data out. The session is closed; incident grade {grade}.",
        "{request} succeeded, through a session of {user}. I closed it and filed the incident with grade {grade}.",
        "Filed with grade {grade}: {user}, request {request}. The session cannot be used any more.",
        user=USER,
        request=REQUEST,
        grade=GRADE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([attempts], [tables, attempts], [attempts, wrong_column, tables], [attempts]))
    middle = dice.choice(([session, user, runbook], [runbook, session, user], [session, runbook, user]))
    checked = [verify] if dice.random() < 0.3 else []
    return mix(dice, [*look, *middle, ask, incident, *checked, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    with closing(sqlite3.connect(outcome.root / "accounts.db")) as database:
        ended = database.execute("SELECT token FROM sessions WHERE active = 0").fetchall()
        filed = database.execute("SELECT request, user_id, grade FROM incidents").fetchall()
    expected = (truth["request"], int(truth["id"]), truth["grade"])
    return ended == [(truth["token"],)] and filed == [expected] and outcome.answer_names("user", "request", "grade")


FAMILY = Family(
    domain="security",
    name="stolen_session",
    system="You investigate attacks on a web shop. You may read logs and work on the account database.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
