"""The last lines of `make demo`: what the published policy removes from an example request, and where to look next."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from drsr.backbone.catalogue import load_tokenizer
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.publish.pruned_example import PrunedExample, find_pruned_example
from drsr.offline.publish.records import latest_releases
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.records import latest_calibrations
from drsr.policy.policy import Decision, load_policy
from drsr.request.view import caps_for
from drsr.settings import load_settings
from scripts.demo_places import AUDIT, DOCS, ENDING, REPORT, REQUEST

LONGEST = 160
"""Characters of a removed Block that are shown."""


def main() -> int:
    """Print, and keep what was printed and the request that it is about."""
    settings = load_settings()
    tokenizer, window = load_tokenizer(settings.backbone)
    with open_catalog(settings.catalog_url) as catalog:
        artifacts = ArtifactStore(settings.artifact_root)
        with catalog.reading() as connection:
            release = latest_releases(connection, 1)[0]
            calibration = next(
                found for found in latest_calibrations(connection, 10_000) if found.id == release.calibration_run_id
            )
        example = find_pruned_example(catalog, artifacts, calibration, tokenizer, caps_for(window))
    wheel = Path(release.index_location, "drsr-policy", release.file_name)
    REQUEST.parent.mkdir(parents=True, exist_ok=True)
    if example is None:
        text = f"Policy {release.version} abstains on every validation request: nothing is safe enough to remove."
    else:
        REQUEST.write_text(json.dumps(example.request, indent=1))
        decision = load_policy(str(wheel)).prune(request=example.request)
        text = ending(example, decision, calibration.risk_threshold)
    text += "\n\n" + look_next(wheel)
    ENDING.write_text(text + "\n")
    print(text)
    return 0


def ending(example: PrunedExample, decision: Decision, threshold: float | None) -> str:
    """The facts about one decision that a person should know."""
    if not decision.pruned:
        return f"The policy left the example request as it is: {decision.reason}."
    chosen = next(found for found in decision.receipt["sets"] if found["verdict"] == "chosen")
    names = " and ".join(block["block"] for block in decision.receipt["removed"])
    lines = [
        f"An example: run {example.run}, a request of {decision.tokens_before:,} tokens from the validation split.",
        f"The policy removes {names}, {decision.tokens_saved:,} tokens ({example.removal:.1%} of the request):",
        *(textwrap.indent(line, "    ") for line in removed_text(decision)),
        f"Predicted risk that this is unsafe: {chosen['unsafe_score']:.3f}; the policy takes up to {threshold:.3f}.",
        f"Measured harm: {example.harm:+.3f} nats per token, the output that really followed became "
        f"{'less likely' if example.harm > 0 else 'likelier'}; above {HARM_TOLERANCE:+.3f} would be unsafe.",
        f"It prunes {example.pruned} of {example.states} validation requests and leaves the others as they are.",
    ]
    return "\n".join(lines)


def removed_text(decision: Decision) -> list[str]:
    """The messages that are gone or shorter, each in a line."""
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


def look_next(wheel: Path) -> str:
    """Commands and pages."""
    rows = (
        (f"drsr prune {REQUEST} --policy {wheel} --explain", ""),
        (str(AUDIT), "what an auditor gets: every number traced, a sample computed again"),
        (str(DOCS / "index.html"), "what was expected of the data, rule by rule"),
        (str(REPORT / "index.html"), "the paper's analyses and a small replay; make report does all of it"),
        ("dvc metrics show", "what was recorded of this run; dvc.lock names every file"),
        ("docs/guides/use-a-policy.md", "from here to an agent that prunes"),
    )
    return "\n".join(["Where to look next:", *(f"  {what:<28}{why}".rstrip() for what, why in rows)])


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return content or ""


if __name__ == "__main__":
    raise SystemExit(main())
