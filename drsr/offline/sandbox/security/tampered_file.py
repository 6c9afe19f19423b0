"""One shipped file differs from the manifest: find it, see what was changed, restore it, and write the incident."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.shell import run_command
from drsr.offline.sandbox.words import NOUNS, hexadecimal, mail_address, number, people, write_files

_TOOLS = ("read_file", "write_file", "run")
_PROMPTS = (
    "One of the files in {folder}/ was changed after release. Find out which, restore it from backup/, and write "
    "incidents/<number>.txt with file, expected checksum and the destination that was slipped in. Whom do we "
    "call?",
    "The integrity alarm for {folder}/ went off. Compare with the manifest, restore what was altered (backup/ is "
    "clean), document it in incidents/<number>.txt (file, expected checksum, rogue destination) and name the "
    "maintainer.",
    "Please check {folder}/ against release/manifest.txt. Restore the altered file from backup/, record file, "
    "expected checksum and foreign destination in incidents/<number>.txt, and tell me the incident number and the "
    "maintainer.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    folder = f"{dice.choice(('bin', 'jobs', 'agents', 'cron'))}{number(dice, 2)}"
    names = [f"{noun}.{dice.choice(('cfg', 'conf', 'job'))}" for noun in dice.sample(NOUNS, 4)]
    maintainers = [mail_address(name) for name in people(dice, 4)]
    files = {name: _config(dice) for name in names}
    write_files(root, {f"backup/{name}": text for name, text in files.items()})
    write_files(root, {f"{folder}/{name}": text for name, text in files.items()})
    listed = run_command("cksum " + " ".join(f"{folder}/{name}" for name in sorted(names)), root).splitlines()
    victim = dice.choice(names)
    expected = next(line.split()[0] for line in listed if line.endswith(f"/{victim}"))
    rogue = f"{dice.choice(NOUNS)}{number(dice, 3)}.example.net:{number(dice, 4)}"
    tampered = "\n".join(
        f"upload = {rogue}" if line.startswith("upload") else line for line in files[victim].splitlines()
    )
    incident = f"IN{number(dice, 5)}"
    owners = [f"{name}\t{maintainer}" for name, maintainer in zip(names, maintainers, strict=True)]
    dice.shuffle(owners)
    write_files(
        root,
        {
            f"{folder}/{victim}": tampered,
            "release/manifest.txt": f"# checksum bytes file, release {hexadecimal(dice, 7)}\n" + "\n".join(listed),
            "release/maintainers.tsv": "\n".join(owners),
            "incidents/COUNTER": f"next number: {incident}",
        },
    )
    truth = {"file": f"{folder}/{victim}", "expected": expected, "rogue": rogue, "incident": incident}
    truth["maintainer"] = maintainers[names.index(victim)]
    return Scenario(dice.choice(_PROMPTS).format(folder=folder), truth)


def _config(dice: Random) -> str:
    own = f"{dice.choice(NOUNS)}.example.org:{number(dice, 4)}"
    keys = [f"{noun} = {number(dice, 3)}" for noun in dice.sample(NOUNS, dice.randrange(1, 3))]
    return "\n".join([*keys, f"upload = {own}", f"retries = {dice.randrange(1, 9)}"])


def _base(path: str) -> str:
    return path.rsplit("/", 1)[1]


def _folder(mind: Mind) -> str:
    return mind.prompt(r"\b(\w+)/")


def _altered(mind: Mind) -> str | None:
    """The file whose checksum is not the manifest's, or as it was stated or used since."""
    manifest, actual = mind.output("manifest"), mind.output("checksums")
    if manifest is not None and actual is not None:
        for line in actual.splitlines():
            if line not in manifest.splitlines():
                return line.split()[2]
    return mind.search(r"^diff backup/\S+ (\S+)$", r"^cp backup/\S+ (\S+)$", r"odd one out is (\S+\w)")


def _expected(mind: Mind) -> str | None:
    manifest, path = mind.output("manifest"), _altered(mind)
    if manifest is None or path is None:
        return mind.search(r"manifest expected (\d+)")
    return next(line.split()[0] for line in manifest.splitlines() if line.endswith(f" {path}"))


