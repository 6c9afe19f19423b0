"""A test fails because a constant differs from the specification: find it, mend it, run the tests, note it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import FIRST_NAMES, NOUNS, filler_lines, number, write_files

_TOOLS = ("read", "log", "replace", "run")
_PROMPTS = (
    "The tests of {module}.py fail. Find out why, mend the code so that it follows spec.md, and log "
    "'<constant> <value> <ticket>'. Tell me which constant was wrong, its new value and who reviews it.",
    "test_{module}.py is red. Please fix {module}.py according to spec.md and log the fix in the form "
    "'<constant> <value> <ticket>'. I want constant, new value and reviewer in your answer.",
    "Someone broke {module}.py: pytest fails. The truth is in spec.md. Correct the code, log '<constant> "
    "<value> <ticket>' and report the constant, the value it has now, and the reviewer.",
)


class Rule(NamedTuple):
    """A function whose result hangs on one constant."""

    function: str
    constant: str
    body: str
    """What it returns, as code, with the constant's name as {c}."""
    result: Callable[[int, int], int]
    """The same arithmetic: amount and constant to result."""


_RULES = (
    Rule("discounted", "DISCOUNT", "amount * (100 - {c}) // 100", lambda a, c: a * (100 - c) // 100),
    Rule("with_fee", "FEE", "amount + {c}", lambda a, c: a + c),
    Rule("late_charge", "CHARGE", "amount * {c}", lambda a, c: a * c),
    Rule("ships_for", "SHIPPING", "{c} + amount // 10", lambda a, c: c + a // 10),
    Rule("after_tax", "TAX", "amount + amount * {c} // 100", lambda a, c: a + a * c // 100),
    Rule("points", "FACTOR", "amount * {c} + 1", lambda a, c: a * c + 1),
    Rule("deposit", "SHARE", "amount // {c}", lambda a, c: a // c),
    Rule("leftover", "LOT", "amount - amount // {c}", lambda a, c: a - a // c),
)


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
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
    return Scenario(dice.choice(_PROMPTS).format(module=module), truth)


def _module(mind: Mind) -> str:
    return mind.prompt(r"\b([a-z]+\d)\.py")


FUNCTION = said("tests", r"FAILED \S+::test_(\w+)", r"test_(\w+) fails")
CONSTANT = Fact(
    "tests.1", lambda m: m.search(rf"def {m(FUNCTION)}\(amount\):\n\s+return .*?\b([A-Z]+)\b", r"([A-Z]+) is off")
)
OLD = Fact("tests.1", lambda m: m.search(rf"^{m(CONSTANT)} = (\d+)$"))
NEW = Fact("spec", lambda m: m.search(rf"^{m(CONSTANT)}: (\d+)$", rf"^{m(CONSTANT)} = \d+\n{m(CONSTANT)} = (\d+)$"))
TICKET = said("spec", r"Ticket for fixes: (\w\w-\d+)", r"^[A-Z]+ \d+ (\w\w-\d+)$")
REVIEWER = said("spec", r"Reviewed by (\w+)")


@move
def tests(m: Mind) -> Message:
    return m.say(
        ["Running the tests, and the code.", "What exactly is red?", "Let me see the failure next to the code."],
        call("run", command="pytest -q --tb=no"),
        call("read", path=f"{_module(m)}.py"),
    )


@move
def spec(m: Mind) -> Message:
    return m.say(
        ["The spec decides what is right.", "Reading the spec.", "What should the values be?"],
        call("read", path="spec.md"),
    )


@move
def mend(m: Mind) -> Message:
    constant = m(CONSTANT)
    return m.say(
        ["{constant} is off: the spec says {new}.", "So the constant has to change.", "Correcting {constant}."],
        call("replace", path=f"{_module(m)}.py", old=f"{constant} = {m(OLD)}", new=f"{constant} = {m(NEW)}"),
        thinks=["{function} uses {constant}; compare with the spec."],
        constant=constant,
        function=FUNCTION,
        new=NEW,
    )


@move
def rerun(m: Mind) -> Message:
    return m.say(["Green now?", "Running the tests again."], call("run", command="pytest -q"))


@move
def log(m: Mind) -> Message:
    return m.say(
        ["Logging it.", "Into the log under {ticket}."],
        call("log", line=f"{m(CONSTANT)} {m(NEW)} {m(TICKET)}"),
        ticket=TICKET,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "{constant} was wrong. It is {new} now; {reviewer} reviews it.",
        "Fixed: {constant} has the value {new}. Reviewer: {reviewer}.",
        "{reviewer} can review it: {constant} is back to {new}.",
        brief=(
            "All done: {constant} is {new} now, and the fix is in the log.",
            "The tests pass again with {constant} at {new}, and it is logged.",
        ),
        constant=CONSTANT,
        new=NEW,
        reviewer=REVIEWER,
    )


def plan(dice: Random) -> list[Move]:
    work = dice.choice(([mend, rerun, log], [mend, log, rerun]))
    return mix(dice, [tests, spec, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    code = outcome.text(f"{truth['module']}.py").splitlines()
    logged = outcome.last_line("log.txt") == truth["line"]
    return (
        f"{truth['constant']} = {truth['value']}" in code
        and logged
        and outcome.answer_names(
            "constant",
            "value",
            "reviewer",
            brief=(
                "constant",
                "value",
            ),
        )
    )


FAMILY = Family(
    domain="code",
    name="failing_test",
    role="You are a careful Python developer. The specification is right, the code may be wrong. Change one thing at "
    "a time and keep to the names that are there. Tests are run with pytest from the top folder. A fix without a line "
    "in the log does not count. Say in the end what you changed, in one or two plain sentences.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
