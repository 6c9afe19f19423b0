"""The model card of a policy: Markdown to read, written from the numbers alone, so that it too is reproducible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drsr.decide.numbers import PolicyNumbers
from drsr.offline.calibrate.certificates import BOUND, PointBound
from drsr.offline.evaluate.second_opinion import NOT_TAKEN, opinion_of
from drsr.offline.label.noise.floor import floor_said
from drsr.offline.label.target_nll import EXACT
from drsr.offline.publish.deployment import advice_of
from drsr.offline.publish.lineage import Link, Traced
from drsr.offline.train.metrics import Metric
from drsr.policy.generated import requirement
from drsr.policy.golden import TOLERANCE, GoldenRequest
from drsr.policy.location import package_name, project_name

ADVISES, BOUNDS = 2, 3
"""Editions of the card: the second adds advice on whether to deploy the policy, the third the finite-sample bound and a
second opinion on the labels."""
EDITION = BOUNDS
SECOND_OPINION = "second_opinion"
"""Under which key the numbers of a calibration have it."""


def model_card(
    numbers: PolicyNumbers,
    traced: Traced,
    links: Sequence[Link],
    golden: Sequence[GoldenRequest],
    bound: PointBound | None = None,
    *,
    edition: int = EDITION,
) -> str:
    """Return the whole card, with the bound of a plain calibration's point. Earlier editions say less."""
    title = f"# {project_name(numbers)} {numbers.version}"
    advice = advice_of(numbers, traced)
    return "\n".join(
        [
            *([f"{title}: {advice.verdict}", "", advice.why] if edition >= ADVISES else [title]),
            "",
            "Decides, before each call of an agent's language model, which old history Blocks can be deleted from the "
            "request, or abstains.",
            "",
            *_warning(numbers),
            *_use(numbers),
            *_operating_point(numbers, traced, bound if edition >= BOUNDS else None),
            *_data(traced),
            *(_second_opinion(numbers) if edition >= BOUNDS else ()),
            *_scorer(traced),
            *_limits(numbers, traced),
            *_golden(golden),
            *_lineage(links),
        ]
    )


def _warning(numbers: PolicyNumbers) -> list[str]:
    if not numbers.always_abstains:
        return []
    return ["**This policy abstains always.** Calibration found nothing admissible; every request stays as it is.", ""]


def _use(numbers: PolicyNumbers) -> list[str]:
    return [
        "## Use",
        "",
        "```python",
        f"from {package_name(numbers)} import load",
        "",
        "policy = load()",
        "decision = policy.prune(messages, tools=tools)",
        "```",
        "",
        f"{_reads(numbers)} It needs `{requirement(numbers)}`.",
        "",
    ]


def _reads(numbers: PolicyNumbers) -> str:
    name = numbers.backbone.name
    if numbers.light is None:
        return f"It reads with the backbone `{name}` and refuses another; `drsr backbone fetch` gets it."
    return (
        f"It is a light policy: it decides by the request's text, in milliseconds and without a language model. Tokens "
        f"are counted with the tokenizer of `{name}`, which measured its labels; the tokenizer's file ships with it."
    )


def _operating_point(numbers: PolicyNumbers, traced: Traced, bound: PointBound | None) -> list[str]:
    record = traced.calibration
    params = record.params
    rows: list[tuple[str, object]] = [
        ("most Blocks deleted at once (K)", numbers.max_cardinality),
        ("risk threshold (tau)", "none" if numbers.risk_threshold is None else repr(numbers.risk_threshold)),
        ("uncertainty coefficient (beta)", repr(numbers.uncertainty_coefficient)),
        ("most of a request removed at once", f"{numbers.removal_cap:.0%}"),
        ("harm above this counts as unsafe", f"{numbers.harm_tolerance:g} nats per token"),
        ("states of train and validation" if traced.run.fold_scores else "validation states", record.states),
        ("of these pruned", record.selected),
        ("unsafe rate among pruned", f"{_number(record.unsafe_rate)} (limit {params['max_unsafe_rate']:g})"),
        ("mean harm of pruned", f"{_number(record.mean_harm)} nats per token (limit {params['max_mean_harm']:g})"),
        ("mean part of a request removed, over all states", f"{record.mean_removal:.2%}"),
    ]
    if record.mode == "certified":
        certified = f"{_number(record.unsafe_bound)} with confidence {record.confidence:g} ({record.bound})"
        rows.append(("bound on the unsafe rate of new trajectories", certified))
    if bound is not None:
        rows.append(("finite-sample bound on the unsafe rate, not paid for the search", _bounded(bound)))
    return ["## Operating point", "", record.explanation, "", *_table(("", "value"), rows), *_assumed(bound)]


def _bounded(bound: PointBound) -> str:
    if bound.rate is None:
        return f"none: a task here has {bound.largest} states, and max_group_states allows for {bound.most_states}"
    return f"{_number(bound.rate)} with confidence {bound.confidence:g} ({BOUND})"


def _assumed(bound: PointBound | None) -> list[str]:
    if bound is None or bound.rate is None:
        return []
    return [
        "The finite-sample bound assumes that tasks are independent draws of at most "
        f"{bound.most_states} states each, and that the point was fixed before these states were seen; it was chosen "
        "on them, so what can be promised lies above it, and `drsr calibrate --certified` says where.",
        "",
    ]


def _noise(traced: Traced) -> str:
    """Report the noise of half precision only: float32 has almost none, and how little depends on the machine."""
    floor = traced.labeler.noise_floor
    return "" if traced.labeler.identity.dtype == EXACT else f"Noise floor of harm: {floor_said(floor)}. "


