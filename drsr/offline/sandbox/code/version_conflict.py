"""The resolver reports a conflict: choose the highest version that fits and is not withdrawn, pin it with its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, hexadecimal, number, write_files

_TOOLS = ("read", "log", "replace", "run")
_PROMPTS = (
    "resolve.py complains about {app}.lock. Pin the highest version that fits and is not withdrawn (index/ has "
    "versions with their hashes), rerun, and log '<package> <version> <digest>'. Tell me what you pinned, its hash, "
    "and which package needs it.",
    "The lock file {app}.lock no longer resolves (run resolve.py). Please repair it with the best allowed version from "
    "index/ that is not withdrawn; keep version and hash together. Log '<package> <version> <digest>' and sum up "
    "package, version, hash and who needs it.",
    "Building {app} fails: run resolve.py and you will see. Fix {app}.lock (index/ lists versions and hashes, some are "
    "withdrawn), then log '<package> <version> <digest>'. Report package, version and hash, and the package that needs "
    "it.",
)
_RESOLVE = """import hashlib, pathlib, sys
text = pathlib.Path("{app}.lock").read_text()
pins = {{line.split()[0]: line for line in text.splitlines()}}
if not {low} <= int(pins["{package}"].split()[1].split(".")[0]) < {high}:
    sys.exit("conflict: {user} needs {package} from {low} below {high}, but the pin is " + pins["{package}"])
print("resolved, digest", hashlib.sha256(text.encode()).hexdigest()[:4])
"""


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    app, package, user, other = dice.sample(NOUNS, 4)
    app = f"{app}{number(dice, 1)}"
    low = dice.randrange(3, 8)
    high = low + 2
    old = f"{low - 1}.{dice.randrange(1, 9)}"
    small, large = sorted(dice.sample(range(1, 10), 2))
    versions = [old, f"{high - 1}.{small}", f"{high - 1}.{large}"]
    hashes = {version: hexadecimal(dice, 3) for version in versions}
    best = versions[1]
    pins = [f"{name} {dice.randrange(1, 9)}.{dice.randrange(1, 20)} {hexadecimal(dice, 3)}" for name in (user, other)]
    pins.append(f"{package} {old} {hashes[old]}")
    dice.shuffle(pins)
    listed = [f"{version} {hashes[version]}" for version in versions]
    write_files(
        root,
        {
            f"{app}.lock": "\n".join(pins),
            f"index/{package}.txt": "\n".join([*listed[:2], f"{listed[2]} withdrawn by {dice.choice(FIRST_NAMES)}"]),
            f"index/{other}.txt": f"2.1 {hexadecimal(dice, 4)}",
            "resolve.py": _RESOLVE.format(app=app, package=package, user=user, low=low, high=high),
        },
    )
    truth = {"app": app, "package": package, "version": best, "hash": hashes[best], "user": user}
    return Scenario(dice.choice(_PROMPTS).format(app=app), truth)


def _app(mind: Mind) -> str:
    return mind.prompt(r"(\w+)\.lock")


PACKAGE = said("conflict", r"needs (\w+) from \d", r"index/(\w+)\.txt$", r"lock\n(\w+) ")
USER = said("conflict", r"conflict: (\w+) needs")
RANGE = said("conflict", r"needs \w+ (from \d+ below \d+)")
PINNED = Fact("conflict", lambda m: m.search(r"the pin is (\w+ \S+ \w+)$", rf"lock\n({m(PACKAGE)} \S+ \w+)\n"))


def _choice(mind: Mind) -> list[str] | None:
    """Version and hash of the highest version in range that is not withdrawn; or as it was written since."""
    versions, wanted = mind.output("versions"), RANGE.find(mind)
    if versions is None or wanted is None:
        written = mind.search(rf"lock\n{mind(PACKAGE)} \S+ \w+\n{mind(PACKAGE)} (\S+ \w+)$")
        return written.split() if written else None
    low, high = (int(word) for word in wanted.split() if word.isdigit())
    usable = [line.split() for line in versions.splitlines() if "withdrawn" not in line]
    fitting = [line for line in usable if low <= int(line[0].split(".")[0]) < high]
    return max(fitting, key=lambda line: [int(part) for part in line[0].split(".")])


CHOICE = Fact("versions conflict", _choice)
VERSION = Fact("versions conflict", lambda m: m.search(rf"^{m(PACKAGE)} (\S+) [0-9a-f]{{4}}$") or m(CHOICE)[0])
HASH = Fact("versions conflict", lambda m: m(CHOICE)[1])
DIGEST = said("resolved", r"resolved, digest (\w+)")


@move
def conflict(m: Mind) -> Message:
    return m.say(
        ["What does the resolver say?", "Reproducing the complaint.", "First the error itself."],
        call("run", command="python resolve.py"),
    )


@move
def lock(m: Mind) -> Message:
    return m.say(
        ["What is pinned?", "Reading {app}.lock.", "Now the lock file."],
        call("read", path=f"{_app(m)}.lock"),
        app=_app(m),
    )


@move
def index(m: Mind) -> Message:
    return m.say(["What does the index hold?", "Listing the index."], call("run", command="ls index"))


@move
def versions(m: Mind) -> Message:
    return m.say(
        ["Which versions of {package} exist?", "The conflict is about {package}.", "Now the candidates."],
        call("read", path=f"index/{m(PACKAGE)}.txt"),
        package=PACKAGE,
    )


@move
def pin(m: Mind) -> Message:
    return m.say(
        ["{version} is the best that is left.", "Pinning the new version.", "Changing the pin of {package}."],
        call("replace", path=f"{_app(m)}.lock", old=m(PINNED), new=" ".join([m(PACKAGE), *m(CHOICE)])),
        thinks=["It has to be {range}, not withdrawn, and as high as possible: {version}."],
        version=m(CHOICE)[0],
        package=PACKAGE,
        range=RANGE,
    )


@move
def resolved(m: Mind) -> Message:
    return m.say(["Does it resolve?", "Now for the digest."], call("run", command="python resolve.py"))


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Into the log.", "One line for the log."],
        call("log", line=f"{m(PACKAGE)} {m(CHOICE)[0]} {m(DIGEST)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{package} is pinned to {version}, hash {hash}, for {user}.",
        "I moved {package} to {version} with hash {hash}; {user} needs it.",
        "{user} gets {package} {version} with hash {hash}.",
        brief=(
            "It resolves again: {package} {version}, digest {digest}.",
            "Done. {package} is at {version} now, digest {digest}.",
        ),
        package=PACKAGE,
        version=VERSION,
        hash=HASH,
        user=USER,
        digest=DIGEST,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([conflict], [conflict], [conflict], [lock, conflict], [conflict, index]))
    return mix(dice, [*look, versions, pin, resolved, log, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lock_text = outcome.text(f"{truth['app']}.lock")
    pinned = f"{truth['package']} {truth['version']} {truth['hash']}" in lock_text.splitlines()
    line = f"{truth['package']} {truth['version']} {hashlib.sha256(lock_text.encode()).hexdigest()[:4]}"
    logged = outcome.last_line("log.txt") == line
    return (
        pinned
        and logged
        and outcome.answer_names(
            "package",
            "version",
            "hash",
            "user",
            brief=(
                "package",
                "version",
            ),
        )
    )


FAMILY = Family(
    domain="code",
    name="version_conflict",
    role="You maintain lock files. A pin is a package, a version and the hash of that version; withdrawn versions "
    "are taboo. Change only the pin that the resolver complains about. The resolver prints a digest when everything "
    "fits, and the digest belongs into the log.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
