"""numpy's GELU is torch's exact one, to float32 rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from drsr.scorer.gelu import gelu


def test_it_is_the_erf_form_to_float32_rounding() -> None:
    x = np.linspace(-12, 12, 200_001, dtype=np.float32)
    exact = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)])
    found = gelu(x)
    assert found.dtype == np.float32
    assert np.abs(found - exact).max() < 3e-7  # half a unit in the last place of 4.0 is 2.4e-7
    # The tanh approximation would be off by a thousand times more: this is not it.
    tanh = torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy()
    assert np.abs(tanh - exact).max() > 3e-4


def test_it_agrees_with_the_kernel_that_trains() -> None:
    x = np.random.default_rng(1).normal(0, 3, 50_000).astype(np.float32)
    # Ours is off the exact value by at most 2.4e-7, torch's by up to 1.0e-6, on some processors less.
    np.testing.assert_allclose(gelu(x), torch.nn.functional.gelu(torch.from_numpy(x)).numpy(), atol=1.5e-6, rtol=0)


def test_the_error_function_itself_is_good_to_1e_8() -> None:
    x = np.linspace(0.01, 9, 20_001)
    wide: Any = x  # in float64: what is left is the fit's error
    tail = 1 - gelu(wide) / x
    exact = np.array([0.5 * math.erfc(v / math.sqrt(2)) for v in x])
    assert np.abs(tail - exact).max() < 1e-8


def test_extreme_values_do_not_overflow() -> None:
    x = np.array([-1e30, -100.0, 0.0, 100.0, 1e18], dtype=np.float32)
    assert gelu(x).tolist() == [0.0, 0.0, 0.0, 100.0, x[4]]
