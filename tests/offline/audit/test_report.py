"""The report: complete in itself, nothing loaded from elsewhere, no text of a run, and what failed is in it by name."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest

from drsr.errors import SettingsError
from drsr.offline.audit.report import check_writable, page, seen, write_report
from drsr.offline.audit.running import Audit
from drsr.offline.ingest.trajectories import Trajectory
from tests.offline.audit.published import ALL_BUT_RULES, PublishedPipeline, ask, audited, by_hand, copy_of

VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Elements that load something, ids, and whether every element that opens is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self._note(attributes)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._note(attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _note(self, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.ids.append(str(value))
            elif name in ("href", "xlink:href") and str(value).startswith("#"):
                self.refers.append(str(value)[1:])
            elif name in ("src", "href", "xlink:href", "srcset", "data", "action", "background"):
                self.loads.append(str(value))
            self.refers += re.findall(r"url\(#([^)]*)\)", str(value))


@pytest.fixture(scope="module")
def audit(finished_release: PublishedPipeline, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    release = copy_of(finished_release, tmp_path_factory.mktemp("reported") / "release")
    found = audited(release, ALL_BUT_RULES, sample=2)
    release.pipeline.catalog.close()
    return found


@pytest.fixture(scope="module")
def text(audit: Audit) -> str:
    return page(audit)


def test_the_report_is_complete_in_itself(text: str) -> None:
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.loads == []
    assert not outline.tags & {"script", "link", "iframe", "object", "embed", "img", "base"}
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.refers) <= set(outline.ids)
    for remote in ("http:", "https:", "//", "@import", "@font-face"):
        assert remote not in re.sub(r"sqlite:////\S+", "", text), remote
    assert "default-src 'none'" in text
    assert text.count("<svg") == 5
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    # Drawn in the page's colours: none is left that a dark page would hide.
    assert not re.search(r"(stroke|fill): #(?!ffffff)[0-9a-f]{6}", text)
    assert "#0101" not in text


def test_it_says_what_how_with_what_and_how_again(audit: Audit, text: str) -> None:
    assert 'banner passed"' in text
    for section in audit.sections:
        assert section.check.name in text
    for value in (*audit.about.values(), *audit.versions.values()):
        assert value in text
    assert "pip install" in text
    assert f"drsr audit --policy {audit.about['audited']} --sample 2 --seed 0" in text
    assert "What this audit does not show" in text


def test_no_text_of_a_run_is_in_it(release: PublishedPipeline) -> None:
    """Also not where something failed: states and runs are named, nothing is quoted."""
    pipeline = release.pipeline
    said = set()
    for (blob,) in ask(pipeline, "SELECT blob FROM trajectory"):
        run = Trajectory.from_json(pipeline.artifacts.get(blob))
        contents = (message["content"] for message in run.request["messages"] if message.get("content"))
        said |= {" ".join(content.split()[:4]) for content in contents if len(content.split()) > 3}
    by_hand(pipeline, "UPDATE label SET harm = harm + 1")
    by_hand(pipeline, "UPDATE trajectory SET split = 'train', group_key = 'task:<b>&forged' WHERE split = 'test'")
    audit = audited(release)
    text = page(audit)
    assert said
    assert [words for words in said if words in text] == []
    assert 'banner failed"' in text
    assert "&lt;b&gt;&amp;forged" in text
    assert "<b>&forged" not in text
    for verdict in audit.failures:
        assert verdict.check in text


def test_it_is_written_whole_or_not_at_all_and_the_same_again(audit: Audit, text: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "audit.html"
    check_writable(target)
    write_report(target, audit)
    assert target.read_text(encoding="utf-8") == text
    assert [path.name for path in target.parent.iterdir()] == ["audit.html"]
    with pytest.raises(SettingsError, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written"):
        check_writable(tmp_path / "file" / "audit.html")
    with pytest.raises(SettingsError, match="cannot be written"):
        write_report(tmp_path / "file" / "audit.html", audit)


@pytest.mark.parametrize(("total", "wrong", "drawn"), [(6, 1, 2), (6, 3, 2), (6, 6, 1), (5, 1, 5), (7, 2, 0)])
def test_what_a_sample_can_miss_by_counting_all_samples(total: int, wrong: int, drawn: int) -> None:
    samples = list(combinations(range(total), drawn))
    hit = sum(any(item < wrong for item in sample) for sample in samples)
    assert seen(total, wrong / total, drawn) == pytest.approx(hit / len(samples))