def _only(traced: Traced) -> str:
    source = traced.run.source
    return "" if source is None else f" All states are of the source {source}: it is a policy for its runs alone."


def _data(traced: Traced) -> list[str]:
    run = traced.run
    rows = [
        ("train", run.train_trajectories, run.train_sets),
        ("validation", run.validation_trajectories, run.validation_sets),
    ]
    labeler = traced.labeler.identity
    return [
        "## Made from",
        "",
        f"Labels: exact joint deletion harm, measured with {labeler.backbone} ({labeler.dtype}). "
        f"{_noise(traced)}The test split was not read to make it.{_only(traced)}",
        "",
        *_table(("split", "trajectories", "labelled deletion sets"), rows),
    ]


def _second_opinion(numbers: PolicyNumbers) -> list[str]:
    values = numbers.calibration.get(SECOND_OPINION)
    return [NOT_TAKEN if values is None else opinion_of(values, "policy.json").said, ""]


def _scorer(traced: Traced) -> list[str]:
    metrics = [Metric.from_json(value) for value in traced.run.metrics["ensemble"]]
    rows = [
        (metric.name, metric.grouping, _number(metric.value), f"{_number(metric.low)} to {_number(metric.high)}")
        for metric in metrics
    ]
    run = traced.run
    kind = run.params.get("scorer", "network")
    seeds = ", ".join(map(str, run.seeds))
    chosen = "Each member's epoch was chosen on these same states." if kind == "network" else ""
    if run.fold_scores is not None:
        chosen = "Every state was scored by members that never saw its task."
    return [
        "## Scorer by folds" if run.fold_scores is not None else "## Scorer on validation",
        "",
        f"An ensemble of {len(run.seeds)} (kind {kind}, seeds {seeds}). {chosen}".rstrip(),
        "",
        *_table(("metric", "over", "value", "95 % interval"), rows),
        *_cross_fitting(traced),
    ]


def _cross_fitting(traced: Traced) -> list[str]:
    """State what cross-fitting assumes, with the numbers that let a reader judge it."""
    run = traced.run
    if run.fold_scores is None:
        return []
    fold, final = (run.metrics["histograms"][name] for name in ("fold", "final"))
    tenths = [f"{tenth / 10:.1f} to {(tenth + 1) / 10:.1f}" for tenth in range(10)]
    shares = [(tenth, f"{one:.3f}", f"{other:.3f}") for tenth, one, other in zip(tenths, fold, final, strict=True)]
    return [
        f"Cross-fitted: K, beta and tau were searched on the states of train and validation together, in "
        f"{run.params['folds']} folds by task; the members that decide were then fitted on all of them. This assumes "
        "that they score new tasks as the fold members scored theirs. Shares of unsafe scores, of fold members on the "
        "tasks of their fold and of final members on tasks that they did not draw:",
        "",
        *_table(("unsafe score", "fold members", "final members"), shares),
    ]


def _limits(numbers: PolicyNumbers, traced: Traced) -> list[str]:
    return [
        "## Limits",
        "",
        "- Harm is what deleting does to the likelihood of the next output, measured with one language model on "
        "recorded runs like those above. On other agents, tools or languages nothing is promised.",
        f"- The operating point is the best of many that were tried on {_tried_on(traced)}; on new data expect "
        "somewhat worse."
        if traced.calibration.mode == "plain"
        else "- The bound holds for new trajectories of the same kind, not for others.",
        _length_limit(numbers),
        *_known(numbers),
        "- Prefix, later user messages and the two latest Steps are never touched.",
        "",
    ]


def _tried_on(traced: Traced) -> str:
    return "validation" if traced.run.fold_scores is None else "train and validation"


def _length_limit(numbers: PolicyNumbers) -> str:
    cap = f"{numbers.context_cap:,} tokens"
    if numbers.light is None:
        return f"- Of a request of more than {cap} only the end is read; Blocks before it stay."
    return (
        "- Requests of any length are read whole, and candidates come from the whole history. Labels were measured on "
        f"at most {cap} (the end of longer requests, read as if it were the whole request): on longer requests ages, "
        "distances and counts lie beyond what was trained on."
    )


def _known(numbers: PolicyNumbers) -> list[str]:
    known = numbers.distribution
    if known is None:
        return []
    return [
        f"- A request whose features lie farther than {known.limit:g} from those of the {known.states:,} states that "
        "it was made from is unlike them: `decision.distance.outside` says so, the proxy counts it, and the numbers of "
        "this card do not cover it. Of requests like the training states about one in twenty lies outside."
    ]


def _golden(golden: Sequence[GoldenRequest]) -> list[str]:
    rows = [(item.name, item.expected.shown) for item in golden]
    return [
        "## Golden requests",
        "",
        f"`drsr policy verify` decides them again; tolerated is {TOLERANCE}.",
        "",
        *_table(("request", "decision"), rows),
    ]


def _lineage(links: Sequence[Link]) -> list[str]:
    rows = [(link.link, link.items, ", ".join(link.made_from), f"`{link.sha256}`") for link in links]
    return [
        "## Lineage",
        "",
        "Each hash covers the hashes of what the link was made from. `lineage.json` holds the facts.",
        "",
        *_table(("link", "items", "made from", "SHA-256"), rows)[:-1],
        "",
    ]


def _table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a Markdown table and an empty line."""
    cells = [headers, ["---"] * len(headers), *rows]
    return [*(f"| {' | '.join(_cell(value) for value in row)} |" for row in cells), ""]


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _number(value: Any) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"
