"""A decision's receipt: what was considered and removed, and why, as one JSON record.

It holds hashes, sizes, scores and positions, and no text of the request unless that is requested.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from drsr.decide.selection import Standing
from drsr.errors import ReceiptError
from drsr.request.history import Block
from drsr.request.request import Request, read_request
from drsr.tables import excerpt, table
from drsr.version import __version__

if TYPE_CHECKING:
    from drsr.decide.decision import Outcome
    from drsr.policy.answer import Decision

FORMAT = "drsr-receipt/1"


def build_receipt(decision: Decision) -> dict[str, Any]:
    """Return the record of a decision, without text."""
    outcome, numbers = decision.outcome, decision.policy.numbers
    record: dict[str, Any] = {
        "format": FORMAT,
        "id": decision.id,
        "time": datetime.fromtimestamp(decision.time, UTC).isoformat(timespec="milliseconds"),
        "drsr": __version__,
        "policy": {
            "version": numbers.version,
            "identity": decision.policy.identity,
            "backbone": numbers.backbone.name,
            "backbone_identity": numbers.backbone.identity,
            "layout_hash": numbers.layout_hash,
            "renderer_version": numbers.renderer_version,
            "rule_version": numbers.rule_version,
            "max_cardinality": numbers.max_cardinality,
            "uncertainty_coefficient": numbers.uncertainty_coefficient,
            "risk_threshold": numbers.risk_threshold,
            "removal_cap": numbers.removal_cap,
        },
        "model": None if decision.model is None else excerpt(decision.model, 100),
        "pruned": decision.pruned,
        "reason": None if decision.pruned else decision.reason,
        "nothing_more": decision.nothing_more,
        "detail": decision.detail,
        "tokens": {
            "before": decision.tokens_before,
            "after": decision.tokens_after,
            "saved": decision.tokens_saved,
        },
        "session": decision.session,
        "distance": None if decision.distance is None else decision.distance.to_json(),
        "recalled": None if decision.recalled is None else decision.recalled._asdict(),
    }
    record |= _looked_at(outcome) if outcome else _NOTHING
    record["milliseconds"] = {**record["milliseconds"], "total": round(decision.total_milliseconds, 3)}
    return record


_NOTHING: dict[str, Any] = {
    "protocol": None,
    "messages": None,
    "hashes": None,
    "candidates": [],
    "sets": [],
    "removed": [],
    "passes": 0,
    "invariants": {},
    "milliseconds": {},
}
"""Record of a request that was not looked at."""


def _looked_at(outcome: Outcome) -> dict[str, Any]:
    evidence = outcome.evidence
    before, after = evidence.original.request, evidence.returned.request
    runs = shared_runs(before, after)
    hashed = request_hash(before, runs)
    return {
        "protocol": before.protocol,
        "messages": {"before": len(before.messages), "after": len(after.messages)},
        "hashes": {"before": hashed, "after": hashed if after is before else request_hash(after, runs)},
        "candidates": _candidates(outcome),
        "sets": _sets(outcome),
        "removed": [_block(block) for block in outcome.removed],
        "passes": evidence.passes,
        "invariants": {check.name: check.problem is None for check in outcome.checks},
        "milliseconds": {phase: round(spent, 3) for phase, spent in outcome.milliseconds.items()},
    }


def _candidates(outcome: Outcome) -> list[dict[str, Any]]:
    state = outcome.evidence.state
    return [
        {**_block(outcome.renamed.get(found.block.name, found.block)), "direct_saving": found.direct_saving}
        for found in (state.candidates if state else ())
    ]


def _sets(outcome: Outcome) -> list[dict[str, Any]]:
    """Return every set, its members as positions in the list of candidates."""
    scores, proposed = outcome.scores, outcome.evidence.proposed
    rows = []
    for row, (found, verdict) in enumerate(zip(outcome.sets, outcome.verdicts, strict=True)):
        scored: dict[str, Any] = dict.fromkeys(("unsafe_score", "unsafe_mean", "unsafe_std", "predicted_harm"))
        if scores is not None and proposed is not None:
            scored = {
                "unsafe_score": float(proposed.unsafe_score[row]),
                "unsafe_mean": float(scores.unsafe_mean[row]),
                "unsafe_std": float(scores.unsafe_std[row]),
                "predicted_harm": float(scores.predicted_harm[row]),
            }
        about = {"members": list(found.members), "direct_saving": found.direct_saving, "verdict": str(verdict)}
        rows.append({**about, **scored, "violations": [str(violation.kind) for violation in found.violations]})
    return rows


def _block(block: Block) -> dict[str, Any]:
    messages = sorted({ref.message for ref in block.parts})
    return {"block": block.name, "kind": str(block.kind), "messages": messages}


_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class JsonRun(NamedTuple):
    """Some messages in a row as JSON, without the brackets of a list."""

    messages: int
    text: str


def shared_runs(before: Request, after: Request) -> dict[int, JsonRun]:
    """Return the messages that both requests hold, in runs that follow one another in both, by the `id` of the first's
    wire form: most of the JSON of both, written once."""
    kept = {id(message.wire) for message in after.messages}
    runs = {}
    for is_kept, group in groupby(before.messages, key=lambda message: id(message.wire) in kept):
        wires = [message.wire for message in group]
        if is_kept:
            runs[id(wires[0])] = JsonRun(len(wires), _SORTED.encode(wires)[1:-1])
    return runs


def request_hash(request: Request, runs: Mapping[int, JsonRun] | None = None) -> str:
    """Return the SHA-256 of the exact request: its JSON with sorted keys. `runs` are those of its messages that were
    written."""
    texts, index = [], 0
    while index < len(request.messages):
        wire = request.messages[index].wire
        run = runs.get(id(wire)) if runs else None
        run = JsonRun(1, _SORTED.encode(wire)) if run is None else run
        texts.append(run.text)
        index += run.messages
    body = "[" + ",".join(texts) + "]"
    if request.fields is not None:
        fields = {**request.fields, "messages": None}
        told = (f"{_SORTED.encode(key)}:{body if key == 'messages' else _SORTED.encode(fields[key])}" for key in fields)
        body = "{" + ",".join(text for _, text in sorted(zip(fields, told, strict=True))) + "}"
    return hashlib.sha256(body.encode()).hexdigest()


_WHY = {
    Standing.CHOSEN: "CHOSEN",
    Standing.TOO_MANY_BLOCKS: "too many Blocks at once",
    Standing.SAVES_NOTHING: "saves nothing",
    Standing.BREAKS_PROTOCOL: "would break the protocol",
    Standing.OVER_REMOVAL_CAP: "removes more than {removal_cap:.0%} of the request",
    Standing.OVER_RISK_THRESHOLD: "unsafe score above {risk_threshold:.4f}",
    Standing.SAVES_LESS: "saves less than the chosen one",
    Standing.HIGHER_UNSAFE_SCORE: "saves as much, but has a higher unsafe score",
    Standing.HIGHER_PREDICTED_HARM: "as good, but has a higher predicted harm",
    Standing.LISTED_LATER: "as good as the chosen one, which comes first",
    Standing.NOT_WORTH_REWRITING: "saves less than re-writing the cached prefix costs",
    Standing.BELOW_MINIMUM: "saves less than a deletion must",
    Standing.NOT_SCORED: "not scored",
}


def explain(record: dict[str, Any]) -> str:
    """Return a receipt as text to read."""
    policy, tokens = record["policy"], record["tokens"]
    lines = [
        f"decision {record['id']} of {record['time']}, policy {policy['version']} with {policy['backbone']}",
        _in_short(record, tokens),
    ]
    if record["removed"]:
        places = (f"{block['block']} ({block['kind']}, {_places(block['messages'])})" for block in record["removed"])
        lines.append(f"removed: {', '.join(places)}")
    lines += _far(record.get("distance"))
    lines += _recalled(record.get("recalled"))
    broken = [name for name, holds in record["invariants"].items() if not holds]
    if broken:
        lines.append(f"violated: {', '.join(broken)}")
    if record["sets"]:
        names = [candidate["block"] for candidate in record["candidates"]]
        rows = [
            (
                "{" + ", ".join(names[member] for member in found["members"]) + "}",
                found["direct_saving"],
                f"{found['direct_saving'] / tokens['before']:.1%}" if tokens["before"] else "",
                found["unsafe_score"],
                found["predicted_harm"],
                _WHY[Standing(found["verdict"])].format(**policy),
            )
            for found in record["sets"]
        ]
        headers = ("delete", "saves", "share", "unsafe score", "predicted harm", "why")
        lines += ["", f"{len(rows)} sets of {len(names)} candidates:", table(headers, rows)]
    return "\n".join(lines)


def _far(distance: dict[str, Any] | None) -> list[str]:
    """Say so if a request is outside what the policy was calibrated on."""
    if distance is None or not distance["outside"]:
        return []
    return [
        f"unlike the training states: distance {distance['distance']:.2f} where {distance['limit']:.2f} is the limit, "
        f"most by {', '.join(distance['columns'])}; the published rates do not cover it"
    ]


def _recalled(found: dict[str, Any] | None) -> list[str]:
    """Say so if the model asked for what was removed; older receipts do not record this."""
    if found is None:
        return []
    if not found["calls"]:
        return ["sent as it came in the end: the tool for recalls was refused"]
    calls = f"{found['calls']} further call{'s' if found['calls'] > 1 else ''} of the model"
    return [f"recalled: {', '.join(found['blocks']) or 'only the list'}, for {calls}"]


def diff(record: dict[str, Any]) -> list[str]:
    """Return what a decision removed: the lines of a unified diff if the text was kept, else the Blocks."""
    if not record["pruned"]:
        return [f"decision {record['id']} changed nothing: {record['reason']}"]
    if "text" not in record:
        removed = [f"- {block['block']} ({block['kind']}, {_places(block['messages'])})" for block in record["removed"]]
        return [f"decision {record['id']} removed:", *removed, "the text was not kept in this receipt"]
    before, after = (_lines(record["text"][when]) for when in ("before", "after"))
    return list(difflib.unified_diff(before, after, "before", "after", lineterm=""))


def restore(record: dict[str, Any]) -> Any:
    """Return the request as it was before the decision. Raise ReceiptError if the receipt does not hold it."""
    if "text" not in record:
        raise ReceiptError(
            "its receipt holds no text, so the request cannot be restored from it",
            where=f"decision {record['id']}",
            hint="receipts keep the text where it is asked for: --keep-text, or ReceiptFile(path, keep_text=True)",
        )
    body = record["text"]["before"]
    if record["hashes"] is not None and _hash_of(body, record) != record["hashes"]["before"]:
        raise ReceiptError("the text in its receipt is another request's", where=f"decision {record['id']}")
    return body


def _hash_of(body: Any, record: dict[str, Any]) -> str:
    return request_hash(read_request(body, protocol=record["protocol"]))


def _lines(body: Any) -> list[str]:
    """Return JSON line by line, without the commas between lines, so that losing a neighbour does not change a line.
    Characters that could move a terminal's cursor are shown as `?`."""
    lines = json.dumps(body, indent=1, ensure_ascii=False).split("\n")
    return ["".join(c if c.isprintable() else "?" for c in line.removesuffix(",")) for line in lines]


def _in_short(record: dict[str, Any], tokens: dict[str, Any]) -> str:
    said = record.get("nothing_more") or record["reason"]  # one field for both in older receipts
    why = f"{said}{': ' + record['detail'] if record['detail'] else ''}"
    if record["pruned"]:
        more = f"; nothing more: {why}" if said else ""
        return f"pruned: {tokens['before']:,} -> {tokens['after']:,} tokens, {tokens['saved']:,} saved{more}"
    counted = "" if tokens["before"] is None else f" ({tokens['before']:,} tokens)"
    return f"unchanged{counted}: {why}"


def _places(messages: list[int]) -> str:
    return f"message{'s' if len(messages) > 1 else ''} {', '.join(map(str, messages))}"
