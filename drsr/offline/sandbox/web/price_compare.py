"""Compare one product over two shops with other currencies, and write down the cheapest offer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move, question
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.words import COMPANIES, CONSENT, FIRST_NAMES, PRODUCTS, hexadecimal
from drsr.offline.sandbox.workshop.pages import bullets, page, paragraphs, write_site

_CURRENCIES = ("crowns", "florins", "talers", "ducats", "marks", "pesos")
_TOOLS = ("open", "log")
_PROMPTS = (
    "Where is the {product} cheapest, counted in credits: at /{a} or at /{b}? Rates are on /rates. Ask me, log "
    "'<shop> <article> <credits>', and tell me shop, article, credits and the contact.",
    "Please compare prices for the {product} at /{a} and /{b}. They use other currencies, /rates converts to credits. "
    "Propose the better offer, log it as '<shop> <article> <credits>' and name it with its contact.",
    "I am looking for a {product}. Find the lower price in credits among /{a} and /{b} with the rates of /rates. I "
    "want '<shop> <article> <credits>' in the log, and the same here, plus the shop's contact. Ask me before you log "
    "it.",
)


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
    prompt = dice.choice(_PROMPTS).format(product=product, a=shops[0].lower(), b=shops[1].lower())
    return Scenario(prompt, truth, (dice.choice(CONSENT),))


def _product(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(PRODUCTS)})")


def _shop(mind: Mind, number: int) -> str:
    return mind.prompt((r"(/[a-z]+) (?:or|and)\b", r"(?:or at|and) (/[a-z]+)\b")[number])


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
        words = next(line for line in lines if line.startswith(f"{_product(mind)}: article")).split()
        offers.append((int(words[-2]) * rate[words[-1]], lines[0], words[-3].rstrip(",")))
    cost, shop, article = min(offers)
    return [shop, article, str(cost)]


BEST = Fact("first_shop second_shop rates", _best)
CONTACT = Fact("first_shop second_shop", lambda m: m.search(rf"^{m(BEST)[0]}\n(?:.*\n)+?Contact: (\w+)$"))


@move
def rates(m: Mind) -> Message:
    return m.say(
        ["The exchange rates.", "How much is each currency in credits?", "I need the rates to compare."],
        call("open", path="/rates"),
    )


@move
def first_shop(m: Mind) -> Message:
    return m.say(
        ["Starting with the first shop.", "What does the first one ask for the {product}?"],
        call("open", path=_shop(m, 0)),
        product=_product(m),
    )


@move
def second_shop(m: Mind) -> Message:
    return m.say(["And the other shop.", "Now the second one."], call("open", path=_shop(m, 1)))


@move
def search(m: Mind) -> Message:
    return m.say(
        ["Does the site's search know more shops?", "Searching, perhaps there is more."],
        call("open", path="/search?q=outlet"),
    )


@question
def ask(m: Mind) -> Message:
    return m.tell("{shop} is cheaper. Shall I log it?", "Log the offer of {shop}?", shop=m(BEST)[0])


@move
def save(m: Mind) -> Message:
    return m.say(
        ["Saving the best offer.", "Writing the result."],
        call("log", line=" ".join(m(BEST))),
    )


@move
def answer(m: Mind) -> Message:
    shop, article, credits = m(BEST)
    return m.tell(
        "{shop} is cheapest: article {article} for {credits} credits. Ask for {contact}.",
        "The best offer is {article} of {shop}, {credits} credits; contact {contact}.",
        "Call {contact} at {shop}: article {article}, {credits} credits.",
        brief=("The offer of {shop} is in the log, at {credits} credits.", "Done: {shop} wins with {credits} credits."),
        shop=shop,
        article=article,
        credits=credits,
        contact=CONTACT,
    )


def plan(dice: Random) -> list[Move]:
    look = dice.choice(
        ([first_shop, second_shop, rates], [rates, first_shop, second_shop], [first_shop, rates, second_shop])
    )
    if dice.random() < 0.15:
        look.insert(dice.randrange(1, 3), search)
    return mix(dice, [*look, ask, save, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    line = " ".join(truth[name] for name in ("shop", "article", "credits"))
    written = outcome.last_line("log.txt") == line
    return written and outcome.answer_names(
        "shop",
        "article",
        "credits",
        "contact",
        brief=(
            "shop",
            "credits",
        ),
    )


FAMILY = Family(
    domain="web",
    name="price_compare",
    role="You compare offers on the web through a text browser and keep a list of the best. Convert before "
    "comparing: a price times the rate of its currency gives credits. Articles have a number of three signs. The list "
    "has one line per product, and each shop has somebody to call.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
