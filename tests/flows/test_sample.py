"""The bundled sample: it fits the corpus of this version, is taken over once, and whatever does not fit is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest
from sqlalchemy import func, select

from drsr.backbone.catalogue import load_tokenizer
from drsr.errors import ArtifactCorrupt, InputError
from drsr.flows import sample
from drsr.flows.sample import BUNDLED, STAGES, Bundle, SampleRefused, main, make_sample, take_sample
from drsr.offline import samples
from drsr.offline.catalog.label_tables import Label, StateMeasurement
from drsr.offline.catalog.migrations import open_catalog
from drsr.offline.freeze.stage import freeze
from drsr.offline.ingest.stage import ingest
from drsr.offline.store.artifacts import ArtifactStore
from drsr.request.view import caps_for
from drsr.settings import Settings, load_settings
from tests.offline.test_stage_exports import content

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # DVC's use of pygtrie
IN_GIT = ("remote", "sample.json", "measured.dvc", ".gitignore", ".dvc/config", ".dvc/.gitignore")


@pytest.fixture(scope="module")
def frozen_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog that has ingested and frozen the sample corpus for the embedded model. Never to be changed."""
    folder = tmp_path_factory.mktemp("corpus")
    tokenizer, window = load_tokenizer("smollm2-135m")
    with open_catalog(f"sqlite:///{folder}/catalog.sqlite", create=True) as catalog:
        artifacts = ArtifactStore(str(folder / "artifacts"))
        ingest(catalog, artifacts, str(samples.CORPUS), source="sandbox")
        freeze(catalog, artifacts, tokenizer, caps_for(window))
    return folder


