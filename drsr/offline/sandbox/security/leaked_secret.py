"""A key was committed: find it, have the user agree, rotate it with the approval code, and say who approved."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CONSENT, FIRST_NAMES, NOUNS, hexadecimal, number, write_files

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
    return Scenario(dice.choice(FAMILY.prompts).format(service=service), truth, (dice.choice(CONSENT),))


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    replaced = outcome.last_line(truth["place"]).removeprefix("KEY=")
    return replaced.startswith("ak_") and replaced != truth["key"] and replaced in outcome.answer


FAMILY = read_family(__file__, prepare, done)
