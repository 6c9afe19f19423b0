"""The migrations: one line of them, forth and back with rows present, and in agreement with the models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, select, text

from drsr.errors import CatalogError, CatalogRevisionMismatch, InputError
from drsr.offline.catalog import migrations
from drsr.offline.catalog.engine import connect
from drsr.offline.catalog.feature_tables import FeatureFile, FeatureView, SplitRead, StateFeatures
from drsr.offline.catalog.label_tables import Label
from drsr.offline.catalog.migrations import (
    REVISION,
    VERSION_TABLE,
    RevisionChange,
    alembic_config,
    check_catalog,
    downgrade_catalog,
    open_catalog,
    script_location,
    upgrade_catalog,
)
from drsr.offline.catalog.tables import Source, Table, Trajectory
from drsr.offline.ingest.withdrawals import take_back, taken_back_runs, withdraw
from drsr.offline.store.artifacts import ArtifactStore
from tests.offline.catalog.read_runs import part, record_parts, run
from tests.offline.frames import rows
from tests.offline.logical_content import content_hash_of_catalog
from tests.offline.stored_examples import Rows, store_examples

INITIAL = "0001"


def revisions() -> list[str]:
    """All of them, oldest first."""
    return [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()][::-1]


def test_there_is_one_line_of_revisions_and_the_code_is_at_its_end() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [REVISION]
    assert revisions()[0] == INITIAL


def test_every_revision_is_in_the_notes() -> None:
    notes = (script_location() / "NOTES.md").read_text()
    headings = [line.split()[1] for line in notes.splitlines() if line.startswith("## ")]
    assert headings == revisions()[::-1]


def test_models_and_migrations_agree(catalog_url: str) -> None:
    check = check_catalog(catalog_url)
    assert check.differences == []
    assert check.passed


def test_checks_keys_and_indexes_agree_as_well(database: str, empty_url: str, catalog_url: str, tmp_path: Path) -> None:
    """Alembic does not compare checks, nor conditions of indexes; so all is compared with what the models create."""
    other = f"sqlite:///{tmp_path}/models.sqlite" if database == "sqlite" else empty_url
    with connect(other, create=True) as by_models, connect(catalog_url, create=False) as by_migrations:
        Table.metadata.create_all(by_models.engine)
        expected = described(by_models.engine)
        assert expected["trajectory"]["check"]
        assert described(by_migrations.engine) == expected


def described(engine: Engine) -> dict[str, Any]:
    """All that can be told of every table but Alembic's own."""
    inspector = inspect(engine)
    return {
        table: {
            "columns": [(c["name"], str(c["type"]), c["nullable"]) for c in inspector.get_columns(table)],
            "primary": plain(inspector.get_pk_constraint(table)),
            "check": plain(inspector.get_check_constraints(table)),
            "unique": plain(inspector.get_unique_constraints(table)),
            "foreign": plain(inspector.get_foreign_keys(table)),
            "indexes": plain(inspector.get_indexes(table)),
        }
        for table in inspector.get_table_names()
        if table != VERSION_TABLE
    }


