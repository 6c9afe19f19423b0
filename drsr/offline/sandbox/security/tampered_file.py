"""One shipped file differs from the manifest: find it, see what was changed, restore it, and write the incident."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, number, write_files
from drsr.offline.sandbox.workshop.shell import run_command

_TOOLS = ("read", "log", "run")
_PROMPTS = (
    "One of the files {a} and {b} was changed after release {release}. Find out which (manifest.txt has the "
    "checksums), restore it from backup/, and log '<file> <destination>', with the destination that "
    "was slipped in. Name file, destination and maintainer.",
    "The integrity alarm of release {release} went off. Compare {a} and {b} with manifest.txt, restore what was "
    "altered (backup/ is clean), log it as '<file> <destination>' (the rogue one) and tell me "
    "file, destination and maintainer.",
    "Please check {a} and {b} against manifest.txt of release {release}. Restore the altered file from backup/, "
    "log '<file> <destination>' (the foreign destination), and report file, destination and the "
    "maintainer.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    names = [f"{noun}.{dice.choice(('cfg', 'conf', 'job'))}" for noun in dice.sample(NOUNS, 2)]
    maintainers = dice.sample(FIRST_NAMES, 2)
    files = {name: _config(dice) for name in names}
    write_files(root, {f"backup/{name}": text for name, text in files.items()})
    write_files(root, files)
    listed = run_command("cksum " + " ".join(names), root).splitlines()
    lines = [f"{line} {maintainer}" for line, maintainer in zip(listed, maintainers, strict=True)]
    dice.shuffle(lines)
    victim = dice.choice(names)
    rogue = f"{dice.choice(NOUNS)}{number(dice, 2)}.net"
    tampered = [f"upload = {rogue}" if line.startswith("upload") else line for line in files[victim].splitlines()]
    write_files(
        root,
        {
            victim: "\n".join(tampered),
            "manifest.txt": "\n".join(lines),
        },
    )
    truth = {"file": victim, "rogue": rogue, "maintainer": maintainers[names.index(victim)]}
    prompt = dice.choice(_PROMPTS).format(a=names[0], b=names[1], release=number(dice, 2))
    return Scenario(prompt, truth)


def _config(dice: Random) -> str:
    return f"{dice.choice(NOUNS)} = {number(dice, 3)}\nupload = {dice.choice(NOUNS)}.org\nretries = {number(dice, 1)}"


def _paths(mind: Mind) -> list[str]:
    return [mind.prompt(pattern) for pattern in (r"([a-z]+\.\w+) and [a-z]+\.", r"[a-z]+\.\w+ and ([a-z]+\.\w+)")]


def _altered(mind: Mind) -> str | None:
    """The file whose checksum is not the manifest's, or as it was stated or used since."""
    manifest, actual = mind.output("manifest"), mind.output("checksums")
    if manifest is not None and actual is not None:
        known = {line.rsplit(" ", 1)[0] for line in manifest.splitlines()}
        for line in actual.splitlines():
            if line not in known:
                return line.split()[2]
    return mind.search(r"^diff backup/\S+ (\S+)$", r"^cp backup/\S+ (\S+)$", r"^([a-z]+\.\w+) \w+\.net$")


FILE = Fact("manifest checksums", _altered)
ROGUE = said("difference", r"^> upload = (\S+)$", r"^[a-z]+\.\w+ (\w+\.net)$")
MAINTAINER = Fact("manifest", lambda m: m.search(rf"^\d+ \d+ {m(FILE)} (\w+)$"))


@move
def manifest(m: Mind) -> Message:
    return m.say(
        ["The manifest says what should be there.", "First the expected checksums.", "Reading the manifest."],
        call("read", path="manifest.txt"),
    )


@move
def checksums(m: Mind) -> Message:
    return m.say(
        ["Now the checksums of what is there.", "Computing the real checksums.", "And this is what we have on disk."],
        call("run", command=f"cksum {' '.join(_paths(m))}"),
    )


@move
def difference(m: Mind) -> Message:
    return m.say(
        ["The odd one out is {file}. What was changed?", "{file} does not match.", "What was changed?"],
        call("run", command=f"diff backup/{m(FILE)} {m(FILE)}"),
        thinks=["Only {file} has another checksum, so the others are fine."],
        file=FILE,
    )


@move
def restore(m: Mind) -> Message:
    return m.say(["Restoring it.", "Back to clean."], call("run", command=f"cp backup/{m(FILE)} {m(FILE)}"))


@move
def report(m: Mind) -> Message:
    return m.say(
        ["Writing it down.", "Now the incident."],
        call("log", line=f"{m(FILE)} {m(ROGUE)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{file} sent data to {rogue}. Restored; please call {maintainer}.",
        "{file} pointed to {rogue}. Restored; its maintainer is {maintainer}.",
        "Restored {file}, sent to {rogue} before; ask {maintainer}.",
        brief=(
            "{file} is clean again; it had been sending data to {rogue}.",
            "Done. {file} is restored, and {rogue} is in the log.",
        ),
        file=FILE,
        rogue=ROGUE,
        maintainer=MAINTAINER,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([manifest, checksums], [checksums, manifest]))
    work = dice.choice(([restore, report], [report, restore]))
    return mix(dice, [*look, difference, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    reported = outcome.last_line("log.txt") == f"{truth['file']} {truth['rogue']}"
    restored = outcome.text(truth["file"]) == outcome.text(f"backup/{truth['file']}")
    return (
        restored
        and reported
        and outcome.answer_names(
            "file",
            "rogue",
            "maintainer",
            brief=(
                "file",
                "rogue",
            ),
        )
    )


FAMILY = Family(
    domain="security",
    name="tampered_file",
    role="You guard the integrity of released files. Compare before you conclude, and keep the evidence. A manifest "
    "line holds checksum, size, file and maintainer. What was altered is restored from the backup and written down "
    "with what the change was for. Never open what you do not need.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
