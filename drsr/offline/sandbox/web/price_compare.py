"""Compare one product over three shops with other currencies and fees, and write down the cheapest offer."""

from __future__ import annotations

from pathlib import Path
from random import Random

from drsr.offline.sandbox.agent import Fact, Message, Mind, Move, call, move
from drsr.offline.sandbox.family import Family, Outcome, Scenario
from drsr.offline.sandbox.noise import mix
from drsr.offline.sandbox.pages import bullets, link, page, paragraphs, write_site
from drsr.offline.sandbox.words import COMPANIES, PRODUCTS, cents, filler_lines, hexadecimal, money, number, people

_CURRENCIES = ("crowns", "florins", "talers", "ducats", "marks", "pesos")
_TOOLS = ("open_page", "read_file", "write_file")
_PROMPTS = (
    "Where is the {product} cheapest, counted in credits? Compare the shops listed on /shops (rates are on "
    "/rates), write reports/{product_file}.txt with shop, article and price in credits, and tell me all three and "
    "the contact.",
    "Please compare prices for the {product}. The shops are on /shops and use other currencies, /rates converts "
    "to credits. Save the best offer (shop, article, price in credits) as reports/{product_file}.txt and name it "
    "with the contact.",
    "I am looking for a {product}. Find the lowest price in credits among /shops with the rates of /rates. I want "
    "reports/{product_file}.txt with shop, article and price in credits, and the same here, plus the shop's "
    "contact.",
)


def prepare(dice: Random, root: Path) -> Scenario:
    product = dice.choice(PRODUCTS)
    shops, currencies = dice.sample(COMPANIES, 3), dice.sample(_CURRENCIES, 3)
    rates = {currency: dice.randrange(2, 12) for currency in currencies}
    # Different costs in credits, each a multiple of its currency's rate.
    base = dice.randrange(4_000, 12_000)
    prices = [
        (base + step) // rates[c] for step, c in zip(dice.sample(range(300, 4_000, 370), 3), currencies, strict=True)
    ]
    costs = [price * rates[currency] for price, currency in zip(prices, currencies, strict=True)]
    articles = [f"{hexadecimal(dice, 3)}-{number(dice, 3)}" for _ in shops]
    contacts = people(dice, 3)
    slugs = [shop.split()[0].lower() for shop in shops]
    pages = {
        "index": page("Comparison", bullets([link("/shops", "Shops"), link("/rates", "Rates")])),
        "shops": page(
            "Shops", bullets([link(f"/shops/{slug}", shop) for slug, shop in zip(slugs, shops, strict=True)])
        ),
        "rates": page(
            "Rates", bullets([f"1 of {currency} is {rate} credits" for currency, rate in sorted(rates.items())])
        ),
        "contacts": page("Contacts", bullets([f"{shop}: {name}" for shop, name in zip(shops, contacts, strict=True)])),
    }
    for slug, shop, price, currency, article in zip(slugs, shops, prices, currencies, articles, strict=True):
        offer = f"{product}, article {article}, {money(price)} {currency}"
        other = (
            f"{dice.choice([p for p in PRODUCTS if p != product])}, article {hexadecimal(dice, 3)}-{number(dice, 3)}, "
        )
        pages[f"shops/{slug}"] = page(
            shop, paragraphs(offer, f"{other}{money(price + 77)} {currency}", filler_lines(dice, 1)[0])
        )
    write_site(dice, root, pages)
    best = min(range(3), key=lambda place: costs[place])
    truth = {"shop": shops[best], "article": articles[best], "price": money(costs[best]), "contact": contacts[best]}
    truth["file"] = f"reports/{product.replace(' ', '-')}.txt"
    prompt = dice.choice(_PROMPTS).format(product=product, product_file=product.replace(" ", "-"))
    return Scenario(prompt, truth)


def _product(mind: Mind) -> str:
    return mind.prompt(rf"({'|'.join(PRODUCTS)})")


def _slugs(mind: Mind) -> list[str] | None:
    shown = mind.output("shops")
    return [line.split("(/shops/")[1].rstrip(")") for line in shown.splitlines()[2:]] if shown else None


SLUGS = Fact("shops", _slugs)


def _offers(mind: Mind) -> list[list[str]] | None:
    """Shop, article, amount and currency of all three offers; None unless all shop pages are visible."""
    pages = [mind.output("first_shop"), mind.output("other_shops.0"), mind.output("other_shops.1")]
    if None in pages:
        return None
    offers = []
    for shown in pages:
        lines = (shown or "").splitlines()
        words = next(line for line in lines if line.startswith(f"{_product(mind)}, article")).split()
        offers.append([lines[1], words[-3].rstrip(","), words[-2], words[-1]])
    return offers


