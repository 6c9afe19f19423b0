"""A key was committed: find it, have the user agree, rotate it with the approval code, and say who approved."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, hexadecimal, number, write_files

_TOOLS = ("read", "run")
_PROMPTS = (
    "The scanner says that a live key of the {service} service was committed below env. Find it, and after asking me "
    "rotate it with 'python rotate.py <file> <code>' (codes are in approvals.txt). Report file, new key and approver.",
    "Someone checked in a real key for {service}, somewhere in env. Please track it down and rotate it, but ask me "
    "first ('python rotate.py <file> <code>' does it, approvals.txt has the code). Tell me which file it was, the new "
    "key, and who approved it.",
    "Rotate the leaked {service} key: locate it in env, check with me, run 'python rotate.py <file> <code>' with the "
    "code from approvals.txt. In the end I want to know the file, the replacement key and the approving colleague.",
)
_ROTATE = """import hashlib, pathlib, sys
if len(sys.argv) != 3:
    sys.exit("usage: rotate.py FILE CODE")
file, code = pathlib.Path(sys.argv[1]), sys.argv[2]
if "{service}: code " + code + "," not in pathlib.Path("approvals.txt").read_text():
    sys.exit("refused: wrong code")
old = "ak_" + file.read_text().split("ak_")[1][:4]
new = "ak_" + hashlib.sha256(old.encode()).hexdigest()[:4]
file.write_text(file.read_text().replace(old, new))
print("issued", new)
"""


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    service, *others = dice.sample(NOUNS, 4)
    key = f"ak_{hexadecimal(dice, 4)}"
    place = f"env/{others[0]}"
    approvers = dice.sample(FIRST_NAMES, 2)
    approvals = [
        f"{name}: code {number(dice, 3)}, approved by {approver}"
        for name, approver in zip([service, others[1]], approvers, strict=True)
    ]
    dice.shuffle(approvals)
    write_files(
        root,
        {
            place: f"REGION={dice.choice(('north', 'south', 'west'))}\nKEY={key}",
            f"env/{others[1]}": f"KEY=vault:{number(dice, 3)}",
            f"env/{others[2]}": f"REGION=east\nKEY=vault:{number(dice, 3)}",
            "approvals.txt": "\n".join(approvals),
            "rotate.py": _ROTATE.replace("{service}", service),
        },
    )
    truth = {"key": key, "place": place, "approver": approvers[0]}
    return Scenario(dice.choice(_PROMPTS).format(service=service), truth, (dice.choice(CONSENT),))


def _service(mind: Mind) -> str:
    return mind.prompt(r"(?:key of the|key for|leaked) ([a-z]+)\b")


PLACE = said("hits", r"^(env/\w+):KEY=ak_", r"rotate\.py (env/\w+) \d", r"key in (env/\w+)", r"in (env/\w+)\. Rotate")
CODE = Fact("approvals", lambda m: m.search(rf"^{_service(m)}: code (\d+)", r"rotate\.py \S+ (\d+)$"))
APPROVER = Fact("approvals", lambda m: m.search(rf"^{_service(m)}: code \d+, approved by (\w+)$"))
NEW_KEY = said("rotate", r"issued (ak_\w{4})")


@move
def hits(m: Mind) -> Message:
    return m.say(
        ["Searching for anything that looks like a key.", "All keys in env, please.", "Where is the key?"],
        call("run", command="grep -r KEY env | sort"),
    )


@move
def approvals(m: Mind) -> Message:
    return m.say(
        ["Rotation needs a code.", "Which code belongs to {service}?", "Now the approvals."],
        call("read", path="approvals.txt"),
        service=_service(m),
    )


@move
def usage(m: Mind) -> Message:
    return m.say(
        ["Let me see what the tool expects.", "Trying the tool without anything."],
        call("run", command="python rotate.py"),
    )


@question
def ask(m: Mind) -> Message:
    return m.tell("It is the key in {place}. May I?", "It leaked in {place}. Rotate it?", place=PLACE)


@move
def rotate(m: Mind) -> Message:
    return m.say(
        ["Now the rotation itself.", "Rotating it."],
        call("run", command=f"python rotate.py {m(PLACE)} {m(CODE)}"),
    )


@move
def verify(m: Mind) -> Message:
    return m.say(["Is the new key in place?", "A last look."], call("run", command=f"tail -n 1 {m(PLACE)}"))


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The key was in {place} and is now {new}; {approver} approved it.",
        "{place} now holds {new}, approved by {approver}.",
        "{approver} approved: the key in {place} is now {new}.",
        brief=("The key in {place} is rotated; it is {new} from now on.", "Done: {place} has the new key {new}."),
        place=PLACE,
        new=NEW_KEY,
        approver=APPROVER,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([hits, approvals], [approvals, hits], [hits, usage, approvals]))
    work = dice.choice(([ask, rotate], [ask, rotate], [ask, rotate, verify]))
    return mix(dice, [*look, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    replaced = outcome.last_line(truth["place"]).removeprefix("KEY=")
    return (
        replaced.startswith("ak_")
        and replaced != truth["key"]
        and replaced in outcome.answer
        and outcome.answer_names("place", "approver", brief=("place",))
    )


FAMILY = Family(
    domain="security",
    name="leaked_secret",
    role="You look after keys and passwords of a small company. Never guess a key; look it up. A key that was seen "
    "by others is rotated, which takes the code that a colleague approved for that service, and the word of the user. "
    "Keys that point to the vault are fine and stay as they are. A file below env may be named after anything.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
