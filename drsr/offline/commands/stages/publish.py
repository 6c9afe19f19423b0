"""`drsr publish`: the calibrated policy as a pip package in a folder that is a package index."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drsr.command_line import Commands, add_command, states_or_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drsr.offline.catalog.journal import Head
    from drsr.offline.publish.stage import Published

_EXAMPLES = """\
examples:
  drsr publish                                             the latest drsr calibrate, version of its day, into var/index
  drsr publish --index packages --version 2026.11.16
  drsr publish --view light                                the latest drsr calibrate --view light: drsr-policy-light
  drsr publish --sign signing.pem                          and a signature beside the wheel: policy verify --trusted-key
  drsr publish --with-drsr .                               and drsr itself, built from this source tree
  pip install --no-deps --index-url file:///.../var/index drsr-policy
"""


def add_commands(commands: Commands) -> None:
    parser = add_command(
        commands,
        "publish",
        run,
        help="build the policy's pip package and put it into an index",
        description="Checks what the policy was made from, builds its wheel (the same bytes every time) and puts it "
        "into a folder that pip installs from. A version is never replaced. Exit code 1: a check failed and nothing "
        "was published.",
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--view",
        choices=("default", "light"),
        default="default",
        help="publish the full policy, which reads with a language model (default), or the light one",
    )
    parser.add_argument("--index", type=Path, metavar="FOLDER", help="the index (default: var/index)")
    parser.add_argument(
        "--version",
        dest="policy_version",
        help="of the policy (default: the day of the calibration, such as 2026.11.16; if another policy has it, "
        "2026.11.16.1)",
    )
    parser.add_argument(
        "--source",
        metavar="NAME",
        help="the scorer that was trained on this source alone (default: train.source, or all); give each source its "
        "own index",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--calibration",
        metavar="KEY",
        help="the calibration's key, or its beginning, as drsr calibrate and drsr status show it (default: the latest "
        "plain one)",
    )
    which.add_argument("--certified", action="store_true", help="the latest one made with drsr calibrate --certified")
    parser.add_argument(
        "--always-abstain",
        action="store_true",
        help="publish even though calibration found nothing admissible: a policy that never prunes",
    )
    parser.add_argument(
        "--with-drsr",
        type=Path,
        metavar="PATH",
        help="put drsr itself into the index, too: a wheel, or a source tree to build one from",
    )
    parser.add_argument(
        "--sign",
        type=Path,
        metavar="KEY",
        help="a private Ed25519 key in PEM form, to sign the wheel with: WHEEL.sig next to it (make one with openssl "
        "genpkey -algorithm ed25519 -out KEY)",
    )
    parser.add_argument(
        "--not-worse",
        action="store_true",
        help="refuse a policy that is worse on validation than the released one, as the nightly flow does",
    )
    parser.add_argument(
        "--audit-sample",
        type=states_or_all(0),
        default=0,
        metavar="N",
        help="states whose features and labels are computed again with the language model, or all (default: 0); the "
        "sets that decide the threshold are measured again in any case",
    )
    parser.add_argument(
        "--without-expectations",
        action="store_true",
        help="publish even if Great Expectations is not installed, so that nothing judges the data; the release "
        "records this. If it is installed, the data is judged all the same",
    )
    parser.add_argument(
        "--second-opinion",
        type=Path,
        metavar="FILE",
        help="how far another language model agrees with the labels, for the model card (benchmarks/second_opinion.py)",
    )
    parser.add_argument("--backbone", metavar="NAME", help="the name under which consumers load the same backbone")


def run(options: argparse.Namespace) -> int:
    from drsr.errors import ReleaseRefused
    from drsr.files import write_if_changed
    from drsr.offline.audit.release import gated_order
    from drsr.offline.catalog.journal import head
    from drsr.offline.params import load_params
    from drsr.offline.publish.simple_index import drsr_wheel
    from drsr.offline.publish.stage import find_calibration, publish
    from drsr.offline.publish.succession import NOT_WORSE
    from drsr.offline.store.place import opened
    from drsr.policy.signature import read_signing_key, sign, signature_of

    key = None if options.sign is None else read_signing_key(options.sign)  # a wrong one is found before the work
    with opened() as (settings, catalog, artifacts):
        calibration = find_calibration(
            catalog,
            options.calibration,
            certified=options.certified,
            light=options.view == "light",
            source=options.source or load_params().train.source,
        )
        order = gated_order(
            index=options.index or Path("var", "index"),
            version=options.policy_version,
            may_abstain_always=options.always_abstain,
            beside=() if options.with_drsr is None else (drsr_wheel(options.with_drsr),),
            backbone=options.backbone,
            second_opinion=options.second_opinion,
            device=settings.device,
            without_expectations=options.without_expectations,
            audit_sample=options.audit_sample,
            more_checks=(NOT_WORSE,) if options.not_worse else (),
        )
        try:
            published = publish(catalog, artifacts, calibration, order)
        except ReleaseRefused as refusal:
            return _refused(refusal, as_json=options.json)
        if key is not None:
            write_if_changed(signature_of(published.wheel), sign(published.wheel.read_bytes(), key))
        with catalog.reading() as connection:
            latest = head(connection)
    print(json.dumps(_shown(published, latest)) if options.json else _text(published, latest))
    return 0


def _refused(refusal: Any, *, as_json: bool) -> int:
    import sys

    if as_json:
        gates = [{"check": check, "passed": passed, "detail": detail} for check, passed, detail in refusal.gates]
        print(json.dumps({"published": False, "reason": refusal.what, "gates": gates}))
    elif refusal.gates:
        print(_table(refusal.gates))
    print(f"drsr: {refusal}", file=sys.stderr)
    return 1


def _shown(published: Published, latest: Head | None) -> dict[str, Any]:
    from drsr.policy.signature import signature_of

    return published.record.to_json() | {
        "published": True,
        "is_new": published.is_new,
        "wheel_file": str(published.wheel),
        "signature_file": str(signature) if (signature := signature_of(published.wheel)).is_file() else None,
        "journal": str(latest),
        "gates": [gate.row for gate in published.gates],
    }


def _text(published: Published, latest: Head | None) -> str:
    from drsr.offline.publish.simple_index import holds_drsr, install_command
    from drsr.policy.location import read_found
    from drsr.policy.signature import signature_of

    record, index, project = published.record, published.wheel.parents[1], published.wheel.parent.name
    head = "published" if published.is_new else "nothing to publish: this calibration was published before as"
    lines = [
        f"{head} {project} {record.version}{', which abstains always' if record.abstains_always else ''}",
        "",
        _table([(gate.check, gate.passed, gate.detail) for gate in published.gates]),
        "",
        f"  {published.wheel} ({record.size / 1e6:.1f} MB)",
        f"  SHA-256 {record.wheel}",
        *([f"  signature {signature}"] if (signature := signature_of(published.wheel)).is_file() else []),
        f"  lineage {record.lineage}",
        f"  journal {latest}",
        f"  requires {record.requires}",
        "",
        install_command(index, project),
    ]
    if not holds_drsr(index):
        lines.append("this index holds no drsr, which the policy needs: --with-drsr PATH puts it there")
    numbers = read_found(str(published.wheel)).numbers
    if numbers.light is None:
        lines += [
            f"drsr backbone fetch {shlex.quote(numbers.backbone.name)}",
            "the last line gets the language model that the policy reads with; without a GPU, install torch's CPU "
            "build before drsr: pip may bring one with CUDA, of several gigabytes",
        ]
    return "\n".join(lines)


def _table(gates: Sequence[tuple[str, bool, str]]) -> str:
    from drsr.tables import table

    rows = [(check, "passed" if passed else "FAILED", detail) for check, passed, detail in gates]
    return table(("check", "verdict", "found"), rows)
