"""The suites, one file per dataset: every rule with its name, the expectation that says it, and what to do."""

from __future__ import annotations

from drsr.expectations.rules import Suite
from drsr.expectations.suites import calibration, features, labels, policy, splits, states, trajectories

SUITES: dict[str, Suite] = {
    module.SUITE.dataset: module.SUITE
    for module in (trajectories, states, labels, features, splits, calibration, policy)
}
