"""Book a connection: compare departures, mind the user's wish, look up tariff and pass, send the booking form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question, said
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.words import CITIES, number, numbers
from drsr.offline.sandbox.workshop.pages import accepts, bullets, page, paragraphs, submissions, write_site

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_TOOLS = ("open", "post")
_PROMPTS = (
    "Book the cheapest connection from {start} to {end} on {day}: departures are on /{route}, my pass on /profile, "
    "reductions on /passes, the form (train, pass) at /book. Ask me before you book. Then tell me train, booking "
    "number and the reduction for my pass.",
    "I have to go from {start} to {end} on {day}, as cheaply as possible (see /{route}). My pass is on /profile, "
    "reductions are on /passes. Propose a train first, then book it at /book (train, pass). I want to know train, "
    "reduction and the booking number.",
    "Please find me a train on {day}, {start} to {end}, lowest price, on /{route}. Confirm it with me, then book at "
    "/book (train, pass) with the pass shown on /profile. Report booking number, train and the reduction that /passes "
    "names.",
)
_CHANGED = ("Too early. Take {train}.", "I prefer {train}.", "Rather {train}, please.")
_FINE = ("Yes, that one.", "Good, book it.", "Fine.")
_PASSES = ("student", "senior", "regional", "group", "family")


def prepare(dice: Random, root: Path) -> Scenario:
    start, end = dice.sample(CITIES, 2)
    day, other_day = dice.sample(_DAYS, 2)
    trains = [f"{dice.choice('RXN')}{digits}" for digits in numbers(dice, 3, 3)]
    prices = dice.sample(range(19, 99), 3)
    days = [day, day, other_day]
    rows = [f"{when}: {train} for {price}" for when, train, price in zip(days, trains, prices, strict=True)]
    dice.shuffle(rows)
    cheapest = 0 if prices[0] < prices[1] else 1
    changed = dice.random() < 0.5
    chosen = 1 - cheapest if changed else cheapest
    passes = dice.sample(_PASSES, 2)
    pass_number = f"P{number(dice, 3)}"
    reductions = dict(zip(passes, dice.sample((10, 15, 20, 25, 30, 40), 2), strict=True))
    route = f"{start}-{end}".lower()
    listed = sorted(reductions.items())
    pages = {
        route: page(f"{start} to {end}", bullets(rows)),
        "profile": page("Profile", paragraphs(f"Pass: {passes[0]}", f"Number: {pass_number}")),
        "passes": page("Passes", bullets([f"{name}: {percent} percent off" for name, percent in listed])),
    }
    fields = {"train": trains, "pass": [pass_number]}
    write_site(dice, root, pages, forms={"/book": accepts("Booking", "T", **fields)})
    truth = {"train": trains[chosen], "reduction": f"{reductions[passes[0]]} percent"}
    reply = dice.choice(_CHANGED).format(train=trains[chosen]) if changed else dice.choice(_FINE)
    return Scenario(dice.choice(_PROMPTS).format(start=start, end=end, day=day, route=route), truth, (reply,))


def _day(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(_DAYS)})")


def _train(mind: Mind) -> str | None:
    """The train the user asked for, else the cheapest, else as it was proposed or booked."""
    wish = mind.search(r"^(?:Too early\. Take|I prefer|Rather) ([RXN]\d{3})")
    shown = mind.output("departures")
    if wish or shown is None:
        return wish or mind.search(r"train=(\w+)", r"([RXN]\d{3}) (?:is the cheapest|costs least)")
    rows = [line.split() for line in shown.splitlines() if line.startswith(f"- {_day(mind)}:")]
    return min(rows, key=lambda row: int(row[4]))[2]


TRAIN = Fact("departures", _train)
PRICE = Fact("departures", lambda m: m.search(rf"{m(TRAIN)} for (\d+)$", rf"{m(TRAIN)} costs least: (\d+)"))
PASS = said("profile", r"^Pass: (\w+)$")
PASS_NUMBER = said("profile", r"^Number: (\S+)$", r"pass=(\w+)")
PERCENT = Fact("passes", lambda m: m.search(rf"^- {m(PASS)}: (\d+) percent"))
BOOKING = said("book", r"^Booking: (T\d+)")


@move
def departures(m: Mind) -> Message:
    return m.say(
        ["The departures on {day}.", "Now the trains themselves.", "Comparing prices for {day}."],
        call("open", path=m.prompt(r"(/[a-z]+-[a-z]+)\b")),
        day=_day(m),
    )


@move
def wrong_path(m: Mind) -> Message:
    return m.say(
        ["Perhaps there is a page for the day.", "Trying a page for {day} directly."],
        call("open", path=f"/{_day(m).lower()}"),
        day=_day(m),
    )


@move
def profile(m: Mind) -> Message:
    return m.say(["Which pass do you have?", "Reading your profile."], call("open", path="/profile"))


@move
def passes(m: Mind) -> Message:
    return m.say(
        ["What does the {name} pass give?", "Now the reductions.", "How much is taken off?"],
        call("open", path="/passes"),
        name=PASS,
    )


@question
def propose(m: Mind) -> Message:
    return m.tell(
        "{train} is the cheapest. Shall I book it?",
        "{train} costs least: {price}. All right?",
        train=TRAIN,
        price=PRICE,
    )


@move
def book(m: Mind) -> Message:
    return m.say(
        ["Booking it.", "Sending the form."],
        call("post", form=f"/book?train={m(TRAIN)}&pass={m(PASS_NUMBER)}"),
    )


@move
def answer(m: Mind) -> Message:
    return m.tell(
        "Booked {train}, booking number {booking}, {percent} percent off.",
        "Your booking number is {booking}: {train}, {percent} percent off.",
        "{train} is booked with {percent} percent off. Number: {booking}.",
        brief=("Your train {train} is booked, the number is {booking}.", "Done: {train}, booking {booking}."),
        train=TRAIN,
        booking=BOOKING,
        percent=PERCENT,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(([departures, profile, passes], [profile, departures, passes], [profile, passes, departures]))
    if dice.random() < 0.2:
        look.insert(0, wrong_path)
    return mix(dice, [*look, propose, book, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth, sent = outcome.scenario.truth, submissions(outcome.root)
    if len(sent) != 1:
        return False
    right = sent[0]["fields"]["train"] == truth["train"]
    return (
        right and sent[0]["number"] in outcome.answer and outcome.answer_names("train", "reduction", brief=("train",))
    )


FAMILY = Family(
    domain="web",
    name="booking",
    role="You book trains for people through a text browser. Propose first, book after the answer. Prices on the "
    "pages are without reduction; what a pass takes off depends on its kind. The user may prefer another train than "
    "the cheapest, and then that one is booked. Every booking has a number, which the user needs.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
