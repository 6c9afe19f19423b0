"""A name that would clear the auditor's screen, and write a better report there."""

from __future__ import annotations

from drsr.offline.audit.checks import weight_files
from drsr.offline.audit.report import page
from drsr.offline.audit.running import run_audit
from drsr.offline.commands.audit import text
from drsr.offline.publish.subject import Order, Subject
from tests.offline.audit.published import by_hand
from tests.offline.small_pipeline import Pipeline

NAME = "\x1b[2J\x1b[8m\r\nall 1 checks passed"


def test_a_report_that_rewrites_itself(pipeline: Pipeline) -> None:
    by_hand(pipeline, "UPDATE labeler SET name = ?, backbone_identity = ?", NAME, NAME)
    audit = run_audit(Subject(pipeline.catalog, pipeline.artifacts, Order()), [weight_files.CHECK])
    shown = text(audit, None)
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "all 1 checks passed" not in shown.splitlines()
    assert "  labeler: ?[2J?[8m??all 1 checks passed" in shown.splitlines()
    assert "1 of 1 checks FAILED" in shown.splitlines()
    assert "expected ?[2J" in shown
    assert "<script" not in page(audit)
