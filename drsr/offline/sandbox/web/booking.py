"""Book a connection: compare departures, mind the user's wish, look up tariff and pass, send the booking form."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import CITIES, number, numbers
from drsr.offline.sandbox.workshop.pages import accepts, bullets, page, paragraphs, write_site

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
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
    return Scenario(dice.choice(FAMILY.prompts).format(start=start, end=end, day=day, route=route), truth, (reply,))


def _train(mind: Mind) -> str | None:
    """The train the user asked for, else the cheapest, else as it was proposed or booked."""
    wish = mind.search(r"^(?:Too early\. Take|I prefer|Rather) ([RXN]\d{3})")
    shown = mind.output("departures")
    if wish or shown is None:
        return wish or mind.search(r"train=(\w+)", r"([RXN]\d{3}) (?:is the cheapest|costs least)")
    rows = [line.split() for line in shown.splitlines() if line.startswith(f"- {mind['day']}:")]
    return min(rows, key=lambda row: int(row[4]))[2]


def _day_page(mind: Mind) -> str:
    return f"/{mind['day'].lower()}"


FAMILY = read_family(__file__, prepare, train=_train, day_page=_day_page)
