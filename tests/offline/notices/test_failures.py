"""The failure hook, against a real command and a local HTTP server."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from drsr.cli import main
from drsr.errors import InputError
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.dashboard.nights import read_nights
from drsr.offline.notices import Failure, delivery, failure_of, note_failure, tell_failure
from drsr.offline.publish.refreshes import Refreshed, last_refresh
from drsr.offline.run import in_order
from tests.offline.notices.listener import listening

FAILURE = Failure("drsr run", "label", "no room at postgresql://me:hunter2@db/runs?key=hunter2", "free some")
WRITER = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRSR_CATALOG_URL", "postgresql://me:hunter2@db/runs")
    return tmp_path


def test_a_webhook_is_told_stage_reason_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as listener:
        monkeypatch.setenv("DRSR_ON_FAILURE", f"{listener.url}/hooks/hunter2")
        assert tell_failure(FAILURE)
    (told,) = listener.heard
    assert (told["event"], told["what"], told["stage"]) == ("drsr failure", "drsr run", "label")
    assert told["reason"] == "no room at postgresql://me:***@db/runs"
    assert told["what_to_do"] == "free some"
    assert told["catalog"] == "postgresql://me:***@db/runs"
    assert "hunter2" not in json.dumps(told)


def test_a_command_is_run_without_a_shell(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "a b; touch planted && $(touch planted) `touch planted`"
    monkeypatch.setenv("DRSR_ON_FAILURE", shlex.join([sys.executable, "-c", WRITER, odd]))
    assert tell_failure(FAILURE)
    assert json.loads((place / odd).read_bytes())["stage"] == "label"
    assert not (place / "planted").exists()


def test_without_a_hook_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert not tell_failure(FAILURE)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (shlex.join([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]), "ended with exit code 3"),
        ("no-such-program --key hunter2", "no-such-program: cannot be run"),
        ("'unclosed hunter2", "cannot be taken apart"),
        ("' '", "cannot be run"),
        ("http://127.0.0.1:1/hunter2", "http://127.0.0.1:1: does not answer: ConnectionRefusedError"),
        ("http://me:hunter2@127.0.0.1:1/", "http://127.0.0.1:1: does not answer"),
        ("https://[hunter2", "cannot be read"),
    ],
)
def test_a_hook_that_fails_says_so_and_no_secret(
    target: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRSR_ON_FAILURE", target)
    assert not tell_failure(FAILURE)
    printed = capsys.readouterr().err
    assert printed.startswith("drsr: the failure hook failed")
    assert said in printed
    assert "hunter2" not in printed


def test_a_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(delivery, "COMMAND_SECONDS", 0.5)
    monkeypatch.setenv("DRSR_ON_FAILURE", shlex.join([sys.executable, "-c", "import time; time.sleep(60)"]))
    assert not tell_failure(FAILURE)
    assert "did not end within 0.5 s" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "said"), [(500, "answered 500"), (302, "answered 302")])
def test_an_answer_other_than_success_is_a_failure(
    code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening() as elsewhere, listening(code, elsewhere.url) as listener:
        monkeypatch.setenv("DRSR_ON_FAILURE", listener.url)
        assert not tell_failure(FAILURE)
    assert said in capsys.readouterr().err
    assert (len(listener.heard), elsewhere.heard) == (1, [])


def test_user_and_password_of_a_webhook_are_sent_as_http_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as listener:
        monkeypatch.setenv("DRSR_ON_FAILURE", listener.url.replace("://", "://me:hunter%402@") + "/hooks?a=b")
        assert tell_failure(FAILURE)
    assert listener.authorized == [f"Basic {base64.b64encode(b'me:hunter@2').decode()}"]


def test_an_answer_byte_by_byte_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each byte comes in time, and the whole never does: no night waits for that."""
    monkeypatch.setattr(delivery, "SECONDS", 0.3)
    ended = threading.Event()

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            while not ended.wait(0.05):
                connection.sendall(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        monkeypatch.setenv("DRSR_ON_FAILURE", f"http://127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        assert not tell_failure(FAILURE)
        took = time.monotonic() - began
        ended.set()
        thread.join()
    assert took < 5
    assert "does not answer within 0.3 s" in capsys.readouterr().err


def test_a_failure_is_noted_in_the_catalog_and_is_no_refresh(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{place}/catalog.sqlite")
    note_failure(FAILURE)
    assert "the failure was not noted in the catalog: there is no catalog yet" in capsys.readouterr().err
    refreshed = Refreshed("default", "default", certified=False)
    with open_catalog(f"sqlite:///{place}/catalog.sqlite", create=True) as catalog:
        note_failure(FAILURE)
        with catalog.reading() as connection:
            (night,) = read_nights(connection)
        assert last_refresh(catalog, refreshed) is None
    assert (night.failed, dict(night.outcome or {})["reason"]) == ("label", "no room at postgresql://me:***@db/runs")
    assert capsys.readouterr() == ("", "")


def test_the_stage_is_the_one_that_raised() -> None:
    def run(stage: str) -> None:
        if stage == "freeze":
            raise InputError("no room", where="disk", hint="free some")

    with pytest.raises(InputError) as raised:
        in_order(["ingest", "freeze"], run, lambda stage, result: True)
    assert failure_of("night", raised.value) == Failure("night", "freeze", "disk: no room", "free some")
    assert failure_of("night", ValueError("odd")).stage == "before the first stage"


def test_drsr_run_tells_and_fails_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", "sqlite:///catalog.sqlite")
    monkeypatch.setenv("DRSR_BACKBONE", "scripted")
    with listening() as listener:
        monkeypatch.setenv("DRSR_ON_FAILURE", listener.url)
        assert main(["run", "nowhere"]) == 2
        assert "nothing is there" in capsys.readouterr().err
        monkeypatch.setenv("DRSR_ON_FAILURE", "no-such-program")
        assert main(["run", "nowhere"]) == 2
    (told,) = listener.heard
    assert told["stage"] == "ingest"
    assert "nothing is there" in told["reason"]
    printed = capsys.readouterr().err
    assert "nothing is there" in printed
    assert "the failure hook failed" in printed
