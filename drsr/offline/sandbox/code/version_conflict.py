"""The resolver reports a conflict: choose the highest version that fits and is not withdrawn, pin it with its hash."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import NOUNS, filler_lines, hexadecimal, number, people, write_files

_TOOLS = ("read_file", "append_line", "replace_text", "run")
_PROMPTS = (
    "tools/resolve.py complains about apps/{app}.lock. Pin the highest version that fits and is not withdrawn "
    "(index/ has versions with their hashes), rerun, and note '<package> <version> <digest>' in pins.log. Tell me "
    "what you pinned and why.",
    "The lock file apps/{app}.lock no longer resolves. Please repair it with the best allowed version from index/ "
    "that is not withdrawn; keep version and hash together. Log '<package> <version> <digest>' in pins.log and "
    "sum up the change.",
    "Building {app} fails: run tools/resolve.py {app} and you will see. Fix apps/{app}.lock (index/ lists "
    "versions and hashes, some are withdrawn), then add '<package> <version> <digest>' to pins.log. Report "
    "package, version and digest.",
)
_RESOLVE = '''"""Check a lock file against what its packages need."""

import hashlib
import pathlib
import sys

app = sys.argv[1]
text = pathlib.Path(f"apps/{app}.lock").read_text()
pins = {line.split("==")[0]: line.split("==")[1].split()[0] for line in text.splitlines()}
for need in pathlib.Path("index/needs.txt").read_text().splitlines():
    package, _, wanted, low, _, high = need.split()
    if package in pins and not int(low) <= int(pins[wanted].split(".")[0]) < int(high):
        sys.exit(f"conflict: {package} needs {wanted} from {low} below {high}, but {pins[wanted]} is pinned")
print("resolved", len(pins), "packages, digest", hashlib.sha256(text.encode()).hexdigest()[:7])
'''


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    app, package, user, *rest = dice.sample(NOUNS, 6)
    app = f"{app}{number(dice, 2)}"
    low = dice.randrange(3, 8)
    high = low + 2
    old = f"{low - 1}.{dice.randrange(1, 20)}"
    fitting = [
        f"{low}.{dice.randrange(1, 20)}",
        f"{high - 1}.{dice.randrange(1, 9)}",
        f"{high - 1}.{dice.randrange(10, 20)}",
    ]
    versions = [old, *fitting, f"{high}.{dice.randrange(0, 5)}"]
    hashes = {version: hexadecimal(dice, 10) for version in versions}
    best = fitting[1]
    pins = [
        f"{name}=={dice.randrange(1, 9)}.{dice.randrange(1, 20)} hash {hexadecimal(dice, 10)}" for name in [user, *rest]
    ]
    pins.append(f"{package}=={old} hash {hashes[old]}")
    dice.shuffle(pins)
    withdrawn = [f"{rest[0]} {dice.randrange(1, 9)}.{dice.randrange(1, 9)}", f"{package} {fitting[2]}"]
    dice.shuffle(withdrawn)
    write_files(
        root,
        {
            f"apps/{app}.lock": "\n".join(pins),
            "index/needs.txt": f"{user} needs {package} {low} below {high}\n{rest[1]} needs {user} 0 below 99",
            f"index/{package}.txt": "\n".join(f"{version} {hashes[version]}" for version in versions),
            f"index/{rest[0]}.txt": f"2.1 {hexadecimal(dice, 10)}",
            "index/WITHDRAWN": "\n".join([*withdrawn, f"kept by {people(dice, 1)[0]}. {filler_lines(dice, 1)[0]}"]),
            "tools/resolve.py": _RESOLVE,
            "pins.log": f"{rest[2]} 1.{dice.randrange(2, 30)} {hexadecimal(dice, 7)}",
        },
    )
    truth = {"app": app, "package": package, "version": best, "hash": hashes[best]}
    return Scenario(dice.choice(_PROMPTS).format(app=app), truth)


def _app(mind: Mind) -> str:
    return mind.prompt(r"apps/(\w+)\.lock")


PACKAGE = said("conflict", r"needs (\w+) from \d", r"index/(\w+)\.txt$", r"lock\n(\w+)==")
RANGE = said("conflict", r"needs \w+ (from \d+ below \d+)")
PINNED = Fact("lock", lambda m: m.search(rf"^({m(PACKAGE)}==\S+ hash \w+)$"))


def _choice(mind: Mind) -> str | None:
    """`version hash` of the highest version in range that is not withdrawn; or as it was written since."""
    versions, withdrawn, wanted = mind.output("versions"), mind.output("lock.1"), RANGE.find(mind)
    if versions is None or withdrawn is None or wanted is None:
        return mind.search(rf"lock\n{mind(PACKAGE)}==\S+ hash \w+\n{mind(PACKAGE)}==(\S+ hash \w+)$")
    low, high = (int(word) for word in wanted.split() if word.isdigit())
    usable = [
        line for line in versions.splitlines() if f"{mind(PACKAGE)} {line.split()[0]}" not in withdrawn.splitlines()
    ]
    fitting = [line for line in usable if low <= int(line.split(".")[0]) < high]
    best = max(fitting, key=lambda line: [int(part) for part in line.split()[0].split(".")])
    return best.replace(" ", " hash ")


CHOICE = Fact("versions lock.1 conflict", _choice)
DIGEST = said("resolved", r"packages, digest (\w+)")


@move
def conflict(m: Mind) -> Message:
    return m.say(
        ["What does the resolver say?", "Reproducing the complaint.", "First the error itself."],
        call("run", command=f"python tools/resolve.py {_app(m)}"),
    )


@move
def lock(m: Mind) -> Message:
    return m.say(
        ["What is pinned, and what was withdrawn?", "Reading apps/{app}.lock and the withdrawn versions."],
        call("read_file", path=f"apps/{_app(m)}.lock"),
        call("read_file", path="index/WITHDRAWN"),
        app=_app(m),
    )


@move
def index(m: Mind) -> Message:
    return m.say(["What does the index hold?", "Listing the index."], call("run", command="ls index"))


@move
def versions(m: Mind) -> Message:
    return m.say(
        ["Which versions of {package} exist?", "The conflict is about {package}.", "Now the candidates."],
        call("read_file", path=f"index/{m(PACKAGE)}.txt"),
        package=PACKAGE,
    )


@move
def pin(m: Mind) -> Message:
    return m.say(
        ["{version} is the best that is left.", "Pinning the new version.", "Changing the pin of {package}."],
        call("replace_text", path=f"apps/{_app(m)}.lock", old=m(PINNED), new=f"{m(PACKAGE)}=={m(CHOICE)}"),
        thinks=["It has to be {range}, not withdrawn, and as high as possible: {version}."],
        version=m(CHOICE).split()[0],
        package=PACKAGE,
        range=RANGE,
    )


@move
def resolved(m: Mind) -> Message:
    return m.say(
        ["Does it resolve?", "Running the resolver again.", "Now for the digest."],
        call("run", command=f"python tools/resolve.py {_app(m)}"),
    )


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Into the log.", "Digest {digest}; noting it.", "The line for pins.log."],
        call("append_line", path="pins.log", line=f"{m(PACKAGE)} {m(CHOICE).split()[0]} {m(DIGEST)}"),
        digest=DIGEST,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{package} is pinned to {version} (hash {hash}). The lock resolves with digest {digest}.",
        "I moved {package} to {version}, hash {hash}; the resolver's digest is {digest}.",
        "Digest {digest}: {package} {version} with hash {hash} is the highest that fits.",
        package=PACKAGE,
        version=m(CHOICE).split()[0],
        hash=m(CHOICE).split()[2],
        digest=DIGEST,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([conflict, lock], [lock, conflict], [conflict, index, lock]))
    return mix(dice, [*look, versions, pin, resolved, log, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    pins = outcome.text(f"apps/{truth['app']}.lock").splitlines()
    logged = outcome.text("pins.log").splitlines()[-1].split()
    pinned = f"{truth['package']}=={truth['version']} hash {truth['hash']}" in pins
    right_log = logged[:2] == [truth["package"], truth["version"]] and logged[2] in outcome.answer
    return pinned and right_log and outcome.answer_names("package", "version", "hash")


FAMILY = Family(
    domain="code",
    name="version_conflict",
    system="You maintain lock files. A pin is a version together with its hash; withdrawn versions are taboo.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
