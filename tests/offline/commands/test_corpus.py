"""`drsr corpus` as people run it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.offline.ingest.corpus.table import load_corpus
from tests.offline.commands.conftest import Outcome
from tests.offline.public_host import public_host, status
from tests.offline.small_corpus import COMMIT, CONTENTS, mirrored, place, publish, row, small_corpus, write_table

Drsr = Callable[..., Outcome]
FOLDER = "var/corpora/small"


@pytest.fixture
def drsr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Drsr:
    """Run a command in a folder with a small corpus. It needs no catalog, so no database is made."""
    small_corpus(tmp_path)
    mirrored(tmp_path / "mirror")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        code = main(("corpus", *arguments))
        return Outcome(code, *capsys.readouterr())

    return run


def test_list(drsr: Drsr) -> None:
    shown = drsr("list")
    assert (shown.code, shown.err) == (0, "")
    public = len(load_corpus("public").files)
    assert re.search(rf"public: {public} files, \S+ MB; 0 of {public} files are in var/corpora/public\n", shown.out)
    assert f"small: 4 files, 0.0 MB; 0 of 4 files are in {FOLDER}" in shown.out
    assert "docent-inspect-ctf                 1     377,944  Apache-2.0  security" in shown.out
    drsr("fetch", "small", "--mirror", "mirror", "--source", "two")
    small = drsr("list", "--json").json[-1]
    assert small == {
        "corpus": "small",
        "files": 4,
        "bytes": sum(map(len, CONTENTS.values())),
        "sources": {"one": 2, "two": 2},
        "licences": {"MIT": 4},
        "domains": {"code": 4},
        "folder": FOLDER,
        "here": 2,
    }


def test_fetch_and_check(drsr: Drsr) -> None:
    assert f"{FOLDER}: nothing fetched yet (drsr corpus fetch small)" in drsr("check", "small").out
    first = drsr("fetch", "small", "--mirror", "mirror")
    assert (first.code, first.err) == (0, "")
    assert first.out == f"{FOLDER}: 4 files fetched (0.0 MB), 0 were there already\n"
    again = drsr("fetch", "small", "--mirror", "mirror", "--json")
    assert (again.json["kept"], again.json["fetched"], again.json["folder"]) == (4, 0, FOLDER)
    checked = drsr("check", "small")
    assert checked.code == 0
    assert "files.csv: sound, 4 files\n" in checked.out
    assert f"{FOLDER}: 4 of 4 files as the table says\n" in checked.out


def test_a_mirror_with_an_altered_file(drsr: Drsr, tmp_path: Path) -> None:
    (tmp_path / "mirror" / "two" / "c.json").write_bytes(CONTENTS["two/c.json"][::-1])
    done = drsr("fetch", "small", "--mirror", "mirror", "--to", "there")
    assert done.code == 1
    assert "there: 3 files fetched" in done.out
    named = f"  altered: two/c.json, from someone/agent-runs at {COMMIT}: runs/two/c.json: its SHA-256 is "
    assert named in done.out
    assert "1 of 4 files refused: nothing of them is in the folder\n" in done.out
    assert not (tmp_path / "there" / "two" / "c.json").exists()
    checked = drsr("check", "small", "--to", "there")
    assert checked.code == 1
    assert "there: 3 of 4 files as the table says" in checked.out
    assert f"  missing: two/c.json, from someone/agent-runs at {COMMIT}: runs/two/c.json\n" in checked.out
    assert drsr("check", "small", "--to", "there", "--source", "one").code == 0


def test_from_a_host(drsr: Drsr) -> None:
    with public_host() as host:
        publish(host)
        host.always(place("one/a.json"), status(404))
        done = drsr("fetch", "small", "--host", host.url, "--json")
        assert done.code == 1
        (refused,) = done.json["refused"]
        assert refused == {
            "reason": "missing",
            "detail": "the host answers with status 404",
            "file": "one/a.json",
            "repository": "someone/agent-runs",
            "commit": COMMIT,
            "path": "runs/one/a.json",
        }
    with public_host() as host:
        host.always(place("one/a.json"), status(429, Retry_After="7200"))
        limited = drsr("fetch", "small", "--host", host.url)
        assert limited.code == 3  # to be tried again
        assert "hint: run the same command again after 20" in limited.err


def test_a_check_names_what_is_wrong_with_the_table(drsr: Drsr, tmp_path: Path) -> None:
    write_table(tmp_path, [row("one/a.json", b"a", licence=""), row("../b.json", b"b"), row("one/c.json", b"c")])
    done = drsr("check", "small")
    assert done.code == 1
    assert "NOT SOUND, 1 files" in done.out
    assert "  line 2: licence is empty" in done.out
    assert "  line 3: source '..' is not a plain folder name" in done.out
    found = drsr("check", "small", "--json")
    assert (found.code, found.json["passed"], found.json["rows"]) == (1, False, 1)
    assert [problem["line"] for problem in found.json["problems"]] == [2, 3, 3]
    refused = drsr("fetch", "small", "--mirror", "mirror")
    assert refused.code == 2
    assert "drsr corpus check small lists every problem" in refused.err
    assert not Path(FOLDER).exists()
    listed = drsr("list")  # the sound ones are shown all the same
    assert listed.code == 2
    assert "public: " in listed.out
    assert "licence is empty" in listed.err


def test_a_corpus_without_names_for_its_tasks_is_chosen_from(drsr: Drsr, tmp_path: Path) -> None:
    drsr("fetch", "small", "--mirror", "mirror")
    (tmp_path / "corpora" / "small" / "tasks.csv").unlink(missing_ok=True)
    chosen = drsr("choose", "small")
    assert (chosen.code, chosen.err) == (0, "")
    assert chosen.out.startswith("0 runs of 0 tasks")  # none of these is long enough
    unknown = drsr("choose", "nosuch")
    assert unknown.code == 2
    assert "nosuch" in unknown.err
    assert "tasks.csv" not in unknown.err


def test_a_check_names_the_other_tables_and_files_of_another_format(drsr: Drsr, tmp_path: Path) -> None:
    rows = [
        row(local, data, reader="tau_bench" if local == "two/c.json" else "openai_chat")
        for local, data in CONTENTS.items()
    ]
    folder = write_table(tmp_path, rows).parent
    (folder / "tasks.csv").write_text("source,read_as,task,group,split\none,1,a,a,\none,1,a,b,\n")
    drsr("fetch", "small", "--mirror", "mirror")
    done = drsr("check", "small")
    assert done.code == 1
    assert "files.csv: sound, 4 files\n" in done.out
    assert "tasks.csv: NOT SOUND, 1 rows\n  line 3: 1 of one is in line 2 too\n  line 3: task a is in" in done.out
    assert f"{FOLDER}: 4 of 4 files as the table says\n" in done.out
    assert "  reader: two/c.json is not tau_bench, as its row says, but openai_chat\n" in done.out


def test_many_bad_files_are_counted(drsr: Drsr, tmp_path: Path) -> None:
    write_table(tmp_path, [row(f"one/{number}.json", str(number).encode()) for number in range(30)])
    done = drsr("fetch", "small", "--mirror", "mirror")
    assert done.code == 1
    assert done.out.count("missing: ") == 20
    assert "  and 10 more: --json names them all\n" in done.out
    assert len(json.loads(drsr("fetch", "small", "--mirror", "mirror", "--json").out)["refused"]) == 30


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("fetch", "nowhere"), "no corpus is called 'nowhere'\n  hint: known: public, small"),
        (("fetch", "small", "--mirror", "nowhere"), "nowhere: the mirror is not a folder"),
        (("fetch", "small", "--mirror", "mirror", "--host", "http://x"), "--mirror and --host exclude each other"),
        (("fetch", "small", "--mirror", "mirror", "--source", "three"), "no source 'three'\n  hint: one of one, two"),
        (("check", "small", "--to", "nowhere"), "nowhere: there is no such folder"),
    ],
)
def test_bad_usage_is_refused(drsr: Drsr, arguments: tuple[str, ...], complaint: str) -> None:
    done = drsr(*arguments)
    assert done.code == 2
    assert complaint in done.err
