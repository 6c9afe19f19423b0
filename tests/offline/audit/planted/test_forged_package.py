"""A wheel whose card says something else, or whose code does: every hash inside it is in order."""

from __future__ import annotations

import pytest

from drsr.offline.audit.checks import chain, golden
from drsr.offline.evaluate.second_opinion import NOT_TAKEN
from drsr.policy.folder import MANIFEST_FILE, manifest_bytes
from drsr.policy.wheel_file import WheelName, read_wheel, wheel_bytes
from tests.offline.audit.forging import forge
from tests.offline.audit.published import PublishedPipeline, audited, failures

PACKAGE = "drsr_policy/"


def rewritten(release: PublishedPipeline, name: str, old: bytes, new: bytes) -> None:
    """The wheel with one of its texts changed wherever it stands, and every hash in order."""
    _, version, *_ = release.wheel.name.split("-")
    files = read_wheel(release.wheel.read_bytes(), "")
    assert old in files[name]
    files = {
        path: data.replace(old, new) if path == name or path.endswith("METADATA") else data
        for path, data in files.items()
    }
    inside = {path.removeprefix(PACKAGE): data for path, data in files.items() if path.startswith(PACKAGE)}
    del inside[MANIFEST_FILE]
    files[f"{PACKAGE}{MANIFEST_FILE}"] = manifest_bytes(inside)
    release.wheel.write_bytes(wheel_bytes(WheelName("drsr_policy", version), files))


def test_another_card(release: PublishedPipeline) -> None:
    rewritten(release, f"{PACKAGE}MODEL_CARD.md", b"nothing is promised", b"everything is promised")
    caught = failures(audited(release, [chain.CHECK]))["hash chain to the trajectories"]
    assert " of MODEL_CARD.md is not what the policy's numbers give" in caught


def test_another_verdict_in_its_first_line_is_caught_and_a_card_of_before_is_not(release: PublishedPipeline) -> None:
    card = f"{PACKAGE}MODEL_CARD.md"
    first, *_ = read_wheel(release.wheel.read_bytes(), "")[card].split(b"\n")
    title = first.split(b": ")[0]
    rewritten(release, card, first, title + b": deploy it everywhere")
    caught = failures(audited(release, [chain.CHECK]))["hash chain to the trajectories"]
    assert "line 1 of MODEL_CARD.md is not what the policy's numbers give" in caught
    now = read_wheel(release.wheel.read_bytes(), "")[card]
    rewritten(release, card, now, title + _without_what_came_later(now[now.index(b"\n\nDecides, before") :]))
    caught = failures(audited(release, [chain.CHECK]))["hash chain to the trajectories"]
    assert "the wheel has SHA-256" in caught
    assert "MODEL_CARD.md" not in caught


def _without_what_came_later(card: bytes) -> bytes:
    """A card without its bound and its second opinion, each a row or a paragraph."""
    rows = [row for row in card.decode().split("\n") if not row.startswith("| finite-sample bound")]
    paragraphs = "\n".join(rows).split("\n\n")
    kept = (part for part in paragraphs if not part.startswith(("The finite-sample bound", NOT_TAKEN)))
    return "\n\n".join(kept).encode()


def test_a_card_that_another_version_is_said_to_have_written(
    release: PublishedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one cannot write it again, so it does not vouch for it."""
    monkeypatch.setattr(chain, "__version__", "9.9.9")
    (verdict,) = audited(release, [chain.CHECK]).verdicts
    assert verdict.passed
    assert "; NOT COMPARED: MODEL_CARD.md is said to be written by drsr " in verdict.detail


def test_golden_requests_left_out(release: PublishedPipeline) -> None:
    forge(release, golden=())
    caught = failures(audited(release, [golden.CHECK]))["golden requests"]
    assert "it was published without golden requests" in caught


def test_code_in_the_wheel(release: PublishedPipeline) -> None:
    rewritten(release, f"{PACKAGE}__init__.py", b"from typing", b"import os\nfrom typing")
    audit = audited(release)
    caught = failures(audit)
    assert "__init__.py is not the one that drsr writes" in caught["weight files"]
    assert "__init__.py is not the one that drsr writes" in caught["hash chain to the trajectories"]
