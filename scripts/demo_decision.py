"""The end of `make demo`: one decision of the policy that was made, on a request that can be shown, and what it cost.

The request is of a sandbox run, because nothing of the public runs is shown. What the policy predicts is compared with
what deleting really does to the output that was recorded next.

    python -m scripts.demo_decision WHEEL
"""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from drsr.backbone.catalogue import load_backbone, load_tokenizer
from drsr.offline import samples
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.formats import read_runs
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import HARM_TOLERANCE, contexts_of
from drsr.offline.label.target_nll import direct_nll
from drsr.policy.answer import Decision
from drsr.policy.loading import load_policy
from drsr.policy.policy import Policy
from drsr.request.contracts import Backbone
from drsr.request.rendering import render_output
from drsr.request.view import caps_for

REQUEST = Path("var", "demo", "request.json")
TRIES = 100
"""Maximum number of requests to try until the policy prunes one."""
LONGEST = 160
"""Characters of a removed Block that are shown."""


class Shown(NamedTuple):
    """A decision, and the recorded moment that it is about."""

    run: str
    state: FrozenState
    decision: Decision


def main() -> int:
    wheel = Path(sys.argv[1])
    policy = load_policy(wheel)
    tokenizer, window = load_tokenizer(policy.numbers.backbone.name)
    states = islice(sandbox_states(tokenizer, window), TRIES)
    shown = next((found for found in decisions(policy, states) if found.decision.pruned), None)
    if shown is None:
        print(f"The policy leaves each of {TRIES} sandbox requests as it is: no deletion is safe enough for it.")
        print("The golden requests above, which `drsr policy verify` decided, are of kinds that it prunes.")
        return 0
    REQUEST.parent.mkdir(parents=True, exist_ok=True)
    REQUEST.write_text(json.dumps(shown.decision.original, indent=1))
    harm = measured_harm(shown, load_backbone(policy.numbers.backbone.name))
    print(described(shown, harm, policy.numbers.risk_threshold))
    print(f"\nAll sets that it considered: drsr prune {REQUEST} --policy {wheel} --explain")
    return 0


def sandbox_states(tokenizer: Any, window: int) -> Iterator[tuple[str, FrozenState]]:
    """Yield the decisions of every run of the sample corpus, each run's last ones first, in an order that mixes the
    kinds of work."""
    runs = [run for run in read_runs(str(samples.CORPUS)) if isinstance(run, Trajectory)]
    for run in sorted(runs, key=lambda run: hashlib.sha256(run.external_id.encode()).digest()):
        for state in reversed(freeze_trajectory(run, tokenizer, caps_for(window)).states):
            yield run.external_id.rpartition("#")[2], state


def decisions(policy: Policy, states: Iterator[tuple[str, FrozenState]]) -> Iterator[Shown]:
    for run, state in states:
        yield Shown(run, state, policy.prune(request=state.state.history.request.to_wire(), session=None))


def measured_harm(shown: Shown, backbone: Backbone) -> float:
    """Return by how much the deletion raises the mean NLL of the output that was recorded next, in nats per token."""
    state = shown.state.state
    removed = {block["block"] for block in shown.decision.receipt["removed"]}
    names = [candidate.block.name for candidate in state.candidates]
    contexts = contexts_of(state)
    deleted = next(
        context for found, context in contexts.deleted if {names[member] for member in found.members} == removed
    )
    target = render_output(shown.state.next_output, backbone.tokenizer)
    return direct_nll(backbone, deleted, target) - direct_nll(backbone, contexts.intact, target)


def described(shown: Shown, harm: float, threshold: float | None) -> str:
    """Return the facts about the decision that a reader should know."""
    decision = shown.decision
    chosen = next(found for found in decision.receipt["sets"] if found["verdict"] == "chosen")
    names = " and ".join(block["block"] for block in decision.receipt["removed"])
    share = decision.tokens_saved / (decision.tokens_before or 1)
    lines = [
        f"A request of sandbox run {shown.run}: {decision.tokens_before:,} tokens.",
        f"The policy removes {names}, {decision.tokens_saved:,} tokens ({share:.1%} of the request):",
        *(textwrap.indent(line, "    ") for line in removed_text(decision)),
        f"predicted: risk {chosen['unsafe_score']:.3f} that this is unsafe (the policy takes up to {threshold:.3f}), "
        f"harm {chosen['predicted_harm']:+.3f}",
        f"measured:  harm {harm:+.3f} nats per token: the output that really followed became "
        f"{'less likely' if harm > 0 else 'likelier'}; {'unsafe, being' if harm > HARM_TOLERANCE else 'safe, not'} "
        f"above {HARM_TOLERANCE:+.3f}",
    ]
    return "\n".join(lines)


def removed_text(decision: Decision) -> list[str]:
    """Return the messages that are gone or shorter, each in a line."""
    after = decision.request["messages"]
    lines = []
    for message in decision.original["messages"]:
        if message in after:
            continue
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        said = [_text(message.get("content")), *(f"{call['name']}({call['arguments']})" for call in calls)]
        lines.append(
            textwrap.shorten(f"{message['role']}: {' '.join(filter(None, said))}", LONGEST, placeholder=" ...")
        )
    return lines


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return content or ""


if __name__ == "__main__":
    raise SystemExit(main())
