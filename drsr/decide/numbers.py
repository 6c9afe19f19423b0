"""Every frozen number of a policy, with versions and hashes of all it was made with: the content of `policy.json`.

numbers = PolicyNumbers.from_json(json.loads(text))
numbers.check()          # refuses what this version of drsr would compute differently
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from typing import Any, get_args, get_origin, get_type_hints

from drsr.decide.candidates import BINS, MINIMUM, RULE_VERSION
from drsr.decide.distribution import DistributionNumbers
from drsr.decide.selection import SelectionRule
from drsr.errors import PolicyCorrupt, PolicyMismatch
from drsr.features.geometry import Geometry
from drsr.features.layout import FEATURES_VERSION, PROJECTION_SEED
from drsr.features.light import LIGHT_VERSION, LIGHT_VIEW, light_layout
from drsr.features.view_layouts import kind_with, layout_of
from drsr.request.history import RECENT_STEPS
from drsr.request.rendering import RENDERER_VERSION
from drsr.version import __version__

FORMAT = "drsr-policy/1"
"""Changes whenever an older reader would misread the file."""
LIGHT_FORMAT = "drsr-light-policy/1"
"""The same of a light policy: a reader that knows no such policies refuses it."""
_MOST_LAYERS, _MOST_MEMBERS, _LARGEST, _LONGEST = 256, 100, 10**9, 100
"""Of layers, heads, members, tokens and characters: far above what there is, and quick to refuse."""
FULL = "full"
"""Kind of a policy that reads with a language model; the other kind is called `light`, like its view."""


@dataclass(frozen=True, slots=True)
class BackboneNumbers:
    """The representation model that a policy reads with and cannot do without; for a light policy the model that
    labelled, whose tokens are counted and whose weights are not needed."""

    name: str
    """Name it is loaded by, such as `smollm2-135m`."""
    identity: str
    """SHA-256 over its weights and tokenizer."""
    dtype: str
    """Number format of its weights when the features were made that the scorer was trained on."""
    geometry: Geometry | None
    """Its layers and heads, which determine the feature layout; None for the scripted double and if nothing of them is
    read."""


@dataclass(frozen=True, slots=True)
class LightNumbers:
    """The tokenizer of a light policy, taken from the language model that measured its labels."""

    tokenizer_sha256: str
    """SHA-256 of the tokenizer's file, which ships with the policy."""
    tokenizer_identity: str
    """SHA-256 over what that file means; the same for every file that gives the same tokens."""
    light_version: str = LIGHT_VERSION


