"""Find an hour in which three people and a room are free, and send the invitation; the user may narrow the choice."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, NOUNS, number, people, write_files

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_HOURS = tuple(range(9, 15))
_REPLIES = ("Not before {hour}, please.", "Rather at {hour}.", "I have a call, take {hour}.")
_FINE = ("That works.", "Yes, take it.", "Perfect.")


def prepare(dice: Random, root: Path) -> Scenario:
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
    prompt = dice.choice(FAMILY.prompts).format(topic=topic, day=day, a=names[0], b=names[1], c=names[2], size=size)
    return Scenario(prompt, {"hour": f"{hour}:00", "room": rooms[1], "code": code}, (reply,))


def _names(mind: Mind) -> list[str]:
    return [mind.prompt(pattern) for pattern in (r"(\w+), \w+ and \w+", r"\w+, (\w+) and \w+", r"\w+, \w+ and (\w+)")]


def _hour(mind: Mind) -> str | None:
    """The hour that the user asked for, else the earliest common one, else as it was proposed or written."""
    asked = mind.search(r"(?:Not before|Rather at|call, take) (\d+:00)")
    calendars = mind.output("calendars")
    if asked or calendars is None:
        return asked or mind.search(r"^(\d+:00) \w+-\d\d \d+$", r"(?:free at|hour is) (\d+:00)")
    names = _names(mind)
    taken = {line.split()[1] for line in calendars.splitlines() if line.split()[2] in names}
    return next(f"{hour}:00" for hour in _HOURS if f"{hour}:00" not in taken)


def _room(mind: Mind) -> str | None:
    """The smallest room with enough seats, from the list, or as it was stated or written since."""
    size, rooms = int(mind.prompt(r"(?:room for|seats|Room for) (\d+)")), mind.output("rooms")
    if rooms is None:
        return mind.search(r"^\d+:00 (\w+-\d\d) \d+$", r"\bin ([A-Z]\w+-\d\d)\b")
    options = [(int(line.split()[1]), line.split(":")[0]) for line in rooms.splitlines()]
    return min(option for option in options if option[0] >= size)[1]


FAMILY = read_family(__file__, prepare, hour=_hour, room=_room)
