"""Compare one product over two shops with other currencies, and write down the cheapest offer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Mind
from drsr.offline.sandbox.family import Scenario
from drsr.offline.sandbox.script import read_family
from drsr.offline.sandbox.words import COMPANIES, CONSENT, FIRST_NAMES, PRODUCTS, hexadecimal
from drsr.offline.sandbox.workshop.pages import bullets, page, paragraphs, write_site

_CURRENCIES = ("crowns", "florins", "talers", "ducats", "marks", "pesos")


def prepare(dice: Random, root: Path) -> Scenario:
    product, other = dice.sample(PRODUCTS, 2)
    shops = [company.split()[0] for company in dice.sample(COMPANIES, 3)]
    currencies = dice.sample(_CURRENCIES, 2)
    rates = dict(zip(currencies, dice.sample(range(2, 12), 2), strict=True))
    prices = [dice.randrange(20, 60), dice.randrange(20, 60)]
    costs = [price * rates[currency] for price, currency in zip(prices, currencies, strict=True)]
    if costs[0] == costs[1]:
        prices[1] += 1
        costs[1] += rates[currencies[1]]
    articles = [hexadecimal(dice, 3) for _ in range(2)]
    contacts = dice.sample(FIRST_NAMES, 3)
    pages = {
        "rates": page(
            "Rates", bullets([f"1 of {currency} is {rate} credits" for currency, rate in sorted(rates.items())])
        ),
    }
    for place in range(2):
        offers = [f"{product}: article {articles[place]}, {prices[place]} {currencies[place]}"]
        offers.append(f"{other}: article {hexadecimal(dice, 3)}, {dice.randrange(20, 60)} {currencies[place]}")
        dice.shuffle(offers)
        pages[shops[place].lower()] = page(shops[place], paragraphs(*offers, f"Contact: {contacts[place]}"))
    write_site(dice, root, pages)
    best = min(range(2), key=lambda place: costs[place])
    truth = {"shop": shops[best], "article": articles[best], "credits": str(costs[best]), "contact": contacts[best]}
    prompt = dice.choice(FAMILY.prompts).format(product=product, a=shops[0].lower(), b=shops[1].lower())
    return Scenario(prompt, truth, (dice.choice(CONSENT),))


def _best(mind: Mind) -> list[str] | None:
    """Shop, article and price in credits of the cheaper offer; or as it was written since."""
    pages, rates = [mind.output("first_shop"), mind.output("second_shop")], mind.output("rates")
    if None in pages or rates is None:
        written = mind.search(r"^([A-Z]\w+ [0-9a-f]{3} \d+)$")
        return written.split() if written else None
    rate = {line.split()[3]: int(line.split()[5]) for line in rates.splitlines()[1:]}
    offers = []
    for shown in pages:
        lines = (shown or "").splitlines()
        words = next(line for line in lines if line.startswith(f"{mind['product']}: article")).split()
        offers.append((int(words[-2]) * rate[words[-1]], lines[0], words[-3].rstrip(",")))
    cost, shop, article = min(offers)
    return [shop, article, str(cost)]


FAMILY = read_family(__file__, prepare, best=_best)
