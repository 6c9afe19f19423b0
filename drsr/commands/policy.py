"""`drsr policy list | show | verify | diff`: which policies there are, what one is, that it decides as it did."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command

if TYPE_CHECKING:
    from drsr.policy.folder import PolicyFiles
    from drsr.policy.golden import GoldenRequest
    from drsr.policy.policy import Policy

_EXAMPLES = """\
examples:
  drsr policy list                                              installed ones, and those released with this code
  drsr policy show                                              the installed drsr_policy
  drsr policy verify drsr_policy-2026.11.16-py3-none-any.whl
  drsr policy verify drsr_policy-2026.11.16-py3-none-any.whl --trusted-key trusted.pem
  drsr policy verify --resume verified.jsonl                    if interrupted, run it again to go on
  drsr policy diff index/drsr-policy/drsr_policy-2026.11.{9,16}-py3-none-any.whl
"""
QUIET_SECONDS = 5.0
"""Between two lines of progress."""
_WHERE = "a policy's folder, its wheel, or an installed package (default: the installed one, light first)"


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "policy",
        help="list, show, verify and compare policies",
        description="Looks into a frozen policy. Every file is checked against its hash first, and none is run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    add_command(
        actions,
        "list",
        run_list,
        help="the policies that are installed, and those that were released",
        description="Lists the wheels in the folder policies/, here or next to the code. Exit code 1: a wheel does not "
        "match its own hashes.",
    )
    show = add_command(actions, "show", run_show, help="numbers, backbone, calibration and lineage of a policy")
    show.add_argument("policy", nargs="?", metavar="POLICY", help=_WHERE)
    show.add_argument("--card", action="store_true", help="print the model card instead")
    verify = add_command(
        actions,
        "verify",
        run_verify,
        help="decide its golden requests again and compare decisions and scores",
        description="Exit code 0: all decide as they did when the policy was published; 1: not all.",
    )
    verify.add_argument("policy", nargs="?", metavar="POLICY", help=_WHERE)
    verify.add_argument(
        "--trusted-key",
        type=Path,
        metavar="FILE",
        help="a public key in PEM form: refuse the wheel unread unless the .sig file next to it was made with its "
        "private half (drsr publish --sign)",
    )
    verify.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep every decision in this file as it is made; those already in it are not made again",
    )
    _add_backbone_options(verify)
    diff = add_command(actions, "diff", run_diff, help="what changed in numbers and on the golden requests")
    diff.add_argument("old", metavar="OLD", help="a policy's folder or wheel")
    diff.add_argument("new", metavar="NEW", help="folder or wheel of the other policy")
    diff.add_argument(
        "--run",
        dest="decide",
        action="store_true",
        help="let both decide the golden requests of both, instead of comparing what was recorded with each",
    )
    _add_backbone_options(diff)


def _add_backbone_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backbone", metavar="NAME", help="another name for the policy's backbone, such as path:DIR")
    parser.add_argument("--device", help="device that the backbone runs on (default: cpu)")
    parser.add_argument("--dtype", help="number format of its weights (default: the policy's)")


def run_list(options: argparse.Namespace) -> int:
    from drsr.policy.listing import find_policies
    from drsr.policy.location import LIGHT_PROJECT, install_line
    from drsr.tables import table

    found = find_policies()
    if options.json:
        print(json.dumps([policy.to_json() for policy in found]))
    elif found:
        print(table(("policy", "version", "kind", "decides", "where"), [policy.row for policy in found]))
    else:
        get = install_line(LIGHT_PROJECT)
        print(f"no policy is installed, and policies/ holds none ({get}, or drsr publish)")
    return 1 if any(policy.problem for policy in found) else 0


def run_show(options: argparse.Namespace) -> int:
    from drsr.errors import InputError
    from drsr.policy.description import describe, describe_json
    from drsr.policy.generated import CARD_FILE
    from drsr.policy.golden import read_golden
    from drsr.policy.location import read_found
    from drsr.tables import printable

    files = read_found(options.policy)
    if options.card:
        if CARD_FILE not in files.others:
            raise InputError("it was published without a model card", where=options.policy)
        print(printable(files.others[CARD_FILE].decode("utf-8", "replace"), keep="\n"), end="")
        return 0
    golden = read_golden(files, options.policy or "the installed policy")
    said = json.dumps(describe_json(files, golden), indent=2) if options.json else describe(files, golden)
    print(printable(said, keep="\n"))
    return 0


def run_verify(options: argparse.Namespace) -> int:
    from drsr.policy.golden import kept_decisions, verify_files
    from drsr.policy.location import read_found, read_signed

    key: Path | None = options.trusted_key
    files = read_found(options.policy) if key is None else read_signed(options.policy, key)
    policy, where = _policy(files, options), options.policy or "the installed policy"
    kept = kept_decisions(options.resume, policy, options.device) if options.resume else None
    try:
        verification = verify_files(policy, files, where, _progress(QUIET_SECONDS), kept)
    except KeyboardInterrupt:
        if kept is not None:
            print(
                f"drsr: decisions so far are kept in {options.resume}; run the same command to go on", file=sys.stderr
            )
        raise
    if options.json:
        print(json.dumps(verification.to_json() | {"signed": key is not None}))
    else:
        print(verification.to_text() + (f"\nsigned with the trusted key {key}" if key is not None else ""))
    return 0 if verification.passed else 1


def _progress(quiet: float) -> Callable[[int, int], None]:
    """Report progress on standard error if it takes longer than a moment: a language model reads for seconds."""
    last = time.monotonic()

    def report(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= quiet:
            last = time.monotonic()
            print(f"drsr: {done} of {of} golden requests are decided", file=sys.stderr, flush=True)

    return report


def run_diff(options: argparse.Namespace) -> int:
    from drsr.policy.diff import diff_policies
    from drsr.policy.golden import read_golden
    from drsr.policy.location import read_found
    from drsr.tables import printable

    old, new = read_found(options.old), read_found(options.new)
    golden = [read_golden(files, where) for files, where in ((old, options.old), (new, options.new))]
    if options.decide:
        requests = {json.dumps([item.name, item.request], sort_keys=True): item for items in golden for item in items}
        golden = [_decide(files, list(requests.values()), options) for files in (old, new)]
    difference = diff_policies(old, new, *golden)
    print(json.dumps(difference.to_json()) if options.json else printable(difference.to_text(), keep="\n"))
    return 0


def _decide(files: PolicyFiles, requests: list[GoldenRequest], options: argparse.Namespace) -> Any:
    from drsr.policy.golden import decided

    policy = _policy(files, options)
    policy.prepare()
    return tuple(decided(policy, item.name, item.request) for item in requests)


def _policy(files: PolicyFiles, options: argparse.Namespace) -> Policy:
    from drsr.policy.loading import policy_of

    policy = policy_of(files, backbone=options.backbone, device=options.device, dtype=options.dtype)
    if sys.stderr.isatty() and policy.numbers.light is None:
        print(f"reading with {policy.numbers.backbone.name} ...", file=sys.stderr)
    return policy
