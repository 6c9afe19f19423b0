"""Measure what a chat template does to harm: `python -m benchmarks.chat_template --template FILE`.

The same states and deletion sets of the sample corpus are measured under our rendering and under a chat template, one
state per run, the shortest first. FILE is a GGUF file that carries a template, or a template's Jinja text. A template
that does not know calls gets them as tagged text. Reports how far the two harms are apart, how often they disagree
about what is unsafe and about the order of a state's sets, and for how many sets the rewrite's tokens are not those of
the whole request minus one stretch for every deleted stretch. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jinja2.sandbox
import numpy as np
import tokenizers
import torch

from drsr.backbone.catalogue import load_backbone, read_tokenizer_file
from drsr.backbone.gguf_conversion import require_gguf
from drsr.decide.deletion_sets import DeletionSet, deletion_sets
from drsr.errors import InputError
from drsr.offline import samples
from drsr.offline.freeze.states import FrozenState, freeze_trajectory
from drsr.offline.ingest.formats import gather, read
from drsr.offline.ingest.trajectories import Trajectory
from drsr.offline.label.harm import HARM_TOLERANCE
from drsr.offline.label.target_nll import Pair, TargetNll
from drsr.offline.store.locations import open_location
from drsr.request.contracts import TokenIds
from drsr.request.history import rewrite
from drsr.request.rendering import render_output
from drsr.request.request import Request
from drsr.request.view import caps_for

Json = dict[str, Any]


class Template:
    """A chat template with the tokenizer that its text goes through, special tokens and all."""

    def __init__(self, source: str, tokenizer: tokenizers.Tokenizer) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        self._template = environment.from_string(source)
        self._knows_calls = "tool_calls" in source
        self._tokenizer = tokenizer

    def text(self, request: Request, *, prompt: bool) -> str:
        """Return the request as the template writes it, with or without the opening of an answer."""
        wire = request.to_wire()
        messages = [self._read(message) for message in wire["messages"]]
        return self._template.render(messages=messages, tools=wire.get("tools"), add_generation_prompt=prompt)

    def encode(self, text: str) -> TokenIds:
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _read(self, message: Json) -> Json:
        calls = [
            {**call, "function": {**call["function"], "arguments": _parsed(call["function"]["arguments"])}}
            for call in message.get("tool_calls") or ()
        ]
        content = message.get("content") or ""
        if not self._knows_calls:
            tagged = [f"<tool_call>\n{json.dumps(call['function'])}\n</tool_call>" for call in calls]
            return {"role": message["role"], "content": "\n".join([content, *tagged] if content else tagged or [""])}
        return {**message, "content": content, "tool_calls": calls} if calls else {**message, "content": content}


def template_of(file: Path) -> str:
    """Return the template that a GGUF file carries, or the text of any other file."""
    with file.open("rb") as opened:
        if opened.read(4) != b"GGUF":
            return file.read_text(encoding="utf-8")
    field = require_gguf().GGUFReader(file).get_field("tokenizer.chat_template")
    if field is None:
        raise InputError("carries no chat template", where=str(file), hint="give the template's Jinja text")
    return str(field.contents())


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


class Compared(NamedTuple):
    """One state under both renderings; its harms by set."""

    ours: tuple[float, ...]
    template: tuple[float, ...]
    not_stretches: int
    """Sets whose rewrite is something else than the whole less some stretches."""
    tokens: tuple[int, int]
    """Tokens of the intact context, ours and the template's."""


def compare(frozen: FrozenState, scorer: TargetNll, template: Template, cardinality: int) -> Compared | None:
    """Compare both harms. Return None if the answer cannot be separated from the request in the template's text, or
    cannot be measured."""
    state, request = frozen.state, frozen.state.history.request
    sets = deletion_sets(state, cardinality)
    ours_target = render_output(frozen.next_output, scorer.backbone.tokenizer)
    view, rendering = state.view, state.rendering
    whole = view.token_ids(rendering.token_ids)
    ours = [whole, *(view.token_ids(rendering.without(found.removal)) for found in sets)]
    prompts = [template.text(found, prompt=True) for found in (request, *(_rewritten(request, one) for one in sets))]
    answered = template.text(request.with_messages([*request.messages, frozen.next_output]), prompt=False)
    if not answered.startswith(prompts[0]):
        return None
    target, contexts = template.encode(answered[len(prompts[0]) :]), [template.encode(text) for text in prompts]
    our_harms, its_harms = _harms(scorer, ours, ours_target), _harms(scorer, contexts, target)
    if our_harms is None or its_harms is None:
        return None
    pieces = [len(rendering.removed_spans(one.removal)) for one in sets]
    broken = sum(not is_less(contexts[0], one, count) for one, count in zip(contexts[1:], pieces, strict=True))
    return Compared(our_harms, its_harms, broken, (len(whole), len(contexts[0])))


