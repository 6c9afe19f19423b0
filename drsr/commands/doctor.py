"""`drsr doctor`: whether pruning works on this machine with this policy, how quickly, and what to change."""

from __future__ import annotations

import argparse
import json

from drsr.command_line import Commands, add_command
from drsr.errors import SettingsError

_EXAMPLES = """\
examples:
  drsr doctor                                   the installed policy on this machine
  drsr doctor --policy drsr_policy --lengths 2000 --json
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "doctor",
        run,
        help="time decisions on this machine, and report what suits it and what is broken",
        description="Looks at device, memory, cache folder, policy and language model, and times a decision at three "
        "request lengths. Exit code 1: pruning cannot work here.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--policy", metavar="POLICY", help="its folder, its wheel, or an installed package")
    parser.add_argument("--lengths", metavar="N,N,...", help="tokens of the requests (default: 1000,5000,20000)")
    parser.add_argument("--backbone", metavar="NAME", help="another name for the policy's backbone, such as path:DIR")
    parser.add_argument("--device", help="device that the backbone runs on (default: DRSR_DEVICE, drsr.toml, cpu)")
    parser.add_argument("--dtype", help="number format of its weights (default: the policy's)")


def run(options: argparse.Namespace) -> int:
    from drsr.policy.checkup import LENGTHS, examine
    from drsr.settings import load_settings

    checkup = examine(
        options.policy,
        backbone=options.backbone,
        device=options.device or load_settings().device,
        dtype=options.dtype,
        lengths=LENGTHS if options.lengths is None else _lengths(options.lengths),
    )
    print(json.dumps(checkup.to_json()) if options.json else checkup.to_text())
    return 0 if checkup.works else 1


def _lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < length <= 1_000_000 for length in found):
        raise SettingsError(f"--lengths must be numbers of tokens from 1 to 1,000,000, not {text!r}", hint="1000,5000")
    return found
