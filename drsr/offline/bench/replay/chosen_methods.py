"""Choose the comparators of an evaluation by name; nothing is fitted or imported for the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from drsr.errors import OneClassOnly, SettingsError
from drsr.offline.bench.comparators.lre import LreModel
from drsr.offline.bench.comparators.lre_training import fit_lre, train_requests
from drsr.offline.bench.comparators.registry import Registry
from drsr.offline.bench.comparators.token_counts import TokenCounts
from drsr.offline.catalog.engine import Catalog
from drsr.offline.store.artifacts import ArtifactStore
from drsr.offline.train.ablations import ABLATIONS, FULL, method_name


def wanted_names(option: str | None) -> list[str] | None:
    """Return `a,b` as names; None if everything is wanted."""
    return None if option is None else [name.strip() for name in option.split(",") if name.strip()]


def ablations_wanted(wanted: Collection[str] | None) -> bool:
    """Return whether one of DRSR's ablations is requested: training them takes long."""
    names = {method_name(name) for name in ABLATIONS if name != FULL.name}
    return wanted is None or not names.isdisjoint(wanted)


def lre_if_wanted(
    wanted: Collection[str] | None, catalog: Catalog, artifacts: ArtifactStore, counts: TokenCounts
) -> LreModel | None:
    """Return LRE's regression, fitted on the train split; None if it is not requested or there is nothing to learn."""
    if wanted is not None and "lre" not in wanted:
        return None
    try:
        return fit_lre(train_requests(catalog, artifacts), counts)
    except OneClassOnly:  # its row then says that it could not be trained
        return None


def choose(registry: Registry, wanted: Sequence[str] | None, always: Sequence[str] = ()) -> Registry:
    """Return the requested rows, always including `always`; raise SettingsError if one does not exist."""
    if wanted is None:
        return registry
    for name in wanted or [""]:
        if name not in registry.available:
            missing = registry.not_available.get(name)
            what = f"no method is called {name!r}" if missing is None else f"{name} cannot run here: {missing.reason}"
            raise SettingsError(what, hint=f"one of {', '.join(registry.available)}")
    chosen = {name: registry.available[name] for name in dict.fromkeys([*always, *wanted])}
    return registry._replace(available=chosen, not_available={})