def _rewritten(request: Request, found: DeletionSet) -> Request:
    return rewrite(request, found.removal).request


def _harms(scorer: TargetNll, contexts: list[TokenIds], target: TokenIds) -> tuple[float, ...] | None:
    nlls = scorer.score([Pair(context, target) for context in contexts]).nlls
    if not all(isinstance(nll, float) for nll in nlls):
        return None
    intact, *deleted = (float(nll) for nll in nlls if isinstance(nll, float))
    return tuple(nll - intact for nll in deleted)


def is_less(whole: TokenIds, part: TokenIds, stretches: int) -> bool:
    """Return whether `part` is `whole` without at most that many stretches of tokens."""
    gone = len(whole) - len(part)
    if gone < 0:
        return False
    # By how many tokens are gone so far, the fewest stretches that these can have been.
    fewest = np.full(gone + 1, np.inf)
    fewest[0] = 0
    for position in range(len(part) + 1):
        shorter = np.minimum.accumulate(np.concatenate([[np.inf], fewest[:-1]]))
        fewest = np.minimum(fewest, shorter + 1)
        if position < len(part):
            fewest[whole[position : position + gone + 1] != part[position]] = np.inf
    return bool(fewest[gone] <= stretches)


def chosen_states(scorer: TargetNll, count: int) -> Iterator[FrozenState]:
    """Return the first state of every run of the sample corpus, the shortest first."""
    caps = caps_for(scorer.backbone.window)
    found: list[FrozenState] = []
    for file in gather(open_location(str(samples.CORPUS))):
        for run in read(file):
            if isinstance(run, Trajectory):
                found += freeze_trajectory(run, scorer.backbone.tokenizer, caps).states[:1]
    found.sort(key=lambda one: (len(one.state.rendering), one.decision))
    return iter(found[:count])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--backbone", default="smollm2-135m")
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--cardinality", type=int, default=1, help="the largest sets (default 1)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    scorer = TargetNll(load_backbone(options.backbone))
    tokenizer = tokenizers.Tokenizer.from_str(read_tokenizer_file(options.backbone).decode())
    template = Template(template_of(options.template), tokenizer)
    found, left_out = list[Compared](), 0
    for frozen in chosen_states(scorer, options.states):
        compared = compare(frozen, scorer, template, options.cardinality)
        if compared is None:
            left_out += 1
            continue
        found.append(compared)
        print(json.dumps(summary(found) | {"left out": left_out}), flush=True)
    return 0 if found else 1


def summary(found: list[Compared]) -> Json:
    """Return what all states say together."""
    ours, template = (np.concatenate([getattr(one, name) for one in found]) for name in ("ours", "template"))
    apart = np.abs(ours - template)
    pairs = [pair for one in found for pair in _ordered(one)]
    return {
        "states": len(found),
        "sets": len(ours),
        "tokens": [sum(one.tokens[side] for one in found) for side in (0, 1)],
        "mean |H|": [round(float(np.abs(side).mean()), 4) for side in (ours, template)],
        "unsafe": [int((side > HARM_TOLERANCE).sum()) for side in (ours, template)],
        "mean difference": round(float(apart.mean()), 4),
        "p90": round(float(np.quantile(apart, 0.9)), 4),
        "largest": round(float(apart.max()), 4),
        "other verdict": int(((ours > HARM_TOLERANCE) != (template > HARM_TOLERANCE)).sum()),
        "same order": round(sum(pairs) / len(pairs), 3) if pairs else math.nan,
        "correlation": round(float(np.corrcoef(ours, template)[0, 1]), 3) if len(ours) > 1 else math.nan,
        "rewrites that are not stretches": sum(one.not_stretches for one in found),
    }


def _ordered(one: Compared) -> Iterator[bool]:
    """Yield, for each two sets of a state, whether both renderings find the same one more harmful."""
    for left in range(len(one.ours)):
        for right in range(left):
            yield (one.ours[left] > one.ours[right]) == (one.template[left] > one.template[right])


if __name__ == "__main__":
    raise SystemExit(main())
