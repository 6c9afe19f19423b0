"""Fetching a corpus over real HTTP from a host that answers as well and as badly as a public one, and from a mirror."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from drsr.errors import InputError, NothingThere, SourceUnreachable
from drsr.offline.ingest.corpus.check import check_corpus
from drsr.offline.ingest.corpus.download import Patience, Published
from drsr.offline.ingest.corpus.fetch import Fetched, fetch_corpus
from drsr.offline.ingest.corpus.origins import Mirror
from drsr.offline.ingest.corpus.table import Corpus, load_corpus, read_table
from tests.offline.public_host import (
    Answer,
    PublicHost,
    cut,
    hang,
    other_bytes,
    public_host,
    redirect,
    silent,
    status,
)
from tests.offline.small_corpus import (
    COMMIT,
    CONTENTS,
    contents,
    mirrored,
    place,
    publish,
    row,
    small_corpus,
    write_table,
)
from tests.trajectory_files import trajectories_folder

ROOT = Path(__file__).parents[4]
SHARED = trajectories_folder()
QUICK = Patience(attempts=3, first_pause=0.01, longest_limit=5)
VICTIM = "two/c.json"
OTHERS = {local: data for local, data in CONTENTS.items() if local != VICTIM}


@pytest.fixture
def host() -> Iterator[PublicHost]:
    with public_host() as started:
        publish(started)
        yield started


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return small_corpus(tmp_path)


def fetched(corpus: Corpus, host: PublicHost, folder: Path) -> Fetched:
    return fetch_corpus(corpus, folder, Published(host.url, QUICK))


def test_every_file_is_fetched_once(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    done = fetch_corpus(
        corpus,
        tmp_path / "to",
        Published(host.url),
        progress=lambda files, total, size: seen.append((files, total, size)),
    )
    assert (done.files, done.fetched, done.kept, done.refused) == (4, 4, 0, ())
    assert done.bytes == corpus.bytes == sum(map(len, CONTENTS.values()))
    assert contents(tmp_path / "to") == CONTENTS
    assert sorted(host.asked) == sorted(map(place, CONTENTS))  # no request but the files themselves
    assert [(files, total) for files, total, _ in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert seen[-1][2] == corpus.bytes
    again = fetched(corpus, host, tmp_path / "to")
    assert (again.fetched, again.kept, again.bytes) == (0, 4, 0)
    assert len(host.asked) == 4


def test_only_some_sources(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    done = fetch_corpus(corpus, tmp_path / "to", Published(host.url), sources=["two"])
    assert (done.files, done.fetched) == (2, 2)
    assert set(contents(tmp_path / "to")) == {"two/c.json", "two/d.json"}


def test_redirects_are_followed(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    host.files["moved/c.json"] = CONTENTS[VICTIM]
    host.always(place(VICTIM), redirect("/moved/c.json"))
    assert fetched(corpus, host, tmp_path / "to").refused == ()
    assert contents(tmp_path / "to") == CONTENTS


def test_a_plain_url(host: PublicHost, tmp_path: Path) -> None:
    data = b"a run on a plain server"
    host.files["2026/a b.json"] = data
    path = write_table(tmp_path, [row("web/a.json", data, repository=f"{host.url}/", commit="", path="2026/a b.json")])
    done = fetch_corpus(Corpus("plain", path.parent, read_table(path)[0]), tmp_path / "to", Published())
    assert (done.fetched, done.refused) == (1, ())
    assert contents(tmp_path / "to") == {"web/a.json": data}


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        (status(404), "missing", "status 404"),
        (status(410), "missing", "status 410"),
        (status(403), "forbidden", "status 403"),
        (status(451), "forbidden", "status 451"),
        (status(503), "unreachable", "status 503, 3 times"),
        (cut, "unreachable", "the connection was cut (ClientPayloadError), 3 times"),
        (silent, "unreachable", "the connection was cut (ServerDisconnectedError), 3 times"),
        (other_bytes(CONTENTS[VICTIM][::-1]), "altered", f"instead of {hashlib.sha256(CONTENTS[VICTIM]).hexdigest()}"),
        (other_bytes(CONTENTS["two/d.json"]), "altered", "it has 3,000 of the 9,000 bytes of the table"),
        (other_bytes(CONTENTS[VICTIM] * 2), "altered", "it has more than the 9,000 bytes of the table"),
        (redirect(f"/{place(VICTIM)}"), "missing", "redirects without end"),
    ],
)
def test_one_file_that_cannot_be_had(
    corpus: Corpus, host: PublicHost, tmp_path: Path, answer: Answer, reason: str, detail: str
) -> None:
    """It is named and refused, nothing of it remains, and the others are fetched; later it is fetched alone."""
    host.always(place(VICTIM), answer)
    done = fetched(corpus, host, tmp_path / "to")
    assert (done.fetched, len(done.refused)) == (3, 1)
    (refused,) = done.refused
    assert (refused.reason, refused.file.local) == (reason, VICTIM)
    assert detail in refused.detail
    assert refused.file.origin == f"someone/agent-runs at {COMMIT}: runs/{VICTIM}"
    assert contents(tmp_path / "to") == OTHERS
    with public_host() as healthy:
        publish(healthy)
        assert fetched(corpus, healthy, tmp_path / "to").fetched == 1
        assert healthy.asked == [place(VICTIM)]
    assert contents(tmp_path / "to") == CONTENTS


@pytest.mark.parametrize("answer", [cut, silent, status(500), status(502), other_bytes(b"")])
def test_passing_trouble_is_tried_again(corpus: Corpus, host: PublicHost, tmp_path: Path, answer: Answer) -> None:
    host.instead(place(VICTIM), answer, answer)
    assert fetched(corpus, host, tmp_path / "to").refused == ()
    assert host.asked.count(place(VICTIM)) == 3
    assert contents(tmp_path / "to") == CONTENTS


@pytest.mark.parametrize("code", [403, 429])
def test_a_short_rate_limit_is_waited_for(corpus: Corpus, host: PublicHost, tmp_path: Path, code: int) -> None:
    began = time.monotonic()
    host.instead(place(VICTIM), status(code, Retry_After="1"))
    assert fetched(corpus, host, tmp_path / "to").refused == ()
    assert time.monotonic() - began >= 1
    assert contents(tmp_path / "to") == CONTENTS


@pytest.mark.parametrize(
    "headers",
    [
        lambda: {"Retry_After": "3600"},
        lambda: {"Retry_After": formatdate(time.time() + 3600, usegmt=True)},
        lambda: {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(int(time.time()) + 3600)},
    ],
)
def test_a_long_rate_limit_ends_the_fetch_and_says_when(
    corpus: Corpus, host: PublicHost, tmp_path: Path, headers: Callable[[], dict[str, str]]
) -> None:
    host.always(place(VICTIM), status(403, **headers()))
    with pytest.raises(SourceUnreachable, match="limits how often it may be asked, for another 3,[56]") as caught:
        fetched(corpus, host, tmp_path / "to")
    assert "run the same command again after 20" in str(caught.value)
    assert "what was fetched is kept" in str(caught.value)
    assert contents(tmp_path / "to").items() <= OTHERS.items()
    with public_host() as healthy:
        publish(healthy)
        assert fetched(corpus, healthy, tmp_path / "to").refused == ()
    assert contents(tmp_path / "to") == CONTENTS


def test_downloads_under_way_end_at_once_when_the_fetch_ends(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    released = threading.Event()
    host.instead(place("one/a.json"), hang(released))
    host.always(place(VICTIM), status(429, Retry_After="3600"))
    began = time.monotonic()
    with pytest.raises(SourceUnreachable, match="limits how often"):
        fetched(corpus, host, tmp_path / "to")
    assert time.monotonic() - began < 30  # the host is silent for a minute
    released.set()
    assert contents(tmp_path / "to").keys() <= {"one/deep/b c:d.json", "two/d.json"}


def test_a_rate_limit_that_does_not_end(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    host.always(place(VICTIM), status(429, Retry_After="0"))
    with pytest.raises(SourceUnreachable, match="limits how often"):
        fetched(corpus, host, tmp_path / "to")
    assert host.asked.count(place(VICTIM)) == QUICK.attempts


def test_a_rate_limit_without_a_time(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    host.always(place(VICTIM), status(429))
    with_password = host.url.replace("://", "://someone:hunter2@")
    with pytest.raises(SourceUnreachable, match="for another 60 s") as caught:
        fetch_corpus(corpus, tmp_path / "to", Published(with_password, QUICK))
    assert host.url in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_host_out_of_reach_does_not_stop_the_others(host: PublicHost, tmp_path: Path) -> None:
    dead = {"repository": "http://127.0.0.1:1/runs", "commit": ""}
    rows = [row(local, data, **(dead if local.startswith("one") else {})) for local, data in CONTENTS.items()]
    path = write_table(tmp_path, rows)
    done = fetched(Corpus("half", path.parent, read_table(path)[0]), host, tmp_path / "to")
    assert [(found.file.source, found.reason) for found in done.refused] == [("one", "unreachable")] * 2
    assert "the host cannot be reached" in done.refused[0].detail
    assert set(contents(tmp_path / "to")) == {"two/c.json", "two/d.json"}


def test_an_altered_file_in_the_folder_is_fetched_again(corpus: Corpus, host: PublicHost, tmp_path: Path) -> None:
    fetched(corpus, host, tmp_path / "to")
    (tmp_path / "to" / VICTIM).write_bytes(CONTENTS[VICTIM][::-1])
    (tmp_path / "to" / "one" / "a.json").unlink()
    done = fetched(corpus, host, tmp_path / "to")
    assert (done.fetched, done.kept) == (2, 2)
    assert contents(tmp_path / "to") == CONTENTS


def test_an_altered_file_that_cannot_be_replaced_does_not_remain(
    corpus: Corpus, host: PublicHost, tmp_path: Path
) -> None:
    fetched(corpus, host, tmp_path / "to")
    (tmp_path / "to" / VICTIM).write_bytes(b"altered")
    host.always(place(VICTIM), status(404))
    assert len(fetched(corpus, host, tmp_path / "to").refused) == 1
    assert contents(tmp_path / "to") == OTHERS


def test_a_killed_fetch_goes_on_where_it_stopped(
    corpus: Corpus, host: PublicHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    host.instead(place(VICTIM), hang(released))
    command = [sys.executable, "-m", "drsr", "corpus", "fetch", "small", "--host", host.url, "--to", "to"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        folder = tmp_path / "to"
        deadline = time.monotonic() + 60
        while not (len(host.asked) == 4 and OTHERS.items() <= contents(folder).items()):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        with pytest.raises(InputError, match="another fetch is filling this folder"):
            fetched(corpus, host, folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
    finally:
        process.kill()
        process.wait()
        released.set()
    left = contents(folder).keys() - CONTENTS.keys()
    assert len(left) == 1  # half a file, which has no name that anything reads
    assert next(iter(left)).startswith(".partial/")
    assert not (folder / VICTIM).exists()
    done = fetched(corpus, host, folder)
    assert (done.kept, done.fetched) == (3, 1)
    assert contents(folder) == CONTENTS


def test_a_mirror(corpus: Corpus, tmp_path: Path) -> None:
    mirror = Mirror(mirrored(tmp_path / "mirror"))
    done = fetch_corpus(corpus, tmp_path / "to", mirror)
    assert (done.fetched, done.refused) == (4, ())
    assert contents(tmp_path / "to") == CONTENTS
    assert fetch_corpus(corpus, tmp_path / "to", mirror).kept == 4


def test_a_mirror_with_bad_files(corpus: Corpus, tmp_path: Path) -> None:
    folder = mirrored(tmp_path / "mirror")
    (folder / "one" / "a.json").write_bytes(CONTENTS["one/a.json"].replace(b"1", b"7"))
    (folder / VICTIM).unlink()
    os.mkfifo(folder / VICTIM)
    (folder / "two" / "d.json").write_bytes(b"")
    done = fetch_corpus(corpus, tmp_path / "to", Mirror(folder))
    assert [(found.file.local, found.reason) for found in done.refused] == [
        ("one/a.json", "altered"),
        (VICTIM, "missing"),
        ("two/d.json", "altered"),
    ]
    assert set(contents(tmp_path / "to")) == {"one/deep/b c:d.json"}


def test_bad_places(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(NothingThere, match="the mirror is not a folder"):
        Mirror(tmp_path / "nowhere")
    mirror = mirrored(tmp_path / "mirror")
    (tmp_path / "same").symlink_to(mirror)
    with pytest.raises(InputError, match="are the same"):
        fetch_corpus(corpus, tmp_path / "same", Mirror(mirror))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        fetch_corpus(corpus, tmp_path / "file", Mirror(mirror))
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "two").write_text("a file where a folder must be")
    with pytest.raises(InputError, match="two/(c|d).json: cannot be written"):
        fetch_corpus(corpus, tmp_path / "to", Mirror(mirror))
    with pytest.raises(InputError, match="is not a URL"):
        Published("git.example")


@pytest.mark.skipif(SHARED is None, reason="needs the mirror of public runs beside the checkout")
def test_the_public_corpus_from_its_mirror(tmp_path: Path) -> None:
    corpus = load_corpus("public")
    assert SHARED is not None
    done = fetch_corpus(corpus, tmp_path / "to", Mirror(SHARED))
    assert (done.fetched, done.bytes, done.refused) == (len(corpus.files), corpus.bytes, ())
    checked = check_corpus("public", tmp_path / "to")
    assert (checked.passed, len(checked.others)) == (True, 2)
