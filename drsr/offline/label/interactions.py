"""What adding up the harms of single Blocks misses (paper, Eq. interaction). Diagnosis only: no label is made from it.

Sets are given by their masks, as in `DeletionSet.mask`: bit i is set when candidate i is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

Harms = Mapping[int, float]
"""Measured harm H(A) of the sets of one state, by mask."""


def harm_of(harms: Harms, mask: int) -> float:
    """H(A); deleting nothing does no harm."""
    return harms[mask] if mask else 0.0


def conditional_harm(harms: Harms, block: int, given: int) -> float:
    """H(B | A) = H(A and B) - H(A): what deleting candidate number `block` adds when `given` is deleted."""
    if given & (1 << block):
        raise ValueError(f"candidate {block} is already deleted in set {given:#b}")
    return harm_of(harms, given | (1 << block)) - harm_of(harms, given)


def interactions(harms: Harms) -> dict[int, float]:
    """I(A) = H(A) - the sum of its members' harms, for every set of two or more all of whose parts were measured."""
    return {mask: harms[mask] - sum(harms[m] for m in members(mask)) for mask in harms if _is_joint(harms, mask)}


def pair_interactions(harms: Harms) -> dict[tuple[int, int], float]:
    """J_ij = H({i, j}) - H({i}) - H({j}), by the two candidates' numbers."""
    pairs = {mask: members(mask) for mask in harms if mask.bit_count() == 2}
    residuals = interactions(harms)
    numbers = {mask: (one.bit_length() - 1, other.bit_length() - 1) for mask, (one, other) in pairs.items()}
    return {numbers[mask]: residuals[mask] for mask in pairs if mask in residuals}


def members(mask: int) -> list[int]:
    """The singletons of a set, as masks."""
    return [1 << bit for bit in range(mask.bit_length()) if mask & (1 << bit)]


def _is_joint(harms: Harms, mask: int) -> bool:
    return mask.bit_count() > 1 and all(member in harms for member in members(mask))
