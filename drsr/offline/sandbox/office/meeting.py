"""Find an hour in which three people and a room are free, and send the invitation; the user may narrow the choice."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, number, people, write_files

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_HOURS = tuple(range(9, 15))
_TOOLS = ("read", "log", "run")
_PROMPTS = (
    "Set up the {topic} meeting on {day} for {a}, {b} and {c}: the first hour when all are free (calendars.txt has "
    "what is taken), in a room for {size} (rooms.txt). Log '<hour> <room> <code>', with the code from "
    "codes.txt, and tell me hour, room and code. Ask me about the hour first.",
    "{a}, {b} and {c} need to meet on {day} about {topic}. Find the earliest common hour (calendars.txt) and a room "
    "that seats {size} (rooms.txt, codes in codes.txt), propose it to me, log '<hour> <room> <code>' "
    "and report hour, room and code.",
    "Please arrange '{topic}' on {day}. People: {a}, {b} and {c}. Room for {size}. Earliest possible hour; see "
    "calendars.txt, rooms.txt and codes.txt. Check the hour with me. Log '<hour> <room> <code>'. "
    "Let me know hour, room and code.",
)
_REPLIES = ("Not before {hour}, please.", "Rather at {hour}.", "I have a call, take {hour}.")
_FINE = ("That works.", "Yes, take it.", "Perfect.")


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    topic, day = dice.choice(NOUNS), dice.choice(_DAYS)
    names = [name.split()[0] for name in people(dice, 4)]
    first, second = sorted(dice.sample(_HOURS[1:], 2))
    # Whatever hour is not one of the two common ones is taken for somebody.
    taken = [f"{day} {hour}:00 {dice.choice(names[:3])}" for hour in _HOURS if hour not in (first, second)]
    taken.append(f"{day} {first}:00 {names[3]}")
    taken += [f"{dice.choice([other for other in _DAYS if other != day])} {dice.choice(_HOURS)}:00 {names[0]}"]
    dice.shuffle(taken)
    later = dice.random() < 0.5
    hour = second if later else first
    size = dice.randrange(4, 9)
    rooms = [f"{city}-{number(dice, 2)}" for city in dice.sample(CITIES, 3)]
    seats = [size - 1, size + dice.randrange(0, 2), size + 4]
    room_lines = [f"{room}: {seat} seats" for room, seat in zip(rooms, seats, strict=True)]
    dice.shuffle(room_lines)
    codes = [f"{room}: code {number(dice, 3)}" for room in rooms[:2]]
    write_files(
        root,
        {
            "calendars.txt": "\n".join(taken),
            "rooms.txt": "\n".join(room_lines),
            "codes.txt": "\n".join(sorted(codes)),
        },
    )
    code = next(line.split()[-1] for line in codes if line.startswith(f"{rooms[1]}:"))
    reply = dice.choice(_REPLIES).format(hour=f"{hour}:00") if later else dice.choice(_FINE)
    prompt = dice.choice(_PROMPTS).format(topic=topic, day=day, a=names[0], b=names[1], c=names[2], size=size)
    return Scenario(prompt, {"hour": f"{hour}:00", "room": rooms[1], "code": code}, (reply,))


def _names(mind: Mind) -> list[str]:
    return [mind.prompt(pattern) for pattern in (r"(\w+), \w+ and \w+", r"\w+, (\w+) and \w+", r"\w+, \w+ and (\w+)")]


def _day(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(_DAYS)})")


def _hour(mind: Mind) -> str | None:
    """The hour that the user asked for, else the earliest common one, else as it was proposed or written."""
    asked = mind.search(r"(?:Not before|Rather at|call, take) (\d+:00)")
    calendars = mind.output("calendars")
    if asked or calendars is None:
        return asked or mind.search(r"^(\d+:00) \w+-\d\d \d+$", r"(?:free at|hour is) (\d+:00)")
    names = _names(mind)
    taken = {line.split()[1] for line in calendars.splitlines() if line.split()[2] in names}
    return next(f"{hour}:00" for hour in _HOURS if f"{hour}:00" not in taken)


HOUR = Fact("calendars", _hour)


def _room(mind: Mind) -> str | None:
    """The smallest room with enough seats, from the list, or as it was stated or written since."""
    size, rooms = int(mind.prompt(r"(?:room for|seats|Room for) (\d+)")), mind.output("rooms")
    if rooms is None:
        return mind.search(r"^\d+:00 (\w+-\d\d) \d+$", r"\bin ([A-Z]\w+-\d\d)\b")
    options = [(int(line.split()[1]), line.split(":")[0]) for line in rooms.splitlines()]
    return min(option for option in options if option[0] >= size)[1]


ROOM = Fact("rooms", _room)
CODE = Fact("codes", lambda m: m.search(rf"^{m(ROOM)}: code (\d+)", r"^\d+:00 \w+-\d\d (\d+)$"))


@move
def calendars(m: Mind) -> Message:
    return m.say(
        ["What is taken on {day}?", "The calendars of that day.", "First the calendars."],
        call("run", command=f"grep {_day(m)} calendars.txt"),
        day=_day(m),
    )


@move
def rooms(m: Mind) -> Message:
    return m.say(["Which rooms are large enough?", "Looking at the rooms."], call("read", path="rooms.txt"))


@question
def propose(m: Mind) -> Message:
    return m.tell(
        "All are free at {hour}. Is that fine?", "The first hour is {hour}, in {room}. Yes?", hour=HOUR, room=ROOM
    )


@move
def codes(m: Mind) -> Message:
    return m.say(
        ["I need the booking code of {room}.", "Now the code for the room.", "Codes are in a separate list."],
        call("read", path="codes.txt"),
        room=ROOM,
    )


@move
def invite(m: Mind) -> Message:
    return m.say(
        ["Writing the invitation.", "So {room} it is."],
        call("log", line=f"{m(HOUR)} {m(ROOM)} {m(CODE)}"),
        room=ROOM,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The meeting starts at {hour} in {room}, code {code}.",
        "Done: {room} at {hour}, code {code}.",
        "Code {code}: {room} is yours at {hour}.",
        brief=(
            "It is set up for {hour} in {room}, and the line is logged.",
            "Done: the meeting is at {hour} in {room}.",
        ),
        hour=HOUR,
        room=ROOM,
        code=CODE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([calendars, rooms], [rooms, calendars]))
    return mix(dice, [*look, codes, propose, invite, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    line = f"{truth['hour']} {truth['room']} {truth['code']}"
    return outcome.last_line("log.txt") == line and outcome.answer_names(
        "hour",
        "room",
        "code",
        brief=(
            "hour",
            "room",
        ),
    )


FAMILY = Family(
    domain="office",
    name="meeting",
    role="You are an office assistant who arranges meetings. Look at calendars and room lists, do not assume. "
    "Working hours are 9:00 to 15:00, a meeting takes one hour, and the smallest room that is large enough is the "
    "right one. The user has the last word on the hour.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