def _best(mind: Mind) -> list[str] | None:
    """Shop, article and price in credits of the cheapest offer; or as it was written since."""
    offers, rates = _offers(mind), mind.output("rates")
    if offers is None or rates is None:
        written = mind.search(r"^shop: (.+\narticle: \S+\nprice: \S+)$")
        return written.replace("article: ", "").replace("price: ", "").split("\n") if written else None
    rate = {line.split()[3]: int(line.split()[5]) for line in rates.splitlines()[2:]}
    costs = [(cents(amount) * rate[currency], shop, article) for shop, article, amount, currency in offers]
    cost, shop, article = min(costs)
    return [shop, article, money(cost)]


BEST = Fact("first_shop other_shops.0 other_shops.1 rates", _best)
CONTACT = Fact("contacts", lambda m: m.search(rf"^- {m(BEST)[0]}: (.+)$"))


@move
def shops(m: Mind) -> Message:
    return m.say(
        ["Which shops are there?", "Opening the list of shops.", "First the shops."], call("open_page", path="/shops")
    )


@move
def rates(m: Mind) -> Message:
    return m.say(
        ["The exchange rates.", "How much is each currency in credits?", "I need the rates to compare."],
        call("open_page", path="/rates"),
    )


@move
def first_shop(m: Mind) -> Message:
    return m.say(
        ["Starting with the first shop.", "What does the first one ask for the {product}?"],
        call("open_page", path=f"/shops/{m(SLUGS)[0]}"),
        product=_product(m),
    )


@move
def other_shops(m: Mind) -> Message:
    return m.say(
        ["And the other two.", "The remaining two side by side."],
        call("open_page", path=f"/shops/{m(SLUGS)[1]}"),
        call("open_page", path=f"/shops/{m(SLUGS)[2]}"),
    )


@move
def search(m: Mind) -> Message:
    return m.say(
        ["Does the site's search know the {product}?", "Searching for the product, perhaps there is more."],
        call("open_page", path=f"/search?q={_product(m).split()[0]}"),
        product=_product(m),
    )


@move
def contacts(m: Mind) -> Message:
    return m.say(
        ["Whom does one call there?", "Looking up the contacts.", "The contacts have a page of their own."],
        call("open_page", path="/contacts"),
    )


@move
def save(m: Mind) -> Message:
    shop, article, price = m(BEST)
    path = m.prompt(r"(reports/\S+\.txt)")
    return m.say(
        ["Saving the best offer.", "{shop} wins with {price} credits.", "Writing the result."],
        call("write_file", path=path, content=f"shop: {shop}\narticle: {article}\nprice: {price}"),
        thinks=["Multiply each price by its rate; the smallest is {price}, at {shop}."],
        shop=shop,
        price=price,
    )


@move
def reread(m: Mind) -> Message:
    return m.say(
        ["Reading it back.", "A last check of the file."], call("read_file", path=m.prompt(r"(reports/\S+\.txt)"))
    )


@move
def answer(m: Mind) -> Message:
    shop, article, price = m(BEST)
    return m.tell(
        "{shop} is cheapest: article {article} for {price} credits. Your contact there is {contact}.",
        "The best offer for the {product} is article {article} of {shop}, {price} credits. Ask for {contact}.",
        "Call {contact} at {shop}: article {article}, {price} credits.",
        product=_product(m),
        shop=shop,
        article=article,
        price=price,
        contact=CONTACT,
    )


def plan(dice: Random) -> list[Move]:
    visits = [first_shop, other_shops]
    look = dice.choice(([shops, *visits, rates], [rates, shops, *visits], [shops, first_shop, rates, other_shops]))
    if dice.random() < 0.25:
        look.insert(dice.randrange(1, 4), search)
    work = dice.choice(([contacts, save], [save, contacts], [save, contacts, reread]))
    return mix(dice, [*look, *work, answer], _TOOLS)


def check(outcome: Outcome) -> bool:
    truth = outcome.scenario.truth
    lines = outcome.text(truth["file"]).splitlines()
    written = all(f"{name}: {truth[name]}" in lines for name in ("shop", "article", "price"))
    return written and outcome.answer_names("shop", "article", "price", "contact")


FAMILY = Family(
    domain="web",
    name="price_compare",
    system="You compare offers on the web through a text browser and save results as files. Convert before comparing.",
    tools=_TOOLS,
    prepare=prepare,
    plan=plan,
    check=check,
)