@pytest.fixture
def settings(frozen_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A copy of it, to be changed at will; also what the command finds."""
    shutil.copytree(frozen_corpus, tmp_path / "var")
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path}/var/catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / "var" / "artifacts"))
    monkeypatch.setenv("DRSR_BACKBONE", "smollm2-135m")
    return load_settings(tmp_path)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """What git has of the bundled sample, in a folder of its own."""
    root = tmp_path / "samples"
    for name in IN_GIT:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (BUNDLED.root / name).is_dir():
            shutil.copytree(BUNDLED.root / name, root / name)
        else:
            shutil.copy(BUNDLED.root / name, root / name)
    monkeypatch.setattr(sample, "BUNDLED", Bundle(root))
    return Bundle(root)


def measured(settings: Settings) -> tuple[int, int]:
    with open_catalog(settings.catalog_url) as catalog, catalog.reading() as connection:
        return (
            connection.execute(select(func.count()).select_from(StateMeasurement)).scalar_one(),
            connection.execute(select(func.count()).select_from(Label)).scalar_one(),
        )


def take(settings: Settings, bundle: Bundle, corpus: Path = samples.CORPUS) -> tuple[int, int]:
    with open_catalog(settings.catalog_url) as catalog:
        taken = take_sample(catalog, ArtifactStore(settings.artifact_root), settings, bundle, corpus)
    assert taken.labels.unknown == taken.features.unknown == 0
    return taken.labels.taken, taken.features.taken


def test_it_fits_the_corpus_of_this_version_and_is_taken_over_once(settings: Settings, bundle: Bundle) -> None:
    described = orjson.loads(bundle.description.read_bytes())
    states = described["states"]
    assert take(settings, bundle) == (states, states)
    assert measured(settings)[0] == states
    assert take(settings, bundle) == (0, 0)
    remote = sum(path.stat().st_size for path in (bundle.root / "remote").rglob("*") if path.is_file())
    assert remote < 5_000_000


def test_measured_on_another_corpus(settings: Settings, bundle: Bundle, tmp_path: Path) -> None:
    corpus = tmp_path / "sandbox.jsonl.gz"
    corpus.write_bytes(samples.CORPUS.read_bytes() + b" ")
    with pytest.raises(SampleRefused, match="measured on another sample corpus") as refused:
        take(settings, bundle, corpus)
    assert "make sample" in str(refused.value.hint)
    assert measured(settings) == (0, 0)


def test_of_another_format(settings: Settings, bundle: Bundle) -> None:
    bundle.description.write_text('{"format": "drsr sample/0"}')
    with pytest.raises(SampleRefused, match="has format 'drsr sample/0'"):
        take(settings, bundle)


@pytest.mark.parametrize("damage", ["changed", "missing", "all"])
def test_files_that_are_not_what_they_were(settings: Settings, bundle: Bundle, damage: str) -> None:
    largest = max(
        (path for path in (bundle.root / "remote").rglob("*") if path.is_file()), key=lambda p: p.stat().st_size
    )
    if damage == "changed":
        largest.chmod(0o644)
        data = bytearray(largest.read_bytes())
        data[len(data) // 2] ^= 1
        largest.write_bytes(bytes(data))
    elif damage == "missing":
        largest.unlink()
    else:
        shutil.rmtree(bundle.root / "remote")
    with pytest.raises(ArtifactCorrupt, match="cannot be pulled"):
        take(settings, bundle)
    assert measured(settings) == (0, 0)


def test_files_that_do_not_belong(settings: Settings, bundle: Bundle) -> None:
    sample.pull(bundle)
    (bundle.measured / "label" / "labels" / "0.parquet").write_bytes(b"")
    with pytest.raises(ArtifactCorrupt, match="unsaved files"):  # DVC removes nothing that it does not know
        take(settings, bundle)
    with pytest.raises(ArtifactCorrupt, match="described files"):
        sample._state_keys(bundle, orjson.loads(bundle.description.read_bytes()))


@pytest.mark.parametrize("name", ["renderer_version", "layout_hash"])
def test_measured_otherwise(settings: Settings, bundle: Bundle, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this version of drsr rendered requests, or laid out features, in another way."""
    from drsr.offline.featurize import exports as feature_exports
    from drsr.offline.label import exports as label_exports

    module = label_exports if name == "renderer_version" else feature_exports
    what = "about_labels" if name == "renderer_version" else "about_features"
    before = getattr(module, what)
    monkeypatch.setattr(module, what, lambda *given: before(*given) | {name: "another"})
    with pytest.raises(SampleRefused, match=f'was made with {name} .*, this catalog has "another"'):
        take(settings, bundle)


def test_a_catalog_that_has_not_frozen_the_corpus(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRSR_CATALOG_URL", f"sqlite:///{tmp_path}/catalog.sqlite")
    monkeypatch.setenv("DRSR_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    open_catalog(f"sqlite:///{tmp_path}/catalog.sqlite", create=True).close()
    assert main([]) == 2
    refused = capsys.readouterr().err
    assert "none of its states is frozen" in refused
    assert "drsr ingest" in refused
    assert main(["--if-it-fits"]) == 0
    assert "nothing is taken over; drsr label will measure" in capsys.readouterr().out


def test_it_is_made_from_a_complete_catalog_and_the_same_again(
    settings: Settings, bundle: Bundle, tmp_path: Path
) -> None:
    take(settings, bundle)
    made = Bundle(tmp_path / "made")
    shutil.copytree(bundle.root / ".dvc", made.root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    with open_catalog(settings.catalog_url) as catalog:
        artifacts = ArtifactStore(settings.artifact_root)
        assert make_sample(catalog, artifacts, made) == measured(settings)[0]
        assert (made.root / "measured.dvc").read_text() == (BUNDLED.root / "measured.dvc").read_text()
        assert content(made.root / "remote") == content(BUNDLED.root / "remote")
        assert made.description.read_bytes() == bundle.description.read_bytes()
        with catalog.writing() as connection:
            for table in ("interaction", "label", "label_exclusion", "state_measurement"):
                connection.exec_driver_sql(f"DELETE FROM {table} WHERE state_id = 1")
        with pytest.raises(InputError, match="98 states are frozen, 97 labelled, 98 have features"):
            make_sample(catalog, artifacts, made)
    assert STAGES == ("label", "featurize")
