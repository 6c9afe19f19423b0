"""The hash chain from a policy back to the trajectories, every link computed again from what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from drsr.offline.calibrate.stage import point_bound
from drsr.offline.publish.lineage import JOURNAL, Link, before_the_journal, policy_link
from drsr.offline.publish.model_card import EDITION, model_card
from drsr.offline.publish.subject import Subject
from drsr.offline.verdicts import Check, Severity, Told, Verdict, failed, first_of, passed, without_texts
from drsr.policy.generated import CARD_FILE
from drsr.policy.golden import read_golden
from drsr.version import __version__


def check_chain(subject: Subject, told: Told) -> list[Verdict]:
    """Without a policy the chain ends at the calibration, and nothing claims a hash for it yet."""
    links: tuple[Link, ...] = subject.traced.links
    claimed: tuple[Link, ...] = ()
    if subject.has_policy:
        files = subject.policy
        claimed = subject.lineage.links
        if JOURNAL not in {link.link for link in claimed}:
            links = before_the_journal(links)
        links = (*links, policy_link(links, files.identity, files.numbers.version))
    problems = [*subject.traced.problems]
    if subject.has_policy:
        problems += [*_broken(claimed, links), *_released(subject, links[-1]), *_card(subject, links)]
    evidence = {"links": _shown(claimed, links)}
    if problems:
        hint = "do not use the policy until it is known what was changed and by whom; publish from an untouched catalog"
        return failed(CHECK, first_of(problems), hint, problems, **evidence)
    counts = f"{links[0].items:,} trajectories, {links[1].items:,} states with labels and features"
    absent = len({state.blob for state in subject.traced.states if not state.has_text})
    end = f"ends in the policy's {links[-1].sha256[:12]}" if subject.has_policy else "nothing is published yet"
    if subject.has_policy and (maker := subject.policy.numbers.drsr_version) != __version__:
        end += f"; NOT COMPARED: {CARD_FILE} is said to be written by drsr {maker}, and this is {__version__}"
    verdict = passed(CHECK, f"{len(links)} links computed again: {counts}; {end}", **evidence)
    what = f"that the bytes of {absent:,} of {links[0].items:,} runs have their hash and give their states"
    return without_texts(verdict, what) if absent else verdict


def _broken(claimed: tuple[Link, ...], links: tuple[Link, ...]) -> Iterator[str]:
    """Yield the first link that differs from the one that the policy claims; all links after it differ by
    necessity."""
    if [link.link for link in claimed] != [link.link for link in links]:
        yield f"the policy's chain is {', '.join(link.link for link in claimed)}"
        return
    for there, here in zip(claimed, links, strict=True):
        if there != here:
            facts = [name for name, value in here.facts.items() if there.facts.get(name) != value]
            what = f" ({', '.join(facts[:5])})" if facts else ""
            yield (
                f"link {here.link}{what} is not the one that the policy was made from: it ships {there.sha256}, "
                f"computed again it is {here.sha256}"
            )
            return


def _released(subject: Subject, last: Link) -> Iterator[str]:
    """Yield what the catalog recorded when the policy was published; nothing about a policy that is about to be
    published."""
    if subject.candidate is not None:
        return
    version = subject.policy.numbers.version
    release = subject.release
    if release is None:
        yield f"this catalog has not published a version {version}"
        return
    if subject.wheel_sha256 not in (None, release.wheel):
        yield f"the wheel has SHA-256 {subject.wheel_sha256}, version {version} was published as {release.wheel}"
    if subject.policy.identity != release.identity:
        yield f"the policy is {subject.policy.identity}, version {version} was published as {release.identity}"
    if last.sha256 != release.lineage:
        yield f"the chain ends in {last.sha256}, version {version} was published with {release.lineage}"
    if subject.lineage.states != release.states:
        yield f"the policy names other states than version {version} did when it was published"


def _card(subject: Subject, links: tuple[Link, ...]) -> Iterator[str]:
    """The model card is what the numbers give. Another version of drsr may say the same in other words."""
    files = subject.policy
    if files.numbers.drsr_version != __version__ or subject.candidate is not None:
        return
    golden = read_golden(files, subject.named)
    traced = subject.traced
    shipped = files.others.get(CARD_FILE, b"").decode("utf-8", "replace")
    if shipped in (model_card(files.numbers, traced, links, golden, edition=earlier) for earlier in range(1, EDITION)):
        return  # a published wheel is never replaced, so the earlier forms stay valid
    frames = traced.frames["train"], traced.frames["validation"]
    bound = point_bound(subject.artifacts, traced.calibration, traced.run, subject.shipped_scorer, frames)
    card = model_card(files.numbers, traced, links, golden, bound)
    if shipped != card:
        lines = zip_longest(shipped.splitlines(), card.splitlines(), fillvalue="")
        number = next((number for number, (there, here) in enumerate(lines, 1) if there != here), 0)
        yield f"line {number} of {CARD_FILE} is not what the policy's numbers give"


def _shown(claimed: tuple[Link, ...], links: tuple[Link, ...]) -> list[dict[str, Any]]:
    shipped = {link.link: link.sha256 for link in claimed}
    return [
        {
            "link": link.link,
            "items": link.items,
            "made_from": list(link.made_from),
            "computed": link.sha256,
            "shipped": shipped.get(link.link),
        }
        for link in links
    ]


CHECK = Check(
    "hash chain to the trajectories",
    Severity.MAJOR,
    "Was this policy made from these trajectories, states, labels, features, this training and this calibration?",
    "Every link is a SHA-256 over its own facts, all its items and the links before it. All are computed again from "
    "the stored trajectories, the catalog's rows and the feature files, state by state, and compared with the chain "
    "that ships inside the wheel, and the wheel with what the catalog wrote down when it was published. On the way: "
    "stored trajectories have their recorded hash, states follow from them, harms from their two measurements, the "
    "frames from the rows, and the keys of training and calibration from their inputs. The model card is written again "
    "from the numbers, and must be the one in the wheel.",
    check_chain,
)
