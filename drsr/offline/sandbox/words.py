"""Draw what tasks are made of: names, numbers, and filler documents that say nothing the task needs. All seeded."""

from __future__ import annotations

from pathlib import Path
from random import Random

FIRST_NAMES = (
    "Ada", "Bruno", "Carla", "Deniz", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Liam", "Mona", "Nils",
    "Olga", "Pavel", "Quinn", "Rosa", "Samir", "Tilda", "Uma", "Viktor", "Wanda", "Xenia", "Yusuf", "Zoe",
)  # fmt: skip
SURNAMES = (
    "Abel", "Brandt", "Castro", "Dorn", "Ekman", "Fuchs", "Garner", "Hale", "Ito", "Jansen", "Keller", "Lund", "Marek",
    "Novak", "Okafor", "Petit", "Quast", "Rossi", "Stahl", "Tanaka", "Ulrich", "Varga", "Weiss", "Young", "Zeller",
)  # fmt: skip
COMPANIES = (
    "Alder Freight", "Basalt Foods", "Cobalt Print", "Dunmore Tools", "Elmwood Care", "Fjord Textiles", "Gannet Air",
    "Harbor Optics", "Iris Paper", "Juniper Toys", "Kestrel Motors", "Larch Studio", "Mistral Energy", "Nimbus Labs",
    "Orchard Bikes", "Pinecrest Hotels", "Quarry Stone", "Redwood Audio", "Sable Coffee", "Tern Shipping",
)  # fmt: skip
CITIES = (
    "Aarhus", "Bergen", "Cadiz", "Dresden", "Esbjerg", "Faro", "Ghent", "Haifa", "Izmir", "Jena", "Krakow", "Lille",
    "Malmo", "Nantes", "Oulu", "Porto", "Rouen", "Split", "Turku", "Utrecht", "Varna", "Zagreb",
)  # fmt: skip
NOUNS = (
    "anchor", "basket", "cabin", "delta", "ember", "falcon", "garnet", "harbor", "island", "jungle", "kernel",
    "lantern", "meadow", "nectar", "orbit", "pepper", "quartz", "ribbon", "saddle", "timber", "umbrella", "velvet",
    "walnut", "yarrow", "zephyr", "beacon", "copper", "dune", "fern", "glacier",
)  # fmt: skip
PRODUCTS = (
    "desk lamp", "water kettle", "travel mug", "wall clock", "garden hose", "camp stove", "bike pump", "hand mixer",
    "tool chest", "floor mat", "book stand", "paper cutter", "label maker", "door sensor", "power strip", "rain coat",
    "tea pot", "yoga block", "steam iron", "picnic rug",
)  # fmt: skip
COLORS = ("amber", "black", "coral", "green", "grey", "ivory", "navy", "olive", "plum", "red", "sand", "teal", "white")
TEAMS = ("billing", "catalog", "delivery", "facilities", "finance", "logistics", "payroll", "platform", "research",
         "sales", "search", "support")  # fmt: skip

_FILLER = (
    "The {team} team moved its weekly sync to {weekday}.",
    "{first} will be away until the {number}th; please ask {other} instead.",
    "Old exports from {city} are kept for {number} weeks and then removed.",
    "The {noun} printer on floor {small} is out of toner again.",
    "Please do not rename the {noun} folder, two reports still depend on it.",
    "There were {number} visitors from {city} in the last quarter.",
    "The style guide was shortened from {number} to {small} pages.",
    "{first} and {other} agreed to try the {noun} layout for a month.",
    "Backups of the {noun} share run on {weekday} nights.",
    "Coffee for the {team} room is ordered by {first} from now on.",
    "The {city} office closes at {small} o'clock on {weekday}s.",
    "A second pair of eyes is welcome on the {noun} draft.",
    "Parking space {number} belongs to the {team} team.",
    "The {noun} banner was replaced because its colours were hard to read.",
    "{first} collected {number} answers to the {noun} survey.",
    "Some links in the {noun} handbook still point to the {city} site.",
    "The {team} wiki was tidied up; {number} empty pages are gone.",
    "{other} asked for a {weekday} slot to show the {noun} prototype.",
    "Training for new colleagues in {city} starts with the {noun} course.",
    "Badge readers in {city} were updated to firmware {small}.{number}.",
    "Lunch vouchers can be picked up from {first} on {weekday}.",
    "The {noun} test bench is reserved by the {team} team.",
    "Shelf {small} holds the {noun} samples, {number} pieces in all.",
    "Nobody objected to retiring the {noun} newsletter.",
)
CONSENT = ("Yes.", "Yes, please.", "Go ahead.", "Fine.", "Please do.")
"""Answers of a user who agrees."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def people(dice: Random, count: int) -> list[str]:
    """Persons with different first names and surnames."""
    return [
        f"{first} {last}"
        for first, last in zip(dice.sample(FIRST_NAMES, count), dice.sample(SURNAMES, count), strict=True)
    ]


def number(dice: Random, digits: int) -> str:
    """Return a number with that many digits, the first not 0."""
    return str(dice.randrange(10 ** (digits - 1), 10**digits))


def numbers(dice: Random, digits: int, count: int) -> list[str]:
    """Different numbers of that many digits."""
    return [str(value) for value in dice.sample(range(10 ** (digits - 1), 10**digits), count)]


def hexadecimal(dice: Random, digits: int) -> str:
    return "".join(dice.choice("0123456789abcdef") for _ in range(digits))


def mail_address(name: str) -> str:
    """Return the address of a person or a company: `ada.brandt@example.org`."""
    return f"{name.lower().replace(' ', '.')}@example.org"


def filler_lines(dice: Random, count: int) -> list[str]:
    """Sentences that no task needs."""
    return [
        template.format(
            team=dice.choice(TEAMS),
            first=dice.choice(FIRST_NAMES),
            other=dice.choice(FIRST_NAMES),
            weekday=dice.choice(_WEEKDAYS),
            city=dice.choice(CITIES),
            noun=dice.choice(NOUNS),
            number=dice.randrange(11, 29),
            small=dice.randrange(2, 8),
        )
        for template in dice.sample(_FILLER, count)
    ]


def write_files(root: Path, files: dict[str, str]) -> None:
    """Write files with their folders; each text ends with a newline."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.strip("\n") + "\n", encoding="utf-8")
