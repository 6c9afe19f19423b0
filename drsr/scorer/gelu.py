"""GELU with the exact error function, for numpy, which lacks one.

Training uses torch's kernel of the same function (its gradient comes with it, and it is one pass over the memory);
deciding must not import torch. Both are the erf form: `tests/scorer/test_gelu.py` holds them to float32 rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_P = 0.39 / 2**0.5
_HALF_Q = tuple(0.5 * c for c in (0.23533473, 0.09132694, 0.64971718, -0.63560138, 0.88679169, -0.22756916))
"""erfc(x) = Q(t) exp(-x^2) with t = 1 / (1 + 0.39 x) and Q a sextic without constant term, for x >= 0. The coefficients
are a minimax fit (Lawson's iteration on 20,001 Chebyshev points of [0, 6.5]); absolute error below 1e-8."""


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """x * Phi(x), elementwise. Written as relu(x) - |x| * Phi(-|x|), so that nothing cancels for negative x."""
    magnitude = np.abs(x)
    t = 1.0 / (1.0 + _P * magnitude)
    tail = t * _HALF_Q[5]
    for coefficient in _HALF_Q[4::-1]:
        tail += coefficient
        tail *= t
    with np.errstate(over="ignore"):  # beyond 1e19 the square is infinite and the tail 0, as it should be
        tail *= np.exp(-0.5 * magnitude * magnitude)
    return (np.maximum(x, 0.0) - magnitude * tail).astype(x.dtype, copy=False)
