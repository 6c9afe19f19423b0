"""Fixed Gaussian projections (paper, Eq. projection), the same bits on every platform and library version.

A library's random numbers may change with its version, and the logarithm or cosine of one C library differs from
another's in the last bit. So the matrix is defined here, by operations that IEEE 754 rounds exactly one way:

1. SplitMix64 (Steele, Lea, Flood 2014) with state = seed: number k is mix(seed + (k + 1) * 0x9E3779B97F4A7C15).
2. Its upper 52 bits b give u = (b + 1/2) / 2^52, strictly between 0 and 1, exact in a double.
3. x = the inverse normal distribution function of u, by Wichura's algorithm AS 241 (PPND16, relative error 1e-16).
   It needs + - * / and square root, and in the tails a logarithm, which is computed here from + - * / as well.
4. The entry is x / 8 (variance 1/64) rounded to float32. Row by row: entry (i, j) is number 64 i + j.

numpy rounds every one of these operations on its own; nothing is fused or reordered.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from drsr.features.layout import PROJECTED, PROJECTION_SEED

Doubles = NDArray[np.float64]

_GOLDEN, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF_SQRT_2 = 0.7071067811865476
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, the first with trailing zero bits, so that its product with an exponent is exact."""
_LOG_TERMS = 13
"""Terms of the series for the logarithm: the first one left out is below 1e-20."""

# Coefficients of AS 241, constant term first: numerator and denominator of each of its three rational functions.
_CENTRE = (
    (3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


@lru_cache(maxsize=16)
def projection_matrix(layer: int, size: int) -> NDArray[np.float32]:
    """R for a layer (from 1) of `size` dimensions: [size, 64], read-only. A larger one begins with the same rows."""
    uniforms = uniform(PROJECTION_SEED + layer, size * PROJECTED)
    matrix = (inverse_normal(uniforms) / 8.0).astype(np.float32).reshape(size, PROJECTED)
    matrix.flags.writeable = False
    return matrix


def split_mix(seed: int, count: int) -> NDArray[np.uint64]:
    """Return the first numbers of SplitMix64 from a seed."""
    # uint64 arithmetic of arrays wraps around, as the algorithm wants it.
    state = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


def uniform(seed: int, count: int) -> Doubles:
    """Strictly between 0 and 1, in steps of 2^-52."""
    bits: Doubles = (split_mix(seed, count) >> np.uint64(12)).astype(np.float64)
    return (bits + 0.5) * 2.0**-52


def inverse_normal(probability: Doubles) -> Doubles:
    """Return the standard normal quantile of each probability strictly between 0 and 1."""
    centred = probability - 0.5
    smaller = np.minimum(probability, 1.0 - probability)
    root = np.sqrt(-logarithm(smaller))
    far = root > 5.0
    tail = np.where(far, _rational(_FAR_TAIL, root - 5.0), _rational(_TAIL, root - 1.6))
    centre = centred * _rational(_CENTRE, 0.180625 - centred * centred)
    return np.where(np.abs(centred) <= 0.425, centre, np.where(centred < 0.0, -tail, tail))


def logarithm(value: Doubles) -> Doubles:
    """Return the natural logarithm of m 2^e, from exactly rounded operations: 2 atanh((m - 1) / (m + 1)) + e ln 2."""
    mantissa, exponent = np.frexp(value)
    small = mantissa < _HALF_SQRT_2
    mantissa = np.where(small, mantissa * 2.0, mantissa)  # now between sqrt(1/2) and sqrt(2)
    power = (exponent - small).astype(np.float64)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.full_like(ratio, 1.0 / (2 * _LOG_TERMS - 1))
    for term in range(_LOG_TERMS - 1, 0, -1):
        series = series * square + 1.0 / (2 * term - 1)
    return power * _LN_2_HIGH + (2.0 * ratio * series + power * _LN_2_LOW)


def _rational(coefficients: tuple[tuple[float, ...], tuple[float, ...]], at: Doubles) -> Doubles:
    """Return a quotient of two polynomials, both by Horner's rule."""
    values = []
    for polynomial in coefficients:
        total = np.full_like(at, polynomial[-1])
        for coefficient in reversed(polynomial[:-1]):
            total = total * at + coefficient
        values.append(total)
    quotient: Doubles = values[0] / values[1]
    return quotient
