"""`drsr prune REQUEST.json --policy POLICY`: the request as the policy would send it, on standard output."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.policy.answer import Decision
    from drsr.receipts.receipt_file import ReceiptFile

_EXAMPLES = """\
examples:
  drsr prune request.json > smaller.json                                  with the installed drsr_policy
  drsr prune request.json --policy drsr_policy-2026.11.16-py3-none-any.whl
  drsr prune request.json --policy policies/2026.11.16 --explain --protect tool=read_policy
  drsr prune request.json --policy policies/2026.11.16 --receipts receipts.jsonl --keep-text
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "prune",
        run,
        json="print one JSON object with the request and the receipt",
        help="remove from a request what a policy says can go",
        description="Prints the rewritten request. A request that cannot be pruned is printed as it came, byte for "
        "byte, with the reason on standard error.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "request", nargs="?", metavar="REQUEST.json", help="a request body or a list of messages; - reads stdin"
    )
    parser.add_argument(
        "--policy",
        metavar="POLICY",
        help="its folder, its wheel, or an installed package (default: light first)",
    )
    parser.add_argument("--format", choices=("auto", "openai", "anthropic"), default="auto", help="wire form")
    parser.add_argument("--explain", action="store_true", help="show every set considered, on standard error")
    parser.add_argument(
        "--protect",
        action="append",
        default=[],
        metavar="RULE",
        help="keep a Block (3.1), a Step (3), the exchanges with a tool (tool=NAME) or Blocks that hold some words "
        "(text=WORDS); may be given several times",
    )
    parser.add_argument("--receipts", metavar="FILE", help="append the decision's receipt to this file")
    parser.add_argument(
        "--keep-text", action="store_true", help="write the request before and after into the receipt, for drsr restore"
    )
    parser.add_argument("--backbone", metavar="NAME", help="another name for the policy's backbone, such as path:DIR")
    parser.add_argument("--device", help="device that the backbone runs on (default: DRSR_DEVICE, drsr.toml, cpu)")
    parser.add_argument("--dtype", help="number format of its weights (default: the policy's)")


def run(options: argparse.Namespace) -> int:
    from drsr.cli import read_document
    from drsr.decide.decision import Reason
    from drsr.errors import InputError, RequestError
    from drsr.policy.loading import load_policy
    from drsr.receipts.receipt_file import ReceiptFile
    from drsr.request.json_values import parse_json
    from drsr.request.protection import parse_protection
    from drsr.settings import load_settings
    from drsr.tables import excerpt

    if options.request is None:
        raise InputError("no request", hint="drsr prune REQUEST.json --policy POLICY; - reads standard input")
    protect = parse_protection(options.protect)
    data, where = read_document(options.request)
    body = parse_json(data, where)
    receipts = ReceiptFile(options.receipts, keep_text=options.keep_text) if options.receipts else None
    if receipts is not None:
        receipts.check_writable()  # before deciding: a request that was read must not get lost for a receipt
    device = options.device or load_settings().device
    policy = load_policy(options.policy, backbone=options.backbone, device=device, dtype=options.dtype)
    decision = policy.prune(request=body, format=options.format, protect=protect, session=None)
    kept = receipts is None or _keep(receipts, decision)
    if options.explain:
        print(decision.explain(), file=sys.stderr)
    if not decision.pruned and (not options.explain or isinstance(decision.error, RequestError)):
        # The request is this person's own file: what is wrong with it is said in full.
        why = excerpt(str(decision.error), 200) if isinstance(decision.error, RequestError) else decision.detail
        print(f"drsr: unchanged: {decision.reason}: {why}", file=sys.stderr)
    if options.json:
        print(json.dumps({"request": decision.request, "receipt": decision.receipt}))
    elif decision.pruned:
        print(json.dumps(decision.request, ensure_ascii=False))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    return 3 if decision.reason is Reason.INTERNAL_FAILURE or not kept else 0


def _keep(receipts: ReceiptFile, decision: Decision) -> bool:
    """Return whether the receipt was written. A full disk does not keep the request from being printed."""
    try:
        receipts(decision)
    except OSError as error:
        print(f"drsr: the receipt was not kept: {error.strerror} [{receipts.path}]", file=sys.stderr)
        return False
    return True
