"""`drsr harm`: exact deletion harm of every deletion set of one request, given the output that really came next."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command
from drsr.offline import samples

if TYPE_CHECKING:
    from drsr.decide.candidates import DecisionState
    from drsr.offline.label.harm import StateHarms


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "harm",
        run,
        help="measure how much less likely a recorded output becomes under each deletion set",
        description="Deletes every set of candidates from the request, re-scores the same next output, and shows the "
        "change in its mean NLL per token. Without arguments it measures the bundled example.",
    )
    parser.add_argument("request", nargs="?", metavar="REQUEST.json", help="default: the bundled request")
    parser.add_argument(
        "next_output", nargs="?", metavar="NEXT_OUTPUT.json", help="the assistant message that followed"
    )
    parser.add_argument("--backbone", help="the language model that scores (default: DRSR_BACKBONE or smollm2-135m)")


def run(options: argparse.Namespace) -> int:
    import torch

    from drsr.backbone.catalogue import load_backbone
    from drsr.cli import read_document
    from drsr.decide.candidates import Ineligible, freeze
    from drsr.errors import AlignmentError, InputError
    from drsr.offline.featurize.exclusions import Exclusion
    from drsr.offline.label.harm import measure_states
    from drsr.offline.label.target_nll import TargetNll
    from drsr.request.json_values import parse_json
    from drsr.request.rendering import render_output
    from drsr.request.request import read_output, read_request
    from drsr.request.view import caps_for
    from drsr.settings import load_settings

    if (options.request is None) != (options.next_output is None):
        raise InputError("a request needs its next output", hint="drsr harm REQUEST.json NEXT_OUTPUT.json")
    request_path = options.request or str(samples.REQUEST)
    output_path = options.next_output or str(samples.NEXT_OUTPUT)
    request = read_request(parse_json(*read_document(request_path)), where=request_path)
    output = read_output(parse_json(*read_document(output_path)), request.protocol, where=output_path)

    torch.set_num_threads(1)  # two threads on busy cores wait for each other more than they compute
    settings = load_settings()
    backbone = load_backbone(options.backbone or settings.backbone, device=settings.device, dtype=settings.dtype)
    state = freeze(request, backbone.tokenizer, caps_for(backbone.window).context)
    if isinstance(state, Ineligible):
        raise InputError(f"not eligible: {state}", where=request_path)
    try:
        target = render_output(output, backbone.tokenizer)
    except AlignmentError as error:
        raise InputError(f"cannot be measured: {error}", where=output_path) from error
    (result,) = measure_states(TargetNll(backbone), [(state, target)]).results
    if isinstance(result, Exclusion):
        raise InputError(f"cannot be measured: {result.reason}: {result.detail}", where=output_path)
    if options.json:
        identity = {"name": backbone.name, "identity": backbone.identity}
        print(json.dumps({"backbone": identity, "target_tokens": len(target)} | _plain(state, result), indent=2))
    else:
        words = " ".join(getattr(part, "text", "") or getattr(part, "name", "") for part in output.parts)
        print(_text(backbone.name, len(target), words, state, result))
    return 0


def _names(state: DecisionState, members: tuple[int, ...]) -> list[str]:
    return [state.candidates[member].block.name for member in members]


def _plain(state: DecisionState, result: StateHarms) -> dict[str, Any]:
    from drsr.offline.label.harm import HARM_TOLERANCE

    return {
        "intact_nll": result.intact_nll,
        "harm_tolerance": HARM_TOLERANCE,
        "sets": [
            {
                "blocks": _names(state, measured.deletion_set.members),
                "direct_saving": measured.deletion_set.direct_saving,
                "nll": measured.deleted_nll,
                "harm": measured.harm,
                "unsafe": measured.unsafe,
            }
            for measured in result.harms
        ],
        "excluded": {mask: excluded.reason for mask, excluded in result.excluded.items()},
    }


def _text(backbone: str, target_tokens: int, words: str, state: DecisionState, result: StateHarms) -> str:
    from drsr.tables import excerpt, table

    rows = [
        (
            "{" + ", ".join(_names(state, measured.deletion_set.members)) + "}",
            measured.deletion_set.direct_saving,
            f"{measured.deleted_nll:.3f}",
            f"{measured.harm:+.3f}",
            "unsafe" if measured.unsafe else "safe",
        )
        for measured in result.harms
    ]
    lines = [
        f"{backbone}: the recorded next output has {target_tokens} tokens: {excerpt(words, 72)}",
        f"its mean NLL per token with the whole history: {result.intact_nll:.3f}",
        "",
        table(("delete", "tokens saved", "NLL", "harm", "verdict"), rows),
    ]
    lines += [f"  set {mask:04b} not measured: {excluded.reason}" for mask, excluded in result.excluded.items()]
    return "\n".join(lines)