def _paths(mind: Mind) -> list[str] | None:
    """All files of the folder, from the listing or from the manifest."""
    listing, manifest = mind.output("files"), mind.output("manifest")
    if listing is not None:
        return [f"{_folder(mind)}/{name}" for name in listing.splitlines()]
    return [line.split()[2] for line in manifest.splitlines()[1:]] if manifest else None


PATHS = Fact("manifest", _paths)
FILE = Fact("manifest checksums", _altered)
EXPECTED = Fact("manifest", _expected)
ROGUE = said("difference", r"^> upload = (\S+)$", r"destination (\S+:\d+)")
INCIDENT = said("counter", r"next number: (IN\d+)", r"incidents/(IN\d+)\.txt")
MAINTAINER = Fact("counter.1", lambda m: m.search(rf"^{_base(m(FILE))}\t(\S+)$"))


@move
def manifest(m: Mind) -> Message:
    return m.say(
        ["The manifest says what should be there.", "First the list of expected checksums.", "Reading the manifest."],
        call("read_file", path="release/manifest.txt"),
    )


@move
def checksums(m: Mind) -> Message:
    return m.say(
        ["Now the checksums of what is there.", "Computing the real checksums.", "And this is what we have on disk."],
        call("run", command=f"cksum {' '.join(m(PATHS))}"),
    )


@move
def files(m: Mind) -> Message:
    return m.say(
        ["What is in {folder}?", "Listing {folder} itself.", "Are there files that the manifest does not know?"],
        call("run", command=f"ls {_folder(m)}"),
        folder=_folder(m),
    )


@move
def difference(m: Mind) -> Message:
    return m.say(
        ["The odd one out is {file}. What was changed?", "{file} does not match; the manifest expected {expected}."],
        call("run", command=f"diff backup/{_base(m(FILE))} {m(FILE)}"),
        thinks=["Only {file} has another checksum, so the others are fine."],
        file=FILE,
        expected=EXPECTED,
    )


@move
def restore(m: Mind) -> Message:
    return m.say(
        ["Restoring it.", "The destination {rogue} is not ours. Restoring {file} from the backup.", "Back to clean."],
        call("run", command=f"cp backup/{_base(m(FILE))} {m(FILE)}"),
        file=FILE,
        rogue=ROGUE,
    )


@move
def recheck(m: Mind) -> Message:
    return m.say(
        ["Does the checksum fit now?", "Checking {file} once more.", "It should read {expected} now."],
        call("run", command=f"cksum {m(FILE)}"),
        file=FILE,
        expected=EXPECTED,
    )


@move
def counter(m: Mind) -> Message:
    return m.say(
        ["Which incident number is next, and who maintains what?", "For the report: number and maintainer."],
        call("read_file", path="incidents/COUNTER"),
        call("read_file", path="release/maintainers.tsv"),
    )


@move
def report(m: Mind) -> Message:
    content = f"file: {m(FILE)}\nexpected: {m(EXPECTED)}\ndestination: {m(ROGUE)}"
    return m.say(
        ["Writing it down as {incident}.", "Now the incident file.", "Documenting what happened."],
        call("write_file", path=f"incidents/{m(INCIDENT)}.txt", content=content),
        incident=INCIDENT,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{file} had been altered to upload to {rogue}. It is restored, filed as {incident}; please call {maintainer}.",
        "Incident {incident}: {file} pointed to {rogue}. Restored from backup. Its maintainer is {maintainer}.",
        "Restored {file}. The change sent data to {rogue}. See {incident}; the person to call is {maintainer}.",
        file=FILE,
        rogue=ROGUE,
        incident=INCIDENT,
        maintainer=MAINTAINER,
    )


def plan(dice: Random) -> list[Move]:
    opening = dice.choice(([manifest, checksums], [files, manifest, checksums], [counter, manifest, checksums]))
    late = [] if counter in opening else [counter]
    middle = dice.choice(([restore, recheck, *late], [restore, *late], [*late, restore]))
    return mix(dice, [*opening, difference, *middle, report, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    report_text = outcome.text(f"incidents/{truth['incident']}.txt")
    restored = outcome.text(truth["file"]) == outcome.text(f"backup/{_base(truth['file'])}")
    complete = all(truth[name] in report_text for name in ("file", "expected", "rogue"))
    return restored and complete and outcome.answer_names("incident", "maintainer")


FAMILY = Family(
    domain="security",
    name="tampered_file",
    system="You guard the integrity of released files. Compare before you conclude, and keep the evidence.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
