"""Data Docs: what the pages say, that they load nothing, and how they look in a real browser without a network."""

from __future__ import annotations

import datetime
import html.parser
import json
import shutil
from pathlib import Path

import pytest

from drsr.errors import SettingsError
from drsr.expectations.data_docs import write_docs
from drsr.expectations.evaluation import Finding, evaluate
from drsr.expectations.judging import DATASETS
from drsr.expectations.suites import SUITES
from tests.expectations.bad_frames import at
from tests.expectations.good_frames import good
from tests.real_browser import NO_NETWORK, Browser

WHEN = datetime.datetime(2026, 11, 16, 3, 0, 5, tzinfo=datetime.UTC)
VOID = {"meta", "link", "br", "img"}


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    """Everything kept but two rules of the labels, whose rows hold what a page must not take for its own."""
    frames = good()
    sets = at("trajectory", "runs/<script>alert('x')</script>")(frames["labels"]["sets"])
    frames["labels"]["sets"] = at("harm", float("nan"))(sets)
    return [finding for dataset in DATASETS for finding in evaluate(SUITES[dataset], frames[dataset])]


@pytest.fixture(scope="module")
def site(findings: list[Finding], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    assert write_docs(folder, findings, "sqlite:///catalog.sqlite", WHEN) == folder / "index.html"
    return folder


class Page(html.parser.HTMLParser):
    """Every attribute that could make a browser fetch something, the style, the text, and whether tags are closed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.references: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.style = self.text = ""
        self.policy = ""
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = {name: value or "" for name, value in attributes}
        names = ("href", "src", "srcset", "action", "data", "poster", "background", "style", "formaction", "ping")
        self.references += [(name, found[name]) for name in names if name in found]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data


def test_a_page_per_dataset_and_an_index(site: Path) -> None:
    assert {path.name for path in site.iterdir()} == {
        "index.html",
        *(f"{dataset}.html" for dataset in DATASETS),
        *(f"{dataset}.json" for dataset in DATASETS),
    }


def test_no_page_refers_to_anything_remote(site: Path) -> None:
    pages = {path.name for path in site.glob("*.html")}
    for path in site.glob("*.html"):
        page = Page(path)
        assert {value for _, value in page.references} <= {*pages, "data:,"}
        assert {name for name, _ in page.references} == {"href"}
        assert not {"script", "iframe", "img", "object", "embed", "base", "form"} & set(page.tags)
        assert "url(" not in page.style
        assert "@import" not in page.style
        assert page.policy.startswith("default-src 'none';")


def test_every_rule_is_shown_with_what_it_asks(site: Path, findings: list[Finding]) -> None:
    for dataset in DATASETS:
        text = Page(site / f"{dataset}.html").text
        for finding in findings:
            if finding.dataset == dataset:
                assert finding.rule in text
                assert finding.expectation in text


def test_what_is_broken_is_shown_with_its_rows_and_what_to_do(site: Path) -> None:
    page = Page(site / "labels.html")
    assert "✗ broken" in page.text
    assert "runs/<script>alert('x')</script>" in page.text  # as text: there is no such element, see above
    assert "drsr label --labeler NAME" in page.text
    index = Page(site / "index.html").text
    assert index.count("✗ broken") == 1
    assert index.count("✓ kept") == len(DATASETS) - 1


def test_the_same_for_programs(site: Path, findings: list[Finding]) -> None:
    page = json.loads((site / "labels.json").read_text())
    assert page["passed"] is False
    assert page["judged_at"] == "2026-11-16 03:00:05"
    assert [rule["rule"] for rule in page["rules"]] == [found.rule for found in findings if found.dataset == "labels"]
    broken = [rule for rule in page["rules"] if not rule["passed"]]
    assert "harm is finite" in {rule["rule"] for rule in broken}
    assert broken[0]["offending"][0]["harm"] == "nan"


def test_judging_one_dataset_again_keeps_the_others(site: Path, tmp_path: Path) -> None:
    copied = tmp_path / "site"
    shutil.copytree(site, copied)
    write_docs(copied, evaluate(SUITES["labels"], good()["labels"]), "sqlite:///catalog.sqlite", WHEN)
    assert "✗ broken" not in Page(copied / "index.html").text
    assert (copied / "splits.html").read_bytes() == (site / "splits.html").read_bytes()


def test_a_rule_that_was_lost_is_shown(tmp_path: Path) -> None:
    suite = SUITES["trajectories"]
    write_docs(tmp_path, evaluate(suite._replace(parts=suite.parts[:1]), good()["trajectories"]), "here", WHEN)
    text = Page(tmp_path / "trajectories.html").text
    assert "rules that were lost" in text
    assert "no near-duplicates across splits" in text
    assert "Not judged yet: states" in Page(tmp_path / "index.html").text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "drsr-data-docs/0"}'])
def test_a_file_in_the_folder_that_is_no_page_of_ours(tmp_path: Path, findings: list[Finding], content: str) -> None:
    (tmp_path / "policy.json").write_text(content)
    mine = [finding for finding in findings if finding.dataset == "labels"]
    with pytest.raises(SettingsError, match=r"policy\.json: is not a page of Data Docs"):
        write_docs(tmp_path, mine, "here", WHEN)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.json"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, findings: list[Finding]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingsError, match="cannot be written to"):
        write_docs(tmp_path / "file", findings, "here", WHEN)


def test_it_opens_styled_without_a_network_in_light_and_dark(browser: Browser, site: Path) -> None:
    ground = browser.grounds((site / "labels.html").as_uri(), NO_NETWORK)
    assert 0.9 < ground["light"] < 1.0  # the style's own grounds: unstyled, both would be white or black
    assert 0.0 < ground["dark"] < 0.2
