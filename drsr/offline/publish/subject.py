"""The subject of all checks: a policy, its calibration, and everything that led to it, each read once.

Nothing here judges. If something cannot be read, every check that needs it fails with that reason, and the others still
run. Publishing checks a candidate, which is not yet in the store or the catalog, and may keep what it has read; an
audit checks a release, and reads everything itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

from drsr.backbone.catalogue import load_backbone
from drsr.backbone.frozen_lm import FrozenLM
from drsr.decide.numbers import PolicyNumbers
from drsr.errors import (
    ArtifactCorrupt,
    BackboneError,
    CatalogError,
    InputError,
    PolicyCorrupt,
    ScorerNotTrained,
)
from drsr.offline.catalog.engine import Catalog
from drsr.offline.featurize.light_reader import LightReader, load_light_reader
from drsr.offline.featurize.views import RegisteredView
from drsr.offline.publish.candidate import Built
from drsr.offline.publish.lineage import Link, Traced, read_lineage, trace
from drsr.offline.publish.lineage_rows import NamedLabeler, labeler_of, present_states, view_of
from drsr.offline.publish.records import ReleaseRecord, find_release, latest_releases
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.store.kept import Kept
from drsr.offline.train.records import (
    CalibrationRecord,
    TrainingRecord,
    find_calibration,
    get_training_run,
    latest_calibrations,
)
from drsr.offline.train.stage import load_trained
from drsr.policy.description import LINEAGE_FILE
from drsr.policy.folder import PolicyFiles
from drsr.policy.location import read_found, read_wheel_policy
from drsr.request.contracts import Backbone
from drsr.scorer.frozen import FrozenScorer

Value = TypeVar("Value")


class Order(NamedTuple):
    """The options of an audit."""

    policy: str | None = None
    """A wheel, a folder or an installed package; by default the latest release of the catalog."""
    sample: int | None = 10
    """Number of states to compute again; None means all."""
    seed: int = 0
    """Seed of the sample: another number draws another sample."""
    backbone: str | None = None
    """Another name for the same language model."""
    device: str = "cpu"
    certified: bool = False
    """True to audit the latest certified calibration, and not the latest plain one, if nothing is published yet."""
    retrain: bool | None = False
    """Train the scorer again, which takes as long as training did. None: only if that took under ten minutes."""
    promise: bytes | None = None
    """Promise made before labels were read: the content of a file that `drsr promise` wrote."""
    anchor: bytes | None = None
    """Heads of the journal that were recorded elsewhere: the content of a file that `drsr journal` added to."""

    @property
    def mode(self) -> str:
        return "certified" if self.certified else "plain"


class ShippedLineage(NamedTuple):
    """The lineage that a policy claims."""

    links: tuple[Link, ...]
    states: str
    """Key of the list of its states."""


class PolicyCandidate(NamedTuple):
    """A policy that is to be published if it passes, as far as it has come."""

    traced: Traced
    may_abstain_always: bool = False
    """True if the operator allows it when calibration found nothing admissible."""
    numbers: PolicyNumbers | None = None
    backbone: Backbone | LightReader | None = None
    """Reader that the policy reads with."""
    built: Built | None = None
    """Its wheel, and the list of states that it was made from."""


class Subject:
    """A policy and what it rests on, read when a check asks for it."""

    def __init__(
        self,
        catalog: Catalog,
        artifacts: ArtifactStore,
        order: Order,
        candidate: PolicyCandidate | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.catalog, self.artifacts, self.order = catalog, artifacts, order
        self.candidate = candidate
        self.kept = kept
        """Values that a night has read and judged before; None in an audit."""
        self._read: dict[str, Any] = {}
        with catalog.reading() as connection:
            released = latest_releases(connection, 1)
            calibrated = latest_calibrations(connection, 1)
            of_mode = latest_calibrations(connection, 1, order.mode)
        if not calibrated:
            raise ScorerNotTrained("nothing is calibrated yet, so there is nothing to audit", hint="drsr calibrate")
        self._latest = released[0] if released else None
        self._unpublished = of_mode[0] if of_mode else None
        if candidate is not None:
            return
        if not self.has_policy and self._unpublished is None:
            raise ScorerNotTrained(
                f"nothing is published yet, and nothing is calibrated in the {order.mode} mode",
                hint="drsr audit" if order.certified else "drsr audit --certified",
            )
        if self.has_policy:
            try:
                _ = self.policy
            except InputError:  # no such file: somebody mistyped, and there is nothing to audit
                raise
            except Exception:  # damaged, or made for another version: the checks will say so
                pass

    @property
    def has_policy(self) -> bool:
        """False: nothing is published yet, and the latest calibration of a mode is audited: what would be next."""
        if self.candidate is not None:
            return self.candidate.built is not None
        return self.order.policy is not None or self._latest is not None

    @property
    def named(self) -> str:
        """Return the name of what is audited, without the folders of this machine."""
        if self.candidate is not None:
            return "the calibration" if self.candidate.built is None else self.candidate.built.wheel.file_name
        if self.order.policy is not None:
            return Path(self.order.policy).name
        return self._latest.file_name if self._latest is not None else f"the latest {self.order.mode} calibration"

    @property
    def wheel(self) -> bytes | None:
        """Return the wheel's bytes; None for a folder, for an installed package, or if nothing is published."""
        return self._once("wheel", self._read_wheel)

    @property
    def wheel_sha256(self) -> str | None:
        return None if self.wheel is None else hashlib.sha256(self.wheel).hexdigest()

    @property
    def policy(self) -> PolicyFiles:
        """Return the policy's files, every one checked against the manifest. Raise PolicyCorrupt if one differs from
        its entry."""
        return self._once("policy", self._read_policy)

    @property
    def lineage(self) -> ShippedLineage:
        """The hash chain that ships with the policy."""
        return self._once("lineage", self._read_lineage)

    @property
    def release(self) -> ReleaseRecord | None:
        """The catalog's row of the policy's version."""
        with self.catalog.reading() as connection:
            return find_release(connection, self.policy.numbers.version)

    @property
    def calibration(self) -> CalibrationRecord:
        """The catalog's row of the calibration that the policy names; without a policy the latest of its mode."""
        return self._once("calibration", self._find_calibration)

    @property
    def run(self) -> TrainingRecord:
        """The catalog's row of the training run that was calibrated."""
        return self._once("run", self._find_run)

    @property
    def view(self) -> RegisteredView:
        """The feature view that it was fitted on."""
        with self.catalog.reading() as connection:
            return view_of(connection, self.run.view_id)

    @property
    def labeler(self) -> NamedLabeler:
        """The labeler whose labels it was fitted on."""
        with self.catalog.reading() as connection:
            return labeler_of(connection, self.run.labeler_id)

    @property
    def state_keys(self) -> list[str]:
        """Return the states that the policy says it was made from; without a policy, the present ones."""
        return self._once("state keys", self._read_state_keys)

    @property
    def made_from(self) -> list[str] | None:
        """Return the states that samples are drawn from: the policy's own, or None without a policy."""
        return self.state_keys if self.has_policy else None

    @property
    def drawn_from(self) -> str:
        """Return the same in words, to follow a number."""
        return "states of the policy" if self.has_policy else "states"

    @property
    def traced(self) -> Traced:
        """Return everything that led to the calibration, read again, with every link computed again. If a row is so
        wrong that no frame can be made of it, this is an error; checks that need no frame ask the properties above."""
        return self._once("traced", self._trace)

    @property
    def shipped_scorer(self) -> FrozenScorer:
        """Return the scorer that decides: the policy's own; without a policy the trained one."""
        return self.policy.scorer if self.has_policy else load_trained(self.artifacts, self.run)

    def light_reader(self, name: str, identity: str) -> LightReader:
        """Return the reader that computes the view `light`; raise BackboneError if the language model on this machine
        differs."""
        reader = self._once(f"light reader {name}", lambda: load_light_reader(self.order.backbone or name))
        self._refuse_other(reader.name, reader.identity, identity)
        return reader

    def backbone(self, name: str, dtype: str, identity: str) -> FrozenLM:
        """Return the language model of that identity; raise BackboneError if the one on this machine differs."""

        def load() -> FrozenLM:
            found = load_backbone(self.order.backbone or name, device=self.order.device, dtype=dtype)
            assert isinstance(found, FrozenLM)  # features and labels have no other kind
            return found

        held = self.candidate.backbone if self.candidate is not None else None
        model = held if isinstance(held, FrozenLM) else self._once(f"backbone {name} {dtype}", load)
        self._refuse_other(model.name, model.identity, identity)
        return model

    @staticmethod
    def _refuse_other(name: str, here: str, recorded: str) -> None:
        if here != recorded:
            raise BackboneError(
                f"{name} on this machine is {here}, the recorded one was {recorded}",
                hint="name the folder of the recorded model with --backbone path:FOLDER",
            )

    def _once(self, what: str, make: Callable[[], Value]) -> Value:
        """Return the same result to every caller, even if it is an error: any error, for a policy may be hostile."""
        if what not in self._read:
            try:
                self._read[what] = make()
            except Exception as error:
                self._read[what] = error
        found: Value | Exception = self._read[what]
        if isinstance(found, Exception):
            raise found
        return found

    def _read_wheel(self) -> bytes | None:
        if self.candidate is not None:
            return None if self.candidate.built is None else self.candidate.built.wheel.data
        if self.order.policy is None:
            return None if self._latest is None else self.artifacts.get(self._latest.wheel)
        path = Path(self.order.policy)
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=self.order.policy) from None

    def _read_policy(self) -> PolicyFiles:
        return read_found(self.order.policy) if self.wheel is None else read_wheel_policy(self.wheel, self.named)

    def _read_lineage(self) -> ShippedLineage:
        data = self.policy.others.get(LINEAGE_FILE)
        if data is None:
            raise PolicyCorrupt("ships without a lineage", where=self.named, hint="audit a policy that was published")
        return ShippedLineage(*read_lineage(data, self.named))

    def _find_calibration(self) -> CalibrationRecord:
        if self.candidate is not None and self.candidate.built is None:
            return self.candidate.traced.calibration
        if not self.has_policy:
            assert self._unpublished is not None  # or there is no subject
            return self._unpublished
        key = str(self.policy.numbers.calibration.get("key"))
        with self.catalog.reading() as connection:
            found = find_calibration(connection, key)
        if found is None:
            raise CatalogError(
                f"the calibration that {self.named} names, {key}, is not in this catalog",
                where=self.catalog.location,
                hint="set DRSR_CATALOG_URL to the catalog that published it",
            )
        return found

    def _find_run(self) -> TrainingRecord:
        with self.catalog.reading() as connection:
            return get_training_run(connection, self.calibration.training_run_id)

    def _trace(self) -> Traced:
        if self.candidate is not None:
            return self.candidate.traced
        return trace(self.catalog, self.artifacts, self.calibration, self.state_keys)

    def _read_state_keys(self) -> list[str]:
        if not self.has_policy:
            view, labeler = self.view, self.labeler
            with self.catalog.reading() as connection:
                return present_states(connection, view, labeler, source=self.run.source)
        built = self.candidate.built if self.candidate is not None else None
        stored = self.artifacts.get(self.lineage.states) if built is None else built.states.data
        try:
            keys = orjson.loads(stored)
        except orjson.JSONDecodeError:
            keys = None
        if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
            raise ArtifactCorrupt(
                f"artifact {self.lineage.states} is not a list of states", where=self.artifacts.location
            )
        return keys
