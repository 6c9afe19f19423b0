"""Opening a catalog: what is set up, who may write, and what a person is told when it cannot be used."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import insert, make_url, select, text
from sqlalchemy.exc import IntegrityError

from drsr.errors import CatalogRevisionMismatch, CatalogUnreachable, SettingsError
from drsr.offline.catalog import engine
from drsr.offline.catalog.engine import Catalog, connect, parse_url
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.catalog.tables import Source, TrajectoryReward


def names(catalog: Catalog) -> list[str]:
    with catalog.reading() as connection:
        return list(connection.execute(select(Source.name).order_by(Source.name)).scalars())


def test_a_write_is_committed_at_the_end_of_the_block(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        connection.execute(insert(Source).values(name="a"))
        assert names(catalog) == []
    assert names(catalog) == ["a"]


def test_an_exception_rolls_back(catalog: Catalog) -> None:
    def fail_half_way() -> None:
        with catalog.writing() as connection:
            connection.execute(insert(Source).values(name="a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert names(catalog) == []


def test_a_reader_sees_one_state_whatever_is_written_beside_it(catalog: Catalog) -> None:
    query = select(Source.name).order_by(Source.name)
    with catalog.reading() as connection:
        assert connection.execute(query).all() == []
        with catalog.writing() as beside:
            beside.execute(insert(Source).values(name="a"))
        assert names(catalog) == ["a"], "it is committed, and a new block sees it"
        assert connection.execute(query).all() == []
    assert names(catalog) == ["a"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_reader_writes_nothing(catalog: Catalog) -> None:
    with pytest.raises(CatalogUnreachable, match="read-only transaction"), catalog.reading() as connection:
        connection.execute(insert(Source).values(name="a"))
    with catalog.writing() as connection:
        connection.execute(insert(Source).values(name="b"))  # on the same connection of the pool
    assert names(catalog) == ["b"]


def test_foreign_keys_hold(catalog: Catalog) -> None:
    with pytest.raises(IntegrityError), catalog.writing() as connection:
        connection.execute(insert(TrajectoryReward).values(trajectory_id=7, reward=1.0))


def test_a_second_writer_waits_for_the_first(catalog: Catalog) -> None:
    order = []
    inside = threading.Event()

    def second() -> None:
        inside.wait()
        with catalog.writing() as connection:
            order.append("second")
            connection.execute(insert(Source).values(name="b"))

    thread = threading.Thread(target=second)
    thread.start()
    with catalog.writing() as connection:
        inside.set()
        connection.execute(insert(Source).values(name="a"))
        thread.join(timeout=0.3)
        assert thread.is_alive()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert names(catalog) == ["a", "b"]


def test_a_writer_that_waits_too_long_is_told_so(catalog_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LOCK_SECONDS", 1)
    with open_catalog(catalog_url) as first, open_catalog(catalog_url) as second, first.writing():
        assert names(second) == []  # readers do not wait
        with pytest.raises(CatalogUnreachable, match="is locked") as refusal, second.writing():
            pass
    assert "end it, and run again" in str(refusal.value)


def test_sqlite_is_set_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/folder/catalog.sqlite"
    with connect(url, create=True) as catalog, catalog.reading() as connection:
        settings = {
            name: connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert settings == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 60_000, "synchronous": 1}


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://host/name",
        "oracle://host",
        "catalog.sqlite",
        "://",
        "",
        "nosuch://x",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:///PATH"):
        connect(url, create=True)


def test_a_catalog_that_is_not_there_is_not_created_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "catalog.sqlite"
    with pytest.raises(CatalogUnreachable, match="there is no catalog yet") as refusal:
        open_catalog(f"sqlite:///{path}")
    assert "drsr ingest" in str(refusal.value)
    assert not path.parent.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CatalogUnreachable, match="folder cannot be created"):
        open_catalog(f"sqlite:///{tmp_path}/taken/below/catalog.sqlite", create=True)


def test_a_path_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CatalogUnreachable, match="cannot be opened"):
        open_catalog(f"sqlite:///{tmp_path}", create=True)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(CatalogUnreachable, match="not an SQLite database"):
        open_catalog(f"sqlite:///{path}", create=True)
    assert path.read_bytes() == b"something else entirely" * 100


def test_a_read_only_catalog_can_be_read_and_not_written(catalog_url: str) -> None:
    url = make_url(catalog_url)
    if url.get_backend_name() == "sqlite":
        read_only = f"sqlite:///file:{url.database}?mode=ro&uri=true"
    else:
        options = {"options": "-c default_transaction_read_only=on"}
        read_only = url.update_query_dict(options).render_as_string(hide_password=False)
    with open_catalog(read_only) as catalog:
        assert names(catalog) == []
        with pytest.raises(CatalogUnreachable, match="is read-only"), catalog.writing() as connection:
            connection.execute(insert(Source).values(name="a"))


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(CatalogUnreachable, match="does not answer") as refusal:
        open_catalog("postgresql://me:hunter2@127.0.0.1:9/name?password=hunter3")
    assert "postgresql://me:***@127.0.0.1:9/name" in str(refusal.value)
    assert "hunter" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p@ssw0rdSECRET@127.0.0.1:9/x",
        "postgresql+psycopg://me:p@SECRET/SECRET@127.0.0.1:9/x",
        "postgresql://me:p@SECRET?SECRET@127.0.0.1:9/x",
        "postgresql://me:p@SECRET:SECRET@127.0.0.1:9/x",
        "postgresql://me:p@SECRET@SECRET@127.0.0.1:9/x",
        "postgresql://127.0.0.1:9/x?password=p@SECRET",
    ],
)
def test_no_piece_of_a_password_with_an_at_sign_is_taken_for_the_host(url: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        connect(url, create=False)
    assert "SECRET" not in str(refusal.value)


def test_a_torn_password_gets_advice() -> None:
    with pytest.raises(SettingsError, match=r"postgresql://me:\*\*\*@host/x: .*\n.*@ as %40"):
        connect("postgresql://me:p@ss@host/x", create=False)


@pytest.mark.parametrize(
    ("url", "username", "password", "host"),
    [
        ("postgresql://me:p%40ss@host/x", "me", "p@ss", "host"),
        ("postgresql://me@corp:p%2Fw@host/x", "me@corp", "p/w", "host"),
        ("postgresql://me:p/w@host/x", "me", "p/w", "host"),
        ("postgresql://me:@host/x", "me", "", "host"),
        ("postgresql://me@/x?host=/tmp", "me", None, None),
        ("postgresql:///x", None, None, None),
    ],
)
def test_passwords_that_can_be_told(url: str, username: str | None, password: str | None, host: str | None) -> None:
    parsed = parse_url(url)
    assert (parsed.username, parsed.password, parsed.host) == (username, password, host)


def test_a_database_that_is_not_there(database: str, catalog_url: str) -> None:
    if database == "sqlite":
        missing = catalog_url.replace("catalog.sqlite", "other.sqlite")
    else:
        missing = make_url(catalog_url).set(database="no_such_database").render_as_string(hide_password=False)
    with pytest.raises(CatalogUnreachable):
        open_catalog(missing)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_lost_connection_is_told(catalog: Catalog) -> None:
    with catalog.reading() as connection:
        own = connection.execute(text("SELECT pg_backend_pid()")).scalar()
        with catalog.reading() as other:
            other.execute(text(f"SELECT pg_terminate_backend({own})"))
        with pytest.raises(CatalogUnreachable, match="connection to the database was lost"):
            connection.execute(select(Source.name))


def test_a_missing_table_means_another_revision(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        connection.execute(text("DROP TABLE trajectory_reward"))
    with pytest.raises(CatalogRevisionMismatch, match="lacks tables") as refusal, catalog.reading() as connection:
        connection.execute(select(TrajectoryReward))
    assert "drsr catalog upgrade" in str(refusal.value)
