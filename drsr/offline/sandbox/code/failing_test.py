"""A test fails because a constant differs from the specification: find it, mend it, run the tests, note it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.family import Outcome, Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, filler_lines, number, write_files


class Formula(NamedTuple):
    """A function whose result hangs on one constant."""

    function: str
    constant: str
    body: str
    """Its return value as code, with the constant's name as {c}."""
    result: Callable[[int, int], int]
    """The same arithmetic: amount and constant to result."""


_RULES = (
    Formula("discounted", "DISCOUNT", "amount * (100 - {c}) // 100", lambda a, c: a * (100 - c) // 100),
    Formula("with_fee", "FEE", "amount + {c}", lambda a, c: a + c),
    Formula("late_charge", "CHARGE", "amount * {c}", lambda a, c: a * c),
    Formula("ships_for", "SHIPPING", "{c} + amount // 10", lambda a, c: c + a // 10),
    Formula("after_tax", "TAX", "amount + amount * {c} // 100", lambda a, c: a + a * c // 100),
    Formula("points", "FACTOR", "amount * {c} + 1", lambda a, c: a * c + 1),
    Formula("deposit", "SHARE", "amount // {c}", lambda a, c: a // c),
    Formula("leftover", "LOT", "amount - amount // {c}", lambda a, c: a - a // c),
)


def prepare(dice: Random, root: Path) -> Scenario:
    module, rules = f"{dice.choice(NOUNS)}{number(dice, 1)}", dice.sample(_RULES, 2)
    right = {rule.constant: dice.randrange(3, 90) for rule in rules}
    broken = dice.choice(rules)
    amounts = {rule.constant: dice.randrange(20, 90) * 100 for rule in rules}
    expected = {rule.constant: rule.result(amounts[rule.constant], right[rule.constant]) for rule in rules}
    # Integer division forgives small errors; this one must show in the test.
    wrong = right[broken.constant] + dice.randrange(1, 9)
    while broken.result(amounts[broken.constant], wrong) == expected[broken.constant]:
        wrong += 1
    code = [f"{rule.constant} = {wrong if rule is broken else right[rule.constant]}" for rule in rules]
    tests = [f"import {module}"]
    for rule in rules:
        code += [f"def {rule.function}(amount):", f"    return {rule.body.format(c=rule.constant)}"]
        amount, result = amounts[rule.constant], expected[rule.constant]
        tests += [f"def test_{rule.function}():", f"    assert {module}.{rule.function}({amount}) == {result}"]
    ticket, reviewer = f"{module[:2].upper()}-{number(dice, 3)}", dice.choice(FIRST_NAMES)
    spec = [f"{rule.constant}: {right[rule.constant]}" for rule in rules]
    spec += [f"Ticket for fixes: {ticket}", f"Reviewed by {reviewer}"]
    dice.shuffle(spec)
    write_files(
        root,
        {
            f"{module}.py": "\n".join(code),
            f"test_{module}.py": "\n".join(tests),
            "spec.md": "\n".join([*spec, *filler_lines(dice, 1)]),
        },
    )
    value = str(right[broken.constant])
    truth = {"module": module, "constant": broken.constant, "value": value, "reviewer": reviewer}
    truth["line"] = f"{broken.constant} {value} {ticket}"
    return Scenario(dice.choice(FAMILY.prompts).format(module=module), truth)


def done(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    return f"{truth['constant']} = {truth['value']}" in outcome.text(f"{truth['module']}.py").splitlines()


FAMILY = read_family(__file__, prepare, done)
