"""Book a connection: compare departures, mind the user's wish, look up tariff and pass, send the booking form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.pages import accepts, bullets, form, link, page, paragraphs, submissions, write_site
from drsr.offline.sandbox.words import CITIES, cents, filler_lines, hexadecimal, money, number, numbers

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_TOOLS = ("open_page", "submit_form")
_PROMPTS = (
    "Book the cheapest connection from {start} to {end} on {day}. My pass is on /profile. Ask me before you book. "
    "Then tell me train, booking number and the price after the reduction for my pass.",
    "I have to go from {start} to {end} on {day}, as cheaply as possible. My pass is on /profile. Propose a train "
    "first, then book it. I want to know train, price with my pass and the booking number.",
    "Please find me a train on {day}, {start} to {end}, lowest price. Confirm it with me, then book with the pass "
    "shown on /profile. Report booking number, train and the reduced price.",
)
_CHANGED = (
    "Too early for me. Please take the {train} instead.",
    "I prefer the {train}, even if it costs more.",
    "Make it the {train}, I will be in town longer.",
)
_FINE = ("Yes, that one.", "Good, book it.", "That is fine, thanks.")
_PASSES = ("student", "senior", "regional", "group", "family")


def prepare(dice: Random, root: Path) -> Scenario:
    start, end, *elsewhere = dice.sample(CITIES, 4)
    day, other_day = dice.sample(_DAYS, 2)
    trains = [
        f"{kind}{digits}" for kind, digits in zip(dice.choices(("R", "X", "N"), k=5), numbers(dice, 4, 5), strict=True)
    ]
    prices = [value * 100 for value in dice.sample(range(19, 140), 5)]
    times = sorted(dice.sample(range(6, 22), 5))
    rows = [
        f"{train} at {hour}:{dice.choice(('05', '20', '40'))} for {money(price)}"
        for train, hour, price in zip(trains, times, prices, strict=True)
    ]
    cheapest = min(range(3), key=lambda place: prices[place])
    changed = dice.random() < 0.5
    chosen = dice.choice([place for place in range(3) if place != cheapest]) if changed else cheapest
    pass_name, pass_number, token = dice.choice(_PASSES), f"P-{number(dice, 6)}", hexadecimal(dice, 8)
    reductions = {name: dice.choice((10, 15, 20, 25, 30, 40)) for name in _PASSES}
    route = f"{start.lower()}-{end.lower()}"
    pages = {
        "index": page(
            "Trains", bullets([link("/routes", "Routes"), link("/passes", "Passes"), link("/book", "Booking")])
        ),
        "routes": page(
            "Routes", bullets([link(f"/{route}", f"{start} to {end}"), f"{elsewhere[0]} to {elsewhere[1]}"])
        ),
        route: page(
            f"{start} to {end}",
            paragraphs(f"On {day}:"),
            bullets(rows[:3]),
            paragraphs(f"On {other_day}:"),
            bullets(rows[3:]),
        ),
        "profile": page(
            "Profile", paragraphs(f"Pass: {pass_name}", f"Pass number: {pass_number}", filler_lines(dice, 1)[0])
        ),
        "passes": page("Passes", bullets([f"{name}: {percent} percent off" for name, percent in reductions.items()])),
        "book": page("Booking", form("/book", "train", "day", "pass", token=token)),
    }
    fields = {"train": trains, "day": list(_DAYS), "pass": [pass_number], "token": [token]}
    write_site(dice, root, pages, forms={"/book": accepts("Booked", "Booking number", "T", **fields)})
    reduced = prices[chosen] * (100 - reductions[pass_name]) // 100
    truth = {"train": trains[chosen], "day": day, "price": money(reduced)}
    reply = dice.choice(_CHANGED).format(train=trains[chosen]) if changed else dice.choice(_FINE)
    return Scenario(dice.choice(_PROMPTS).format(start=start, end=end, day=day), truth, (reply,))


def _day(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(_DAYS)})")


def _route(mind: Mind) -> str:
    cities = mind.prompt(r"([A-Z][a-z]+ to [A-Z][a-z]+)")
    return cities.lower().replace(" to ", "-")


def _departures(mind: Mind) -> dict[str, str] | None:
    """Train to price on the wanted day."""
    shown = mind.output("departures")
    if shown is None:
        return None
    lines = shown.split(f"On {_day(mind)}:\n")[1].split("\nOn ")[0].splitlines()
    return {line.split()[1]: line.split()[5] for line in lines}


def _train(mind: Mind) -> str | None:
    """The train the user asked for, else the cheapest, else as it was proposed or booked."""
    wish = mind.search(r"(?:take the|prefer the|Make it the) ([RXN]\d{4})")
    departures = _departures(mind)
    if wish or departures is None:
        return wish or mind.search(r'"train": "(\w+)"', r"([RXN]\d{4}) (?:is the cheapest|costs least)")
    return min(departures, key=lambda train: cents(departures[train]))


TRAIN = Fact("departures", _train)
PRICE = Fact(
    "departures",
    lambda m: (
        (_departures(m) or {}).get(m(TRAIN)) or m.search(rf"{m(TRAIN)} (?:is the cheapest|costs least) at (\d+\.\d\d)")
    ),
)
PASS = said("profile", r"^Pass: (\w+)$", rf"({'|'.join(_PASSES)}) pass")
PASS_NUMBER = said("profile", r"^Pass number: (\S+)$", r'"pass": "(\S+?)"')
PERCENT = Fact("passes", lambda m: m.search(rf"^- {m(PASS)}: (\d+) percent", r"gives (\d+) percent"))
TOKEN = said("form_page", r"\{token: (\w+)\}", r'"token": "(\w+)"')
BOOKING = said("book", r"Booking number: (T\d+)")


@move
def routes(m: Mind) -> Message:
    return m.say(["Which routes are there?", "Opening the list of routes."], call("open_page", path="/routes"))


@move
def departures(m: Mind) -> Message:
    return m.say(
        ["The departures on {day}.", "Now the trains themselves.", "Comparing prices for {day}."],
        call("open_page", path=f"/{_route(m)}"),
        day=_day(m),
    )


@move
def wrong_path(m: Mind) -> Message:
    return m.say(
        ["Perhaps there is a page for the day.", "Trying a page for {day} directly."],
        call("open_page", path=f"/{_day(m).lower()}"),
        day=_day(m),
    )


@move
def profile(m: Mind) -> Message:
    return m.say(["Which pass do you have?", "Reading your profile."], call("open_page", path="/profile"))


@move
def passes(m: Mind) -> Message:
    return m.say(
        ["What does the {name} pass give?", "Now the reductions.", "How much is taken off?"],
        call("open_page", path="/passes"),
        name=PASS,
    )


@question
def propose(m: Mind) -> Message:
    return m.tell(
        "On {day}, {train} is the cheapest at {price}. Shall I book it?",
        "{train} costs least at {price}. Is that train all right?",
        day=_day(m),
        train=TRAIN,
        price=PRICE,
    )


@move
def form_page(m: Mind) -> Message:
    return m.say(["Opening the booking form.", "What does the form ask for?"], call("open_page", path="/book"))


@move
def book(m: Mind) -> Message:
    fields = {"train": m(TRAIN), "day": _day(m), "pass": m(PASS_NUMBER), "token": m(TOKEN)}
    return m.say(
        ["Booking it.", "{train} on {day}, with your pass.", "Sending the form."],
        call("submit_form", path="/book", fields=fields),
        thinks=["The user settled on {train}; the pass number is {number}."],
        train=TRAIN,
        day=_day(m),
        number=PASS_NUMBER,
    )


@move
def answer(m: Mind) -> Message:
    reduced = money(cents(m(PRICE)) * (100 - int(m(PERCENT))) // 100)
    return m.tell(
        "Booked {train}, booking number {booking}. With your pass it costs {reduced}.",
        "Your booking number is {booking}: {train} on {day} for {reduced}.",
        "{train} is booked for {reduced} after {percent} percent off. Number: {booking}.",
        train=TRAIN,
        day=_day(m),
        booking=BOOKING,
        reduced=reduced,
        percent=PERCENT,
    )


def plan(dice: Random) -> list[Move]:
    find = dice.choice(([routes, departures], [departures], [wrong_path, departures]))
    look = dice.choice(([*find, profile, passes], [profile, *find, passes], [profile, passes, *find]))
    work = dice.choice(([propose, form_page], [form_page, propose]))
    return mix(dice, [*look, *work, book, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = all(sent[0]["fields"][name] == truth[name] for name in ("train", "day"))
    return right and sent[0]["number"] in outcome.answer and outcome.answer_names("train", "price")


FAMILY = Family(
    domain="web",
    name="booking",
    system="You book trains for people through a text browser. Propose first, book after the answer.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