def plain(value: Any) -> Any:
    """Lists in a fixed order, and SQL as text."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        parts = [plain(part) for part in value]
        return sorted(parts, key=lambda part: str(part["name"])) if parts and isinstance(parts[0], dict) else parts
    return value if isinstance(value, str | int | None) else str(value)


def test_down_and_up_again_with_rows_present(catalog_url: str) -> None:
    """Step by step down to the first revision and up again; rows of the first tables survive it."""
    with open_catalog(catalog_url) as catalog:
        record_parts(catalog, part("f", run("r", "one", reward=1.0)), part("g", run("q", "two")))
        record_parts(catalog, part("f", run("r", "three")))
        with catalog.reading() as connection:
            before = content_hash_of_catalog(connection)
    with pytest.raises(InputError, match="would delete rows: 3 of journal_event; nothing was changed"):
        downgrade_catalog(catalog_url, "0006")
    assert downgrade_catalog(catalog_url, "0006", may_lose_rows=True).after == "0006"
    for revision in revisions()[
        revisions().index("0006") - 1 :: -1
    ]:  # nothing more is lost, so nobody has to confirm it
        assert downgrade_catalog(catalog_url, revision).after == revision
    for revision in revisions()[1:]:
        assert upgrade_catalog(catalog_url, revision).after == revision
    with open_catalog(catalog_url) as catalog, catalog.reading() as connection:
        assert content_hash_of_catalog(connection) == before


def test_down_to_nothing_and_up_again(catalog_url: str) -> None:
    with open_catalog(catalog_url) as catalog:
        record_parts(catalog, part("f", run("r", "one", reward=1.0)))
        record_parts(catalog, part("f", run("r", "two")))
    with pytest.raises(InputError, match="would delete rows: .*2 of trajectory.*nothing was changed") as refusal:
        downgrade_catalog(catalog_url, "base")
    assert "--yes" in str(refusal.value)
    with open_catalog(catalog_url) as catalog, catalog.reading() as connection:
        assert len(connection.execute(select(Trajectory.id)).all()) == 2
    assert downgrade_catalog(catalog_url, "base", may_lose_rows=True) == RevisionChange(REVISION, None)
    with connect(catalog_url, create=False) as catalog:
        assert inspect(catalog.engine).get_table_names() == [VERSION_TABLE]
    assert upgrade_catalog(catalog_url) == RevisionChange(None, REVISION)
    assert check_catalog(catalog_url).passed


def test_going_below_features_takes_them_and_leaves_the_labels(catalog_url: str, tmp_path: Path) -> None:
    with open_catalog(catalog_url) as catalog:
        store_examples(catalog, ArtifactStore(str(tmp_path / "a")), "train", Rows(*rows("train", 2)))
        with catalog.reading() as connection:
            labels = connection.execute(select(Label).order_by(Label.state_id, Label.mask)).all()
    with pytest.raises(InputError, match="would delete rows: .*of feature_view.*nothing was changed"):
        downgrade_catalog(catalog_url, "0002")
    downgrade_catalog(catalog_url, "0002", may_lose_rows=True)
    upgrade_catalog(catalog_url)
    with open_catalog(catalog_url) as catalog, catalog.reading() as connection:
        assert connection.execute(select(Label).order_by(Label.state_id, Label.mask)).all() == labels
        for table in (FeatureView, FeatureFile, StateFeatures, SplitRead):
            assert connection.execute(select(table)).all() == []


def test_going_below_withdrawals_forgets_also_those_that_were_taken_back(catalog_url: str) -> None:
    with open_catalog(catalog_url) as catalog:
        record_parts(catalog, part("f", run("r", "one")))
        with catalog.writing() as connection:
            withdraw(connection, "s/r", "a copy")
            take_back(connection, "s/r")
    with pytest.raises(InputError, match="would delete rows: 3 of journal_event, 1 of withdrawal; nothing was changed"):
        downgrade_catalog(catalog_url, "0005")
    downgrade_catalog(catalog_url, "0005", may_lose_rows=True)
    upgrade_catalog(catalog_url)
    with open_catalog(catalog_url) as catalog, catalog.reading() as connection:
        assert taken_back_runs(connection) == []


def test_an_empty_database_is_made_a_catalog_when_asked_to(empty_url: str) -> None:
    with open_catalog(empty_url, create=True) as catalog, catalog.reading() as connection:
        assert connection.execute(select(Source)).all() == []
    assert check_catalog(empty_url).passed


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_an_empty_database_is_refused_otherwise(empty_url: str) -> None:
    with pytest.raises(CatalogRevisionMismatch, match="the catalog is empty") as refusal:
        open_catalog(empty_url)
    assert "drsr catalog upgrade" in str(refusal.value)


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    ("revision", "hint"), [("0000", "drsr catalog upgrade"), ("9999", "pip install --upgrade drsr")]
)
def test_a_catalog_at_another_revision_is_refused(catalog_url: str, create: bool, revision: str, hint: str) -> None:
    with connect(catalog_url, create=False) as catalog, catalog.writing() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))
    with pytest.raises(CatalogRevisionMismatch, match=f"at revision {revision}") as refusal:
        open_catalog(catalog_url, create=create)
    assert hint in str(refusal.value)
    assert not check_catalog(catalog_url).passed
    with pytest.raises(CatalogRevisionMismatch, match="does not know that revision"):
        upgrade_catalog(catalog_url)


def test_a_difference_is_told(catalog_url: str) -> None:
    with connect(catalog_url, create=False) as catalog, catalog.writing() as connection:
        connection.execute(text("DROP TABLE trajectory_reward"))
    check = check_catalog(catalog_url)
    assert not check.passed
    assert check.differences == ["table trajectory_reward is missing from the database"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_every_kind_of_difference_is_told_in_words(catalog_url: str) -> None:
    with connect(catalog_url, create=False) as catalog, catalog.writing() as connection:
        for statement in (
            "ALTER TABLE run DROP COLUMN subject",
            "ALTER TABLE run ADD COLUMN mood TEXT",
            "ALTER TABLE run ALTER COLUMN code_version DROP NOT NULL",
            "DROP INDEX ix_run_started_at",
            "ALTER TABLE trajectory_reward DROP CONSTRAINT fk_trajectory_reward_trajectory_id",
            "CREATE TABLE diary (day TEXT)",
        ):
            connection.execute(text(statement))
    assert sorted(check_catalog(catalog_url).differences) == [
        "column run.code_version: its nullable is True in the database, False in this version of drsr",
        "column run.mood is in the database, but unknown to this version",
        "column run.subject is missing from the database",
        "fk fk_trajectory_reward_trajectory_id of table trajectory_reward is missing from the database",
        "index ix_run_started_at of table run is missing from the database",
        "table diary is in the database, but unknown to this version",
    ]


@pytest.mark.parametrize("revision", ["0099", "nonsense"])
def test_a_revision_that_does_not_exist_is_refused_with_those_that_do(catalog_url: str, revision: str) -> None:
    with pytest.raises(CatalogRevisionMismatch, match=f"cannot go from revision {REVISION} to '{revision}'") as refusal:
        downgrade_catalog(catalog_url, revision)
    assert f"the revisions are base, {', '.join(revisions())}" in str(refusal.value)


def test_another_application_s_revision_in_the_same_database_does_not_matter(empty_url: str) -> None:
    with connect(empty_url, create=True) as catalog, catalog.writing() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))
    open_catalog(empty_url, create=True).close()
    with connect(empty_url, create=False) as catalog, catalog.reading() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == "theirs"


def test_an_upgrade_that_fails_leaves_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise CatalogError("after all tables were made")

    monkeypatch.setattr(migrations, "_check_foreign_keys", fail)
    with pytest.raises(CatalogError, match="after all tables were made"):
        upgrade_catalog(empty_url)
    with connect(empty_url, create=False) as catalog:
        assert inspect(catalog.engine).get_table_names() == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_migration_that_breaks_a_reference_is_undone(catalog_url: str) -> None:
    """Foreign keys are off while tables are copied on SQLite, so they are checked before the commit."""
    with connect(catalog_url, create=False, foreign_keys=False) as catalog, catalog.writing() as connection:
        connection.execute(text("INSERT INTO trajectory_reward VALUES (99, 1.0)"))
    with pytest.raises(CatalogError, match="break a reference of table trajectory_reward"):
        upgrade_catalog(catalog_url)


def test_an_installed_package_carries_the_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages" / "drsr" / "offline"
    (installed / "catalog").mkdir(parents=True)
    monkeypatch.setattr(migrations, "__file__", str(installed / "catalog" / "migrations.py"))
    with pytest.raises(CatalogError, match="missing from this installation"):
        script_location()
    (installed / "migrations").mkdir()
    (installed / "migrations" / "env.py").write_text("")
    assert script_location() == installed / "migrations"


def test_labelers_in_half_precision_get_the_one_way_they_computed_in(catalog_url: str, tmp_path: Path) -> None:
    """And keep all their labels. One that mixed two ways gets none; float32 needs none."""
    with open_catalog(catalog_url) as catalog:
        store_examples(catalog, ArtifactStore(str(tmp_path / "a")), "train", Rows(*rows("train", 2)))
    downgrade_catalog(catalog_url, "0007")
    with connect(catalog_url, create=False) as catalog, catalog.writing() as connection:
        labels = connection.execute(text("SELECT count(*) FROM label")).scalar()
        copied = "backbone, backbone_identity, {0}, renderer_version, rule_hash, target_cap, harm_tolerance"
        for name, dtype in (("one way", "'bfloat16'"), ("two ways", "'float16'")):
            columns, values = copied.format("dtype"), copied.format(dtype)
            connection.execute(
                text(f"INSERT INTO labeler (name, {columns}) SELECT '{name}', {values} FROM labeler WHERE id = 1")
            )
        number = "(SELECT id FROM labeler WHERE name = '{0}')"
        facts = "outcome, reason, detail, intact_nll, target_tokens, target_hash, context_tokens"
        for name, methods in (("one way", ["direct", "direct"]), ("two ways", ["direct", "shared_prefix"])):
            for place, method in enumerate(methods):
                connection.execute(
                    text(
                        f"INSERT INTO state_measurement (state_id, labeler_id, {facts}, method, measured_at, "
                        f"code_version) SELECT state_id, {number.format(name)}, {facts}, '{method}', measured_at, "
                        "code_version "
                        f"FROM state_measurement WHERE labeler_id = 1 ORDER BY state_id LIMIT 1 OFFSET {place}"
                    )
                )
    upgrade_catalog(catalog_url)
    with connect(catalog_url, create=False) as catalog, catalog.reading() as connection:
        found = dict(connection.execute(text("SELECT name, method FROM labeler")).tuples().all())
        assert found == {"default": None, "one way": "direct", "two ways": None}
        assert connection.execute(text("SELECT count(*) FROM label")).scalar() == labels
        assert connection.execute(text("SELECT count(*) FROM labeler WHERE noise_floor IS NOT NULL")).scalar() == 0
