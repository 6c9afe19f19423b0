"""The frozen numbers of `params.yaml` as dataclasses. A key too many, too few or of the wrong type is an error."""

from __future__ import annotations

import math
import os
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from drsr.errors import SettingsError
from drsr.offline.stages import NAMES

PARAMS_FILE = "params.yaml"
T = TypeVar("T")


SCORERS = ("network", "linear", "trees", "stack")
"""The kinds of scorer: the paper's networks, linear models, boosted trees, or the average of the last two."""


@dataclass(frozen=True, slots=True)
class TreesParams:
    """Block `train.trees`."""

    trees: int
    learning_rate: float
    max_leaves: int
    min_leaf_sets: int
    l2: float
    column_share: float
    bins: int
    harm_limit: float

    def __post_init__(self) -> None:
        _positive(self, "trees", "learning_rate", "min_leaf_sets", "harm_limit")
        _require(self.max_leaves >= 2, "train.trees.max_leaves", "at least 2")
        _require(2 <= self.bins <= 255, "train.trees.bins", "from 2 to 255")
        _require(self.l2 >= 0, "train.trees.l2", "not negative")
        _require(0 < self.column_share <= 1, "train.trees.column_share", "above 0, at most 1")


@dataclass(frozen=True, slots=True)
class LinearParams:
    """Block `train.linear`."""

    inverse_penalty: float
    harm_limit: float

    def __post_init__(self) -> None:
        _positive(self, "inverse_penalty", "harm_limit")


@dataclass(frozen=True, slots=True)
class TrainParams:
    """Block `train`; each number is explained below it."""

    seeds: tuple[int, ...]
    max_epochs: int
    evaluate_every: int
    patience: int
    learning_rate: float
    weight_decay: float
    gradient_clip: float
    harm_scale_floor: float
    meaningful_gap: float
    ranking_minimum_gap: float
    ranking_full_gap: float
    ranking_base_weight: float
    ranking_weight: float
    regression_weight: float
    classification_weight: float
    brier_weight: float
    smooth_l1_beta: float
    max_positive_weight: float
    scorer: str = "network"
    column_groups: tuple[str, ...] = ()
    folds: int = 0
    source_balance: float = 0.0
    source: str | None = None
    """Only states of this source, such as one tenant's; None: of all."""
    trees: TreesParams = field(default_factory=lambda: TreesParams(200, 0.03, 6, 20, 1.0, 0.2, 64, 0.15))
    linear: LinearParams = field(default_factory=lambda: LinearParams(3.0e-4, 0.15))

    def __post_init__(self) -> None:
        _require(self.scorer in SCORERS, "train.scorer", f"one of {', '.join(SCORERS)}")
        _require(self.folds == 0 or self.folds >= 2, "train.folds", "0 or at least 2")
        _require(0 <= self.source_balance <= 1, "train.source_balance", "from 0 to 1")
        _require(self.source is None or bool(self.source.strip()), "train.source", "the name of a source")
        _require(self.source_balance == 0 or self.scorer != "network", "train.source_balance", "0 for networks")
        _positive(self, "max_epochs", "evaluate_every", "patience", "learning_rate", "gradient_clip")
        _positive(self, "harm_scale_floor", "meaningful_gap", "ranking_full_gap", "smooth_l1_beta")
        _positive(self, "max_positive_weight")
        _require(len(set(self.seeds)) == len(self.seeds) > 0, "train.seeds", "one different seed per member")

    def recorded(self) -> dict[str, Any]:
        """Return what a training run writes down, and is identified by.

        The paper's networks on all columns have the keys of the days when there was nothing else, so that what was
        trained then is found again.
        """
        values = asdict(self)
        for name in ("source_balance", "source"):
            if not values[name]:  # what was trained before there was one is found again
                del values[name]
        if self.scorer == "network" and not self.column_groups and not self.folds:
            for name in ("scorer", "column_groups", "folds", "trees", "linear"):
                del values[name]
        return values


@dataclass(frozen=True, slots=True)
class CertifiedParams:
    """Block `calibrate.certified`."""

    max_unsafe_rate: float
    confidence: float
    max_cardinalities: tuple[int, ...]
    uncertainty_coefficients: tuple[float, ...]
    coverages: tuple[float, ...]
    starts: int
    max_group_states: int

    def __post_init__(self) -> None:
        _fraction(self, "max_unsafe_rate", "confidence")
        _cardinalities("calibrate.certified", self.max_cardinalities)
        _coefficients("calibrate.certified", self.uncertainty_coefficients)
        rising = all(low < high for low, high in zip(self.coverages, self.coverages[1:], strict=False))
        inside = bool(self.coverages) and self.coverages[0] > 0 and self.coverages[-1] <= 1
        _require(rising and inside, "calibrate.certified.coverages", "rising numbers above 0, up to 1")
        within = 1 <= self.starts <= len(self.coverages)
        _require(within, "calibrate.certified.starts", "a number from 1 to the number of coverages")
        _require(self.max_group_states >= 1, "calibrate.certified.max_group_states", "a number of at least 1")