@dataclass(frozen=True, slots=True)
class PolicyNumbers:
    """Every frozen number that a decision depends on, apart from the scorer's weights."""

    version: str
    """The policy's own version, such as `2026.11.16`."""
    max_cardinality: int
    """K: most candidates deleted at once."""
    uncertainty_coefficient: float
    """beta: how much the members' disagreement counts into the unsafe score."""
    risk_threshold: float | None
    """tau: largest unsafe score of a set that may be deleted. None: no set may be deleted and the policy always
    abstains."""
    removal_cap: float
    """q_max: largest part of the full request's tokens that one decision may remove."""
    harm_tolerance: float
    """delta_H: measured harm above this was labelled unsafe; nats per token of the next output."""
    context_cap: int
    """Most tokens of a representation view; of a light policy, of the views that its labels were measured on."""
    target_cap: int
    """Most tokens of a recorded next output when labels were measured."""
    seeds: tuple[int, ...]
    """Random seeds of the ensemble's members."""
    backbone: BackboneNumbers
    layout_hash: str
    """Hash of the feature columns that the scorer reads."""
    calibration: dict[str, Any] = field(default_factory=dict)
    """Record of how the numbers above were chosen and what they gave on validation: for readers, not for deciding."""
    recent_steps: int = RECENT_STEPS
    bins: int = BINS
    minimum_candidates: int = MINIMUM
    projection_seed: int = PROJECTION_SEED
    rule_version: str = RULE_VERSION
    renderer_version: str = RENDERER_VERSION
    features_version: str = FEATURES_VERSION
    drsr_version: str = __version__
    """The drsr that made it."""
    light: LightNumbers | None = None
    """Numbers of a light policy; None, and not written, for a policy that reads with a language model."""
    distribution: DistributionNumbers | None = None
    """Limit on how far a request may be from the training states before a decision says so. None, and not written, for
    a policy made before this number existed or from too few states."""

    def __post_init__(self) -> None:
        _require(bool(self.version), "version", "not empty")
        _require(1 <= self.max_cardinality <= 4, "max_cardinality", "from 1 to 4")
        _require(self.uncertainty_coefficient >= 0, "uncertainty_coefficient", "not negative")
        _require(0 < self.removal_cap < 1, "removal_cap", "between 0 and 1")
        _require(self.risk_threshold is None or math.isfinite(self.risk_threshold), "risk_threshold", "finite or null")
        _require(0 < self.context_cap <= _LARGEST, "context_cap", f"from 1 to {_LARGEST:,}")
        _require(0 < self.target_cap <= _LARGEST, "target_cap", f"from 1 to {_LARGEST:,}")
        _require(len(self.version) <= _LONGEST, "version", f"at most {_LONGEST} characters long")
        _require(math.isfinite(self.uncertainty_coefficient), "uncertainty_coefficient", "finite")
        _require(math.isfinite(self.harm_tolerance), "harm_tolerance", "finite")
        _require(1 <= len(self.seeds) <= _MOST_MEMBERS, "seeds", f"from 1 to {_MOST_MEMBERS} numbers")
        _check_geometry(self.backbone.geometry)

    @property
    def always_abstains(self) -> bool:
        """True if calibration found nothing admissible: every request stays unchanged."""
        return self.risk_threshold is None

    @property
    def kind(self) -> str:
        """`full` or `light`."""
        return FULL if self.light is None else LIGHT_VIEW

    @property
    def view_cap(self) -> int:
        """Most tokens of a request that a decision reads. A light policy reads requests of any length."""
        return self.context_cap if self.light is None else sys.maxsize

    @property
    def rule(self) -> SelectionRule:
        threshold = -math.inf if self.risk_threshold is None else self.risk_threshold
        return SelectionRule(self.max_cardinality, self.removal_cap, threshold)

    def check(self) -> None:
        """Raise PolicyMismatch unless this version of drsr takes requests apart as the policy was trained for."""
        ours = {
            "rule_version": RULE_VERSION,
            "renderer_version": RENDERER_VERSION,
            "features_version": FEATURES_VERSION,
            "recent_steps": RECENT_STEPS,
            "bins": BINS,
            "minimum_candidates": MINIMUM,
            "projection_seed": PROJECTION_SEED,
        }
        for name, value in ours.items():
            if getattr(self, name) != value:
                raise PolicyMismatch(
                    f"it was made with {name} {getattr(self, name)!r}, this is {value!r}",
                    where=f"policy {self.version}",
                    hint=f"install drsr {self.drsr_version}, which made it, or a policy for drsr {__version__}",
                )
        self._check_layout()

    def _check_layout(self) -> None:
        """Refuse columns of the other kind of policy, and those of another version."""
        geometry = self.backbone.geometry
        if self.light is None and geometry is not None and kind_with(self.layout_hash, geometry) is not None:
            return
        expected = None if geometry is None else layout_of(geometry).hash
        whose = "its backbone's geometry"
        if self.light is not None:
            expected, whose = light_layout().hash, f"{LIGHT_VERSION}, which this drsr reads"
        elif self.layout_hash == light_layout().hash:
            raise PolicyMismatch(
                "it reads the columns of the view `light` and does not say that it is a light policy",
                where=f"policy {self.version}",
                hint="publish it from the view that it was trained on",
            )
        if expected is not None and self.layout_hash != expected:
            raise PolicyMismatch(
                f"its feature layout {self.layout_hash} is not the one of {whose}, {expected}",
                where=f"policy {self.version}",
                hint=f"install drsr {self.drsr_version}, which made it, or a policy for drsr {__version__}",
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, which `from_json` reads back exactly."""
        values = {**asdict(self), "format": FORMAT, "always_abstains": self.always_abstains}
        if self.light is None:
            del values["light"]  # as it was before there were light policies: the bytes are an identity
        else:
            values["format"] = LIGHT_FORMAT
        if self.distribution is None:
            del values["distribution"]
        geometry = self.backbone.geometry
        values["backbone"]["geometry"] = None if geometry is None else geometry._asdict()
        plain: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))  # tuples become lists
        return plain

    def to_bytes(self) -> bytes:
        """Return the content of `policy.json`: the same numbers give the same bytes."""
        return (json.dumps(self.to_json(), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def from_json(cls, values: Any) -> PolicyNumbers:
        """Read what `to_json` wrote. Raise PolicyCorrupt, which names the first wrong key."""
        if not isinstance(values, dict) or values.get("format") not in (FORMAT, LIGHT_FORMAT):
            raise PolicyCorrupt(
                f"is not a policy of format {FORMAT!r} or {LIGHT_FORMAT!r}",
                where="policy.json",
                hint="install the drsr that it asks for",
            )
        is_light = values["format"] == LIGHT_FORMAT
        _require(
            is_light == (values.get("light") is not None) and is_light == ("light" in values),
            "light",
            "there in a light policy, and nowhere else",
        )
        _require(values.get("distribution", ...) is not None, "distribution", "left out where there is none")
        written = {key: value for key, value in values.items() if key not in ("format", "always_abstains")}
        numbers: PolicyNumbers = _read(cls, {"light": None, "distribution": None, **written})
        if values.get("always_abstains") is not numbers.always_abstains:
            raise PolicyCorrupt("always_abstains contradicts risk_threshold", where="policy.json")
        return numbers


def _read(kind: type[Any], values: Any, name: str = "") -> Any:
    """Return a dataclass or NamedTuple from an object with exactly its keys, each of its type."""
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)] if hasattr(kind, "__dataclass_fields__") else list(kind._fields)
    if not isinstance(values, dict) or set(values) != set(names):
        _require(False, name or "the file", f"an object with the keys {', '.join(names)}")
    return kind(**{key: _value(hints[key], values[key], f"{name}.{key}" if name else key) for key in names})


def _value(kind: Any, value: Any, name: str) -> Any:
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is tuple:
        _require(isinstance(value, list), name, "a list")
        return tuple(_value(options[0], item, name) for item in value)
    if get_origin(kind) is dict:
        _require(isinstance(value, dict), name, "an object")
        return value
    if options:  # X | None
        return None if value is None else _value(options[0], value, name)
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"):
        return _read(kind, value, name)
    if kind is float and type(value) is int:
        return float(value)
    _require(type(value) is kind, name, f"of type {kind.__name__}")
    return value


def _check_geometry(geometry: Geometry | None) -> None:
    """Check the geometry: a layout is built from it, so it must have the size of a language model."""
    if geometry is None:
        return
    name = "backbone.geometry"
    for part in ("layers", "heads"):
        _require(1 <= getattr(geometry, part) <= _MOST_LAYERS, f"{name}.{part}", f"from 1 to {_MOST_LAYERS}")
    full = geometry.full_attention
    ascending = all(before < after for before, after in pairwise((0, *full, geometry.layers + 1)))
    _require(bool(full) and ascending, f"{name}.full_attention", "some of its layers, ascending")


def _require(holds: bool, name: str, what: str) -> None:
    if not holds:
        raise PolicyCorrupt(f"{name} must be {what}", where="policy.json")
