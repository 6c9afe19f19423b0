"""Find an hour in which three people and a room are free, and send the invitation; the user may narrow the choice."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix, write_background
from drsr.offline.sandbox.words import CITIES, NOUNS, number, people, write_files

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_HOURS = tuple(range(9, 17))
_TOOLS = ("list_dir", "read_file", "write_file")
_PROMPTS = (
    "Set up the {topic} meeting on {day} for {a}, {b} and {c}: the first hour when all are free, in a room for "
    "{size}. Write invites/{topic}.txt with day, hour, room and booking code, and tell me hour, room and code.",
    "{a}, {b} and {c} need to meet on {day} about {topic}. Find the earliest common hour and a room that seats "
    "{size}, write invites/{topic}.txt (day, hour, room, booking code) and report hour, room and code.",
    "Please arrange '{topic}' on {day}. People: {a}, {b} and {c}. Room for {size}. Earliest possible hour. The "
    "invitation goes to invites/{topic}.txt and holds day, hour, room and booking code. Let me know hour, room "
    "and code.",
)
_REPLIES = (
    "Good, but nothing before {hour}, please. I have a call until then.",
    "Okay, only it must not start before {hour}.",
    "I would rather have it at {hour} or later, the rest is fine.",
)
_FINE = ("That works for me.", "Yes, take that one.", "Perfect, thanks.")


def prepare(dice: Random, root: Path) -> Scenario:
    write_background(dice, root)
    topic, day = dice.choice(NOUNS), dice.choice(_DAYS)
    names = [name.split()[0] for name in people(dice, 4)]
    first, second = sorted(dice.sample(_HOURS[1:], 2))
    busy = {name: set(dice.sample(_HOURS, 4)) - {first, second} for name in names[:3]}
    # Whatever hour is not one of the two common ones is taken for somebody.
    for hour in sorted(set(_HOURS) - {first, second} - set().union(*busy.values())):
        busy[dice.choice(names[:3])].add(hour)
    later = dice.random() < 0.5
    hour = second if later else first
    size = dice.randrange(4, 9)
    rooms = [f"{city}-{number(dice, 2)}" for city in dice.sample(CITIES, 4)]
    seats = [size - 1, size - 2, size + dice.randrange(0, 2), size + 4]
    room_lines = [f"{room}: {seat} seats" for room, seat in zip(rooms, seats, strict=True)]
    dice.shuffle(room_lines)
    codes = [f"{room}: code {number(dice, 5)}" for room in rooms]
    write_files(
        root,
        {
            **{f"calendars/{name.lower()}.txt": _calendar(dice, day, busy.get(name, set())) for name in names},
            "rooms/list.txt": "\n".join(room_lines),
            "rooms/codes.txt": "\n".join(sorted(codes)),
            "invites/TEMPLATE.txt": "topic:\nday:\nhour:\nroom:\ncode:",
        },
    )
    code = next(line.split()[-1] for line in codes if line.startswith(f"{rooms[2]}:"))
    reply = dice.choice(_REPLIES).format(hour=f"{hour}:00") if later else dice.choice(_FINE)
    prompt = dice.choice(_PROMPTS).format(topic=topic, day=day, a=names[0], b=names[1], c=names[2], size=size)
    return Scenario(
        prompt, {"topic": topic, "day": day, "hour": f"{hour}:00", "room": rooms[2], "code": code}, (reply,)
    )


def _calendar(dice: Random, day: str, busy: set[int]) -> str:
    other = dice.choice([name for name in _DAYS if name != day])
    lines = [f"{day} {hour}:00 {dice.choice(NOUNS)}" for hour in sorted(busy)]
    return "\n".join([*lines, f"{other} {dice.choice(_HOURS)}:00 {dice.choice(NOUNS)}"])


def _names(mind: Mind) -> list[str]:
    return [
        mind.prompt(pattern).lower()
        for pattern in (r"(\w+), \w+ and \w+", r"\w+, (\w+) and \w+", r"\w+, \w+ and (\w+)")
    ]


def _topic(mind: Mind) -> str:
    return mind.prompt(r"invites/(\w+)\.txt")


def _free(mind: Mind) -> list[int] | None:
    """The common free hours of the day; None unless all three calendars are visible."""
    calendars = [mind.output("first"), mind.output("others.0"), mind.output("others.1")]
    if None in calendars:
        return None
    day = mind.prompt(rf"({'|'.join(_DAYS)})")
    taken = {line.split()[1] for text in calendars for line in (text or "").splitlines() if line.startswith(day)}
    return [hour for hour in _HOURS if f"{hour}:00" not in taken]


def _hour(mind: Mind) -> str | None:
    """The earliest common hour that the user accepts, or as it was written into the invitation."""
    free = _free(mind)
    bound = mind.search(r"(?:nothing before|not start before|have it at) (\d+):00")
    if free is None:
        proposed = None if bound else mind.search(r"first common hour is (\d+:00)", r"All three are free at (\d+:00)")
        return mind.search(r"^hour: (\d+:00)$") or proposed
    return next(f"{hour}:00" for hour in free if hour >= int(bound or 0))


HOUR = Fact("first others.0 others.1", _hour)


def _room(mind: Mind) -> str | None:
    """The smallest room with enough seats, from the list, or as it was stated or written since."""
    size, rooms = int(mind.prompt(r"(?:room for|seats|Room for) (\d+)")), mind.output("rooms")
    if rooms is None:
        return mind.search(r"^room: (\S+)$", r"([A-Z]\w+-\d\d) (?:has enough|would do)")
    options = [(int(line.split()[1]), line.split(":")[0]) for line in rooms.splitlines()]
    return min(option for option in options if option[0] >= size)[1]


ROOM = Fact("rooms", _room)
CODE = Fact("codes", lambda m: m.search(rf"^{m(ROOM)}: code (\d+)", r"^code: (\d+)$"))


@move
def calendars(m: Mind) -> Message:
    return m.say(["Whose calendars do we have?", "Listing the calendars."], call("list_dir", path="calendars"))


@move
def first(m: Mind) -> Message:
    return m.say(
        ["Starting with {name}.", "First the calendar of {name}."],
        call("read_file", path=f"calendars/{_names(m)[0]}.txt"),
        name=_names(m)[0].capitalize(),
    )


@move
def others(m: Mind) -> Message:
    return m.say(
        ["And the other two.", "Now the remaining calendars together."],
        call("read_file", path=f"calendars/{_names(m)[1]}.txt"),
        call("read_file", path=f"calendars/{_names(m)[2]}.txt"),
    )


@move
def rooms(m: Mind) -> Message:
    return m.say(["Which rooms are large enough?", "Looking at the rooms."], call("read_file", path="rooms/list.txt"))


@question
def propose(m: Mind) -> Message:
    return m.tell(
        "All three are free at {hour}, and {room} has enough seats. Shall I book that?",
        "The first common hour is {hour}. {room} would do. Is that fine with you?",
        hour=HOUR,
        room=ROOM,
    )


@move
def codes(m: Mind) -> Message:
    return m.say(
        ["I need the booking code of {room}.", "Now the code for the room.", "Booking codes are in a separate list."],
        call("read_file", path="rooms/codes.txt"),
        room=ROOM,
    )


@move
def template(m: Mind) -> Message:
    return m.say(
        ["How do invitations look here?", "Checking the form."], call("read_file", path="invites/TEMPLATE.txt")
    )


@move
def invite(m: Mind) -> Message:
    day = m.prompt(rf"({'|'.join(_DAYS)})")
    content = f"topic: {_topic(m)}\nday: {day}\nhour: {m(HOUR)}\nroom: {m(ROOM)}\ncode: {m(CODE)}"
    return m.say(
        ["Writing the invitation.", "So {room} it is.", "Putting it all together."],
        call("write_file", path=f"invites/{_topic(m)}.txt", content=content),
        thinks=["Day and people are given; room {room} has code {code}."],
        room=ROOM,
        code=CODE,
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "The {topic} meeting starts at {hour} in {room}, booking code {code}.",
        "Done: {room} at {hour}, code {code}. The invitation for {topic} is written.",
        "Booking code {code}: {room} is yours at {hour} for {topic}.",
        topic=_topic(m),
        hour=HOUR,
        room=ROOM,
        code=CODE,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([first, others, rooms], [calendars, first, others, rooms], [rooms, first, others]))
    early_codes = dice.random() < 0.4
    middle = [codes, propose] if early_codes else [propose, codes]
    late = [template] if dice.random() < 0.3 else []
    return mix(dice, [*look, *middle, *late, invite, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lines = outcome.text(f"invites/{truth['topic']}.txt").splitlines()
    written = all(f"{name}: {truth[name]}" in lines for name in ("day", "hour", "room", "code"))
    return written and outcome.answer_names("hour", "room", "code")


FAMILY = Family(
    domain="office",
    name="meeting",
    system="You are an office assistant who arranges meetings. Look at calendars and room lists, do not assume.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