@dataclass(frozen=True, slots=True)
class CalibrateParams:
    """Block `calibrate`."""

    max_cardinalities: tuple[int, ...]
    uncertainty_coefficients: tuple[float, ...]
    removal_cap: float
    max_unsafe_rate: float
    max_mean_harm: float
    certified: CertifiedParams
    source_balance: float = 0.0

    def __post_init__(self) -> None:
        _fraction(self, "removal_cap", "max_unsafe_rate")
        _cardinalities("calibrate", self.max_cardinalities)
        _coefficients("calibrate", self.uncertainty_coefficients)
        _require(0 <= self.source_balance <= 1, "calibrate.source_balance", "from 0 to 1")

    def recorded(self) -> dict[str, Any]:
        """Return what a calibration writes down, and is identified by."""
        values = asdict(self)
        if not self.source_balance:  # what was calibrated before there was one is found again
            del values["source_balance"]
        return values


@dataclass(frozen=True, slots=True)
class Params:
    """The blocks that have a reader. Blocks of other stages are left to theirs."""

    train: TrainParams
    calibrate: CalibrateParams


def params_file() -> Path:
    """Return the file that `DRSR_PARAMS` names, else `params.yaml` of the working directory, else the one of this
    code."""
    if named := os.environ.get("DRSR_PARAMS"):
        return Path(named)
    package = Path(__file__).resolve().parent
    shipped = (package, package.parents[1])  # installed, or in the source tree
    for folder in (Path.cwd(), *shipped):
        if (folder / PARAMS_FILE).is_file():
            return folder / PARAMS_FILE
    raise SettingsError(f"{PARAMS_FILE} is missing from this installation", hint="install drsr again")


def load_params(path: Path | None = None) -> Params:
    """Read the file, by default `params_file()`; SettingsError names the first key that is wrong."""
    path = path or params_file()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"cannot be read: {error}", where=str(path)) from None
    try:
        blocks = _mapping(document, "the file")
        for name in blocks:
            _require(name in NAMES, str(name), f"one of the stages {', '.join(NAMES)}")
        return Params(
            train=_block(TrainParams, _of(blocks, "train"), "train"),
            calibrate=_block(CalibrateParams, _of(blocks, "calibrate"), "calibrate"),
        )
    except SettingsError as error:
        raise SettingsError(error.what, where=str(path), hint=error.hint) from None


def train_params(values: object) -> TrainParams:
    """Block `train` as a recorded run has it."""
    return _block(TrainParams, values, "train")


def calibrate_params(values: object) -> CalibrateParams:
    """Return a block `calibrate` as it was recorded with a calibration."""
    return _block(CalibrateParams, values, "calibrate")


def _block(kind: type[T], value: object, name: str) -> T:
    values = _mapping(value, name)
    known = fields(kind)  # type: ignore[arg-type]
    names = [item.name for item in known]
    unknown = sorted(set(map(str, values)) - set(names))
    if unknown:
        raise SettingsError(f"unknown key {name}.{unknown[0]}", hint=f"the keys are {', '.join(names)}")
    kinds = get_type_hints(kind)
    # What has a default was not there in every version: a recorded run may lack it.
    needed = [item.name for item in known if item.default is MISSING and item.default_factory is MISSING]
    given = [name for name in names if name in values or name in needed]
    return kind(**{key: _value(kinds[key], _of(values, key, name), f"{name}.{key}") for key in given})


def _value(kind: Any, value: object, name: str) -> Any:
    if is_dataclass(kind):
        return _block(kind, value, name)  # type: ignore[arg-type]
    if get_origin(kind) is UnionType:
        return None if value is None else _value(get_args(kind)[0], value, name)
    if get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise SettingsError(f"{name} must be a list, not {value!r}")
        return tuple(_value(get_args(kind)[0], item, f"{name}[{place}]") for place, item in enumerate(value))
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        _require(math.isfinite(value), name, "finite")
        return float(value)
    if type(value) is not kind:
        hint = "write an exponent as 2.0e-3: YAML reads 2e-3 as text" if isinstance(value, str) else None
        raise SettingsError(f"{name} must be of type {kind.__name__}, not {value!r}", hint=hint)
    return value


def _mapping(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise SettingsError(f"{name} must be a block of keys and values, not {value!r}")
    return value


def _of(values: dict[str, object], key: str, name: str | None = None) -> object:
    if key not in values:
        raise SettingsError(f"missing key {f'{name}.{key}' if name else key}")
    return values[key]


def _require(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise SettingsError(f"{name} must be {what}")


def _positive(block: object, *names: str) -> None:
    for name in names:
        _require(getattr(block, name) > 0, name, "above 0")


def _fraction(block: object, *names: str) -> None:
    for name in names:
        _require(0 < getattr(block, name) < 1, name, "between 0 and 1")


def _cardinalities(block: str, values: tuple[int, ...]) -> None:
    _require(bool(values) and all(1 <= value <= 4 for value in values), f"{block}.max_cardinalities", "from 1 to 4")


def _coefficients(block: str, values: tuple[float, ...]) -> None:
    _require(bool(values) and min(values) >= 0, f"{block}.uncertainty_coefficients", "not negative")
