"""One shipped file differs from the manifest: find it, see what was changed, restore it, and write the incident."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, number, write_files
from drsr.offline.sandbox.workshop.shell import run_command


def prepare(dice: Random, root: Path) -> Scenario:
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
    write_files(root, {victim: "\n".join(tampered), "manifest.txt": "\n".join(lines)})
    truth = {"file": victim, "rogue": rogue, "maintainer": maintainers[names.index(victim)]}
    prompt = dice.choice(FAMILY.prompts).format(a=names[0], b=names[1], release=number(dice, 2))
    return Scenario(prompt, truth)


def _config(dice: Random) -> str:
    return f"{dice.choice(NOUNS)} = {number(dice, 3)}\nupload = {dice.choice(NOUNS)}.org\nretries = {number(dice, 1)}"


def _file(mind: Mind) -> str | None:
    """The file whose checksum is not the manifest's, or as it was stated or used since."""
    manifest, actual = mind.output("manifest"), mind.output("checksums")
    if manifest is not None and actual is not None:
        known = {line.rsplit(" ", 1)[0] for line in manifest.splitlines()}
        for line in actual.splitlines():
            if line not in known:
                return line.split()[2]
    return mind.search(r"^diff backup/\S+ (\S+)$", r"^cp backup/\S+ (\S+)$", r"^([a-z]+\.\w+) \w+\.net$")


def done(outcome: Outcome) -> bool:
    file = outcome.scenario.truth["file"]
    return outcome.text(file) == outcome.text(f"backup/{file}")


FAMILY = read_family(__file__, prepare, done, file=_file)
