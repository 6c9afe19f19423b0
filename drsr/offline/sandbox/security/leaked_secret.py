"""A key was committed: find it, rotate it with the approval code, replace it, and log who approved."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, filler_lines, hexadecimal, number, people, write_files

_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "The scanner says that a live key of the {service} service was committed. Find it, rotate it with "
    "tools/rotate.py, put the new key in its place and log the rotation in audit/rotations.csv. Report file, new "
    "key and approver.",
    "Someone checked in a real key for {service}. Please track it down, rotate it (tools/rotate.py does that), "
    "replace it where it stands, and add a line to audit/rotations.csv. Tell me which file it was, the new key, "
    "and who approved it.",
    "Rotate the leaked {service} key: locate it, run tools/rotate.py, update the file that holds it, extend "
    "audit/rotations.csv. In the end I want to know the file, the replacement key and the approving colleague.",
)
_ROTATE = '''"""Revoke a key and issue a new one."""

import hashlib
import pathlib
import sys

if len(sys.argv) != 4:
    sys.exit("usage: rotate.py SERVICE OLD_KEY APPROVAL_CODE")
service, old, code = sys.argv[1:]
if f"{service}: code {code}," not in pathlib.Path("policy/approvals.txt").read_text():
    sys.exit(f"refused: {code} is not the approval code of {service}")
new = "ak_live_" + hashlib.sha256(old.encode()).hexdigest()[:10]
print(f"revoked {old}")
print(f"issued {new} for {service}")
'''


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    service, *others = dice.sample(NOUNS, 4)
    key = f"ak_live_{hexadecimal(dice, 10)}"
    place = dice.choice(("deploy/{}.env", "deploy/{}-cron.env", "services/{}/local.ini", "services/{}/old.ini"))
    place = place.format(service)
    approvers = people(dice, 4)
    approvals = [
        f"{name}: code {number(dice, 6)}, approved by {approver}"
        for name, approver in zip([service, *others], approvers, strict=True)
    ]
    dice.shuffle(approvals)
    secrets = [f"{name}_KEY=vault:{name}/{number(dice, 3)}" for name in others[:2]]
    write_files(
        root,
        {
            f"services/{service}/settings.ini": f"[service]\nname = {service}\nport = {number(dice, 4)}\nkey = vault",
            f"services/{others[0]}/settings.ini": f"[service]\nname = {others[0]}\nkey = vault\nexample = ak_live_xxxx",
            place: "\n".join([f"REGION={dice.choice(('north', 'south', 'west'))}", *secrets, f"API_KEY={key}"]),
            f"deploy/{others[2]}.env": f"REGION=east\nAPI_KEY=vault:{others[2]}/{number(dice, 3)}",
            "policy/approvals.txt": "\n".join([*approvals, filler_lines(dice, 1)[0]]),
            "tools/rotate.py": _ROTATE,
            "audit/rotations.csv": f"service,old,new,approver\n{others[1]},ak_live_{hexadecimal(dice, 6)},revoked,"
            f"{dice.choice(approvers)}",
        },
    )
    return Scenario(
        dice.choice(_PROMPTS).format(service=service),
        {"service": service, "key": key, "place": place, "approver": approvers[0]},
    )


def _service(mind: Mind) -> str:
    return mind.prompt(r"(?:key of the|key for|leaked) ([a-z]+)\b")


PLACE = said("hits", r"^((?:deploy|services)/\S+?):\d+:API_KEY=", r"leaked in (\S+\.(?:env|ini))")
OLD_KEY = said("hits", r"API_KEY=(ak_live_[0-9a-f]{10})", r"revoked (ak_live_[0-9a-f]{10})")
CODE = Fact(
    "approvals",
    lambda m: m.search(rf"^{_service(m)}: code (\d+)", rf"rotate\.py {_service(m)} ak_live_[0-9a-f]+ (\d+)"),
)
APPROVER = Fact(
    "approvals", lambda m: m.search(rf"^{_service(m)}: code \d+, approved by (.+)$", r"approval of (\w+ \w+)\.")
)
NEW_KEY = said("rotate", r"issued (ak_live_[0-9a-f]{10})")


@move
def services(m: Mind) -> Message:
    return m.say(
        ["Which services live here?", "Looking at the services and the deploy files.", "Two folders could hold it."],
        call("run", command="ls services"),
        call("run", command="ls deploy"),
    )


@move
def hits(m: Mind) -> Message:
    return m.say(
        [
            "Searching for anything that looks like a live key.",
            "All live keys in the tree, please.",
            "Where is ak_live?",
        ],
        call("run", command="grep -rn ak_live services deploy audit | sort"),
    )


@move
def approvals(m: Mind) -> Message:
    return m.say(
        ["It leaked in {place}. Rotation needs an approval code.", "Which approval code belongs to {service}?"],
        call("read_file", path="policy/approvals.txt"),
        service=_service(m),
        place=PLACE,
    )


@move
def usage(m: Mind) -> Message:
    return m.say(
        ["Let me see what the tool expects.", "Trying the tool without anything but the service."],
        call("run", command=f"python tools/rotate.py {_service(m)}"),
    )


@move
def rotate(m: Mind) -> Message:
    return m.say(
        ["Rotating with the approval of {approver}.", "Now the rotation itself.", "Revoking {old}."],
        call("run", command=f"python tools/rotate.py {_service(m)} {m(OLD_KEY)} {m(CODE)}"),
        thinks=["Arguments in order: service, old key, code. The code for {service} is {code}."],
        approver=APPROVER,
        old=OLD_KEY,
        code=CODE,
        service=_service(m),
    )


@move
def replace(m: Mind) -> Message:
    return m.say(
        ["The new key goes where the old one was.", "Swapping the key in {place}.", "Putting {new} in place."],
        call("replace_text", path=m(PLACE), old=m(OLD_KEY), new=m(NEW_KEY)),
        place=PLACE,
        new=NEW_KEY,
    )


@move
def log(m: Mind) -> Message:
    line = f"{_service(m)},{m(OLD_KEY)},{m(NEW_KEY)},{m(APPROVER)}"
    return m.say(
        ["And the audit line.", "Logging the rotation.", "For the auditors, with {approver} as approver."],
        call("append_line", path="audit/rotations.csv", line=line),
        approver=APPROVER,
    )


@move
def verify(m: Mind) -> Message:
    return m.say(
        ["The old key must be gone.", "Making sure that nothing still uses the old key."],
        call("run", command=f"grep -rn {m(OLD_KEY)} services deploy"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The leaked key was in {place}. It is revoked and replaced by {new}; {approver} is on record as approver.",
        "Rotation finished: {place} now holds {new}, approved by {approver}. The old key no longer works.",
        "{approver} approved the rotation. The key stood in {place} and is now {new}.",
        place=PLACE,
        new=NEW_KEY,
        approver=APPROVER,
    )


def plan(dice: Random) -> list[Move]:
    opening = dice.choice(([services, hits, approvals], [hits, approvals], [approvals, services, hits]))
    tried = [usage] if dice.random() < 0.3 else []
    ending = dice.choice(([replace, log, verify], [log, replace], [replace, log]))
    return mix(dice, [*opening, *tried, rotate, *ending, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    log_line = outcome.text("audit/rotations.csv").splitlines()[-1].split(",")
    replaced = outcome.text(truth["place"])
    return (
        log_line[:2] == [truth["service"], truth["key"]]
        and log_line[3] == truth["approver"]
        and truth["key"] not in replaced
        and f"API_KEY={log_line[2]}" in replaced
        and log_line[2] in outcome.answer
        and outcome.answer_names("place", "approver")
    )


FAMILY = Family(
    domain="security",
    name="leaked_secret",
    system="You look after keys and passwords of a small company. Never guess a key; look it up.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
